//! What a source is made of, and what it makes.

use std::sync::Arc;

use super::Source;
use crate::attributes::Preserve;
use crate::beneath::Base;
use crate::walk::{Named, NamedLinks, Unusable, name_in_transfer};
use crate::{FileDone, Item};
use fobs_filter::path;
use fobs_model::budget::MemoryBudget;
use fobs_model::deltas::Literal;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::FileError;
use fobs_model::options::sync::SyncOptions;
use fobs_model::options::{Follow, Privileges};
pub use fobs_model::shape::SourceShape;

/// What to read, and how.
#[derive(Debug)]
pub struct SourceSpec {
    /// What `paths` are relative to.
    pub base: Base,
    /// The sources, raw bytes. `dir/` and `dir/.` mean the directory's contents.
    pub paths: Vec<Vec<u8>>,
    /// Copy directories too.
    pub recursive: bool,
    /// What to keep beside content. Modes are always sent.
    pub preserve: Preserve,
    /// What of it only root sees may leave.
    pub privileges: Privileges,
    /// Compress each chunk with zstd where it becomes smaller.
    pub compress: bool,
    /// Of a sync: which entries are listed and reported.
    pub sync: Option<Arc<SyncOptions>>,
    /// What the session may keep.
    pub budget: MemoryBudget,
}

/// A chunk that [`Source::next_chunk`](crate::Source::next_chunk) made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilledChunk {
    /// Length of the chunk in the buffer, bytes.
    pub len: usize,
    /// Whether it is the object's last.
    pub is_final: bool,
    /// Files whose end is in it.
    pub files: Vec<FileDone>,
    /// Files that failed while it was filled; its records say so too.
    pub failures: Vec<FileError>,
    /// File data in it, bytes, before compression, holes among them.
    pub data_bytes: u64,
    /// The first file with data in it, for messages about the chunk.
    pub first_file: Option<Vec<u8>>,
    /// File data that the receiver has from an earlier run, bytes, of the files decided on since the last
    /// chunk.
    pub resumed_bytes: u64,
    /// Files of which the receiver has something, and that are sent anew.
    pub started_over: Vec<StartedOver>,
    /// Of a sync: what is reported of the entries that were decided on since the last chunk.
    pub items: Vec<Item>,
    /// The same chunk as a patch of what the receiver has, where that is shorter.
    pub patch: Option<Patch>,
    /// Whether pieces that the receiver has were looked for in it.
    pub looked: bool,
    /// What of its data was read to see how fast data goes whole, bytes.
    pub tried: u64,
    /// Whether it was supposed of anything in it that the receiver has it.
    pub supposed: bool,
    /// What of its data is sent, by the reason.
    pub literal: Literal,
    /// With the final chunk: a sentence for the users of both ends.
    pub notice: Option<String>,
}

/// A chunk as a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// As it is sent.
    pub chunk: Vec<u8>,
    /// Bytes of its data that the receiver has.
    pub copied: u64,
}

/// A file of which the receiver has something, and that is sent anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedOver {
    /// Its path.
    pub path: Vec<u8>,
    /// Why.
    pub why: StartOverReason,
}

/// Why a file is sent anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartOverReason {
    /// It changed since an earlier run had begun it.
    Changed,
    /// It does not begin with what the receiver has of it.
    OtherBeginning,
}

/// The extent of the object, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// Sizes of all files that have been opened, bytes.
    pub bytes: u64,
    /// Files that have been opened.
    pub files: u64,
    /// Whether all files have been found.
    pub scan_complete: bool,
}

/// What a sync does whose sources are none that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoneThere {
    /// It fails.
    Refused,
    /// It reports them, and sends nothing else.
    Empty,
}

/// The sources of a request.
#[derive(Default)]
pub(super) struct Usable {
    pub(super) named: Vec<Named>,
    /// Names of those that may be missing, and are.
    pub(super) missing: Vec<Vec<u8>>,
    /// Directories, where a sync enters none.
    pub(super) directories: Vec<Vec<u8>>,
    pub(super) failures: Vec<FileError>,
}

impl SourceSpec {
    /// The sources that can be used, and what becomes of the others; an error if there is none.
    pub(super) fn usable_sources(&mut self, if_none: NoneThere) -> Result<Usable> {
        let Usable { mut named, mut missing, mut directories, mut failures } = Usable::default();
        let (mut first_kind, mut all_missing) = (ErrorKind::NoSource, true);
        let follows_all = self.preserve.follow == Follow::All;
        let links = match &self.sync {
            Some(_) if self.preserve.follow == Follow::Directories => NamedLinks::ButDirectories,
            Some(_) if self.preserve.follow == Follow::LeadingOut => NamedLinks::ButLeadingOut,
            Some(_) if !follows_all => NamedLinks::Themselves,
            _ => NamedLinks::Followed,
        };
        // Names lead through directories that are not entered.
        let recursive = self.recursive || self.sync.as_ref().is_some_and(|options| options.names.is_some());
        let ignores_missing = self.sync.as_ref().is_some_and(|options| options.may_miss());
        let is_named = !self.paths.is_empty();
        for (index, path) in std::mem::take(&mut self.paths).into_iter().enumerate() {
            let name = name_in_transfer(&path);
            match Named::look(&self.base, (index, path.clone()), recursive, links) {
                // As rsync.
                Err((Unusable::NeedsRecursive, _)) if self.sync.is_some() => directories.push(path),
                Ok(usable) => named.push(usable),
                Err((Unusable::Missing, _)) if ignores_missing => {
                    missing.extend((!name.is_empty() && path::check(&name).is_ok()).then_some(name));
                }
                Err((why, failure)) => {
                    all_missing &= matches!(why, Unusable::Missing);
                    if failures.is_empty() {
                        first_kind = match why {
                            Unusable::NeedsRecursive => ErrorKind::Usage,
                            Unusable::Outside => ErrorKind::Denied,
                            Unusable::Other | Unusable::Missing => ErrorKind::NoSource,
                        };
                    }
                    failures.push(failure);
                }
            }
        }
        let may_be_none = is_named && failures.is_empty() && (ignores_missing || !directories.is_empty());
        let is_empty = if_none == NoneThere::Empty && is_named && all_missing;
        if named.is_empty() && !may_be_none && !is_empty {
            let message = match &failures[..] {
                [] => "no source was named; name at least one".to_owned(),
                [only] => only.message.clone(),
                [first, rest @ ..] => format!("{} (nor can {} more be read)", first.message, rest.len()),
            };
            return Err(Error::new(first_kind, message));
        }
        Ok(Usable { named, missing, directories, failures })
    }
}

impl Source {
    /// What is known of the object so far.
    pub fn known(&self) -> Known {
        let in_work = self.file.as_ref().map_or(0, |file| file.size.max(file.tree.len()));
        Known {
            bytes: self.bytes.saturating_add(in_work),
            files: self.files,
            scan_complete: self.finished
                || (self.postponed.is_none() && self.next.is_none() && self.feed.is_exhausted()),
        }
    }

    /// The transfer's root (protocol 7.6), once the final chunk has been filled.
    pub fn root(&self) -> [u8; 32] {
        self.root.finish()
    }
}
