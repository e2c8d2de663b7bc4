//! What looking at a name needs beside its directory: the names of files with several, and what is told.

use std::os::fd::BorrowedFd;

use rustix::fs::{self, FileType};
use rustix::io::Errno;

use super::following::Following;
use super::overlay::Overlay;
use super::{Entry, Origins, PassedOver, Unopened};
use crate::at;
use crate::attributes::{Collector, HardLinks, Seen};
use crate::beneath::kind;
use crate::select::Selection;
use fobs_filter::XattrRules;
use fobs_filter::path::show;
use fobs_model::event::FileError;
use fobs_model::name::Component;

/// What looking at a name needs beside its directory.
pub(super) struct Search<'a> {
    pub(super) collector: &'a Collector,
    /// What the directory says of names of extended attributes.
    pub(super) rules: Option<&'a XattrRules>,
    pub(super) links: &'a mut HardLinks,
    pub(super) passed_over: &'a PassedOver,
    pub(super) queued: &'a mut Option<Entry>,
    /// Lists what is not kept too: of a sync, whose receiver must not delete what has its name.
    pub(super) lists_all: bool,
    pub(super) origins: Origins,
    /// Links that stand for what they lead to.
    pub(super) following: Option<&'a Following>,
    /// All sources, where they may have paths in common.
    pub(super) overlay: Option<&'a Overlay>,
}

impl Search<'_> {
    /// A place in the directory, for which its rules hold.
    pub(super) fn placed(&self, place: Unopened) -> Unopened {
        match self.rules {
            Some(rules) => Unopened::Ruled(Box::new(place), rules.clone()),
            None => place,
        }
    }

    /// What a name is taken for: a file may stand for something else (`--fake-super`), and a device for a
    /// file (`--copy-devices`).
    pub(super) fn taken_for(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        file_type: FileType,
    ) -> Result<FileType, Errno> {
        match file_type {
            FileType::RegularFile if self.collector.preserve.fake_super => {
                let stat = at::stat(directory, Component::new(name)?)?;
                self.collector.seen_at(directory, name, &stat).map(|seen| kind(&seen))
            }
            FileType::BlockDevice | FileType::CharacterDevice if self.collector.copies_devices => {
                Ok(FileType::RegularFile)
            }
            file_type => Ok(file_type),
        }
    }

    /// Whether another source's entry of this path counts, and not the current one's, which is no directory.
    pub(super) fn is_of_another_source(&self, path: &[u8], selection: Option<&Selection>) -> bool {
        self.overlay.is_some_and(|overlay| overlay.hides(path, selection))
    }

    /// The path of the file's first name, if this is another one and hard links are kept.
    pub(super) fn first_name(&mut self, stat: &fs::Stat, path: &[u8]) -> Option<Vec<u8>> {
        if !self.collector.preserve.hard_links {
            return None;
        }
        match self.links.see(stat, path) {
            Seen::First => None,
            Seen::Again(first) => Some(first),
            Seen::NotRemembered => {
                if !self.links.is_told() {
                    let message = format!(
                        "cannot remember more hard links: '{}' and later ones become files of their own; copy parts of the tree one by one",
                        show(path)
                    );
                    *self.queued = Some(Entry::Failed(FileError { path: path.to_vec(), message }));
                }
                None
            }
        }
    }

    /// No later name leads to one that failed.
    pub(super) fn forget_failed(&mut self, entry: &Entry, stat: &fs::Stat) {
        if let Entry::Failed(_) = entry {
            self.links.forget(stat);
        }
    }
}
