//! Names that the sources do not have: a failure each, or something for the receiver to delete.

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Entry, Walk, failed};
use fobs_filter::{NameKind, path};

/// For a look at a name itself.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);

impl Walk {
    /// From now on the receiver is told of names that do not exist (`--delete-missing-args`), these first.
    pub(crate) fn tell_missing(&mut self, missing: Vec<Vec<u8>>) {
        self.missing = Some(missing.into());
    }

    /// The next name that was asked for and does not exist.
    pub(super) fn next_missing(&mut self) -> Option<Entry> {
        loop {
            let told = self.missing.as_mut().and_then(|missing| missing.pop_front());
            let Some(path) = told else { break };
            if self.is_selected(&path) {
                return Some(Entry::Missing { path });
            }
        }
        let (top, path) = self.selection.as_mut().and_then(|it| it.pop_missing())?;
        if self.missing.is_none() {
            return Some(failed(&path, "read", Errno::NOENT));
        }
        // The walk does not find what it may not look at either.
        match self.base.open(&path::join(&top, &path), LOOK) {
            Err(Errno::NOENT) => Some(Entry::Missing { path }),
            Ok(_) => Some(failed(&path, "read", Errno::NOENT)),
            Err(errno) => Some(failed(&path, "look for", errno)),
        }
    }

    fn is_selected(&mut self, path: &[u8]) -> bool {
        self.selection.as_mut().is_none_or(|selection| selection.takes(path, NameKind::Other))
    }
}
