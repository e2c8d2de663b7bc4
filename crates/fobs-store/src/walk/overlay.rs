//! Several sources that may have the same paths, as in `a/ b/`: as in rsync the first one's entry counts, and
//! a directory before anything else, since it has contents.

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

use super::READ_DIRECTORY;
use crate::at::open_beneath;
use crate::beneath::{Base, HOLD_DIRECTORY, Links, kind};
use crate::select::Selection;
use fobs_filter::NameKind;

/// Most source directories that are held open; further ones are opened for each name.
const HELD_MAX: usize = 64;

/// A source of a walk.
#[derive(Debug)]
struct Place {
    /// Its path in the request.
    path: Vec<u8>,
    /// Its name in the transfer.
    name: Vec<u8>,
    /// It as a directory, once it was needed.
    held: OnceLock<Result<OwnedFd, Errno>>,
}

/// The sources of a walk, one of which is walked.
#[derive(Debug)]
pub(super) struct Overlay {
    base: Arc<Base>,
    sources: Vec<Place>,
    /// How many of them were begun.
    begun: usize,
}

impl Overlay {
    /// Of these sources; none where no two of them can have a path in common.
    pub(super) fn of(base: &Arc<Base>, sources: Vec<(Vec<u8>, Vec<u8>)>) -> Option<Overlay> {
        let may_meet = sources.len() > 1 && sources.iter().any(|(_, name)| name.is_empty());
        let place = |(path, name)| Place { path, name, held: OnceLock::new() };
        let sources = sources.into_iter().map(place).collect();
        may_meet.then(|| Overlay { base: Arc::clone(base), sources, begun: 0 })
    }

    /// The next source is walked.
    pub(super) fn begin_next(&mut self) {
        self.begun += 1;
    }

    /// Whether another source's entry of this path counts in place of the current one's, which is no
    /// directory. What the selection leaves out does not.
    pub(super) fn hides(&self, path: &[u8], selection: Option<&Selection>) -> bool {
        let current = self.begun.saturating_sub(1);
        let counts = |index: usize| {
            let Ok(found) = self.open(index, path, OFlags::PATH | OFlags::NOFOLLOW) else { return false };
            let is_directory = fstat(&found).is_ok_and(|stat| kind(&stat) == FileType::Directory);
            let name_kind = if is_directory { NameKind::Directory } else { NameKind::Other };
            (index < current || is_directory)
                && selection.is_none_or(|selection| selection.would_take(path, name_kind))
        };
        (0..self.sources.len()).any(|index| index != current && counts(index))
    }

    /// The first source's directory of this path, if the current source is a later one: what is kept of it
    /// counts.
    pub(super) fn first_directory(&self, path: &[u8]) -> Option<OwnedFd> {
        let current = self.begun.saturating_sub(1);
        (0..current).find_map(|index| self.open(index, path, READ_DIRECTORY).ok())
    }

    fn open(&self, index: usize, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let place = self.sources.get(index).ok_or(Errno::NOENT)?;
        let below = match path.strip_prefix(&place.name[..]) {
            Some(rest) if place.name.is_empty() => rest,
            Some(b"") => return self.base.open(&place.path, flags),
            Some([b'/', rest @ ..]) => rest,
            _ => return Err(Errno::NOENT),
        };
        let opened = || self.base.open(&place.path, HOLD_DIRECTORY);
        if index < HELD_MAX {
            let root = place.held.get_or_init(opened).as_ref().map_err(|errno| *errno)?;
            return open_beneath(root, below, flags, Mode::empty(), Links::Refuse);
        }
        open_beneath(opened()?, below, flags, Mode::empty(), Links::Refuse)
    }
}
