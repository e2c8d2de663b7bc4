//! Versions that earlier transfers sent to the same destination: where they were then, or beside that.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Dir, FileType, OFlags, fstat};

use super::READ;
use crate::at;
use crate::beneath::{Base, HOLD_DIRECTORY, kind};
use crate::charset::in_transfer;
use crate::delta::Earlier;
use crate::identity::Identity;
use fobs_filter::path::{join, split};
use fobs_model::name::Component;

/// Most names that are looked at in a directory: as `--fuzzy` does.
const NAMES_MAX: usize = 1000;

/// Where a version was, as an absolute path, and what identifies it.
pub type VersionPlace = (Vec<u8>, Identity);

/// Where the versions of files may be that the destination has, by their paths within the transfer.
#[derive(Debug, Clone, Default)]
pub struct Remembered(HashMap<Vec<u8>, Vec<VersionPlace>>);

impl Remembered {
    /// A version of the file at a path may be at a place.
    pub fn add(&mut self, path: Vec<u8>, place: VersionPlace) {
        self.0.entry(path).or_default().push(place);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The version that the destination has of the file at a path, which is now `new`.
    pub(super) fn of(&self, path: &[u8], new: Identity) -> Option<Earlier> {
        let others = || self.0.get(path).into_iter().flatten().filter(|(_, version)| *version != new);
        let there = others().find_map(|(place, version)| open(place, *version));
        there.or_else(|| others().find_map(|(place, version)| beside(place, *version))).map(Arc::new)
    }
}

/// What is at a place, if it is this version, as far as can be seen without reading it.
fn open(place: &[u8], version: Identity) -> Option<OwnedFd> {
    let file = Base::Ambient.open_place(place, READ).ok()?;
    let stat = fstat(&file).ok()?;
    (kind(&stat) == FileType::RegularFile && Identity::of(&stat) == version).then_some(file)
}

/// The version in the directory of a place, under another name: itself, or a copy of its size and time.
fn beside(place: &[u8], version: Identity) -> Option<OwnedFd> {
    let directory = split(place).0;
    let held = Base::Ambient.open_place(directory, HOLD_DIRECTORY).ok()?;
    let opened = Base::Ambient.open_place(directory, OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
    let mut copy = None;
    for (count, entry) in Dir::new(opened).ok()?.enumerate() {
        let entry = entry.ok().filter(|_| count < NAMES_MAX)?;
        let on_disk = entry.file_name().to_bytes();
        let Ok(name) = in_transfer(on_disk) else { continue };
        let Ok(name) = Component::new(&name) else { continue };
        let Ok(found) = at::stat(&held, name).map(|stat| Identity::of(&stat)) else { continue };
        if found == version {
            return open(&join(directory, on_disk), version);
        }
        if found == (Identity { inode: found.inode, ..version }) {
            copy = Some((join(directory, on_disk), found));
        }
    }
    copy.and_then(|(place, found)| open(&place, found))
}
