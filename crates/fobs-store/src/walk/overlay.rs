//! Several sources that may have the same paths, as in `a/ b/`: as in rsync the first one's entry counts, and
//! a directory before anything else, since it has contents.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

use super::READ_DIRECTORY;
use crate::at::open_beneath;
use crate::beneath::{Base, HOLD_DIRECTORY, Links, kind};
use crate::select::Selection;
use fobs_filter::NameKind;

/// The sources of a walk, one of which is walked.
#[derive(Debug)]
pub(super) struct Overlay {
    base: Arc<Base>,
    /// Their paths in the request, and their names in the transfer.
    sources: Vec<(Vec<u8>, Vec<u8>)>,
    /// How many of them were begun.
    begun: usize,
}

impl Overlay {
    /// Of these sources; none where no two of them can have a path in common.
    pub(super) fn of(base: &Arc<Base>, sources: Vec<(Vec<u8>, Vec<u8>)>) -> Option<Overlay> {
        let may_meet = sources.len() > 1 && sources.iter().any(|(_, name)| name.is_empty());
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
        let (place, name) = self.sources.get(index).ok_or(Errno::NOENT)?;
        let below = match path.strip_prefix(&name[..]) {
            Some(rest) if name.is_empty() => rest,
            Some(b"") => return self.base.open(place, flags),
            Some([b'/', rest @ ..]) => rest,
            _ => return Err(Errno::NOENT),
        };
        let root = self.base.open(place, HOLD_DIRECTORY)?;
        open_beneath(&root, below, flags, Mode::empty(), Links::Refuse)
    }
}
