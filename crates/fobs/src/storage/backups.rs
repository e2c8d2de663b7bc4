//! Backups (`--backup`): what is replaced is kept under another name, and is not deleted by the same sync.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

/// Most backups that are remembered, 8 bytes each. Beyond that, nothing with a backup's name is deleted.
const MADE_MAX: usize = 4 << 20;

/// The backups of one sync, shared by the threads that make and delete.
#[derive(Debug, Clone)]
pub(super) struct Backups {
    suffix: Vec<u8>,
    hashes: RandomState,
    made: Arc<Mutex<Made>>,
}

#[derive(Debug, Default)]
struct Made {
    /// Hashes of their paths within the transfer.
    paths: HashSet<u64>,
    is_full: bool,
}

impl Backups {
    pub(super) fn new(suffix: Vec<u8>) -> Backups {
        Backups { suffix, hashes: RandomState::new(), made: Arc::default() }
    }

    /// The end of a backup's name.
    pub(super) fn suffix(&self) -> &[u8] {
        &self.suffix
    }

    /// Remembers the backup of an entry; to be called before it is made.
    pub(super) fn remember(&self, path: &[u8]) {
        let hash = self.hashes.hash_one([path, &self.suffix].concat());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        match made.paths.len() < MADE_MAX {
            true => drop(made.paths.insert(hash)),
            false => made.is_full = true,
        }
    }

    /// Deletes the entry with this path, unless it is a backup of this sync: then `false`. None is made
    /// meanwhile.
    pub(super) fn spare(
        &self,
        path: &[u8],
        delete: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<bool, Errno> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let is_one = path.ends_with(&self.suffix)
            && (made.is_full || made.paths.contains(&self.hashes.hash_one(path)));
        if is_one { Ok(false) } else { delete().map(|()| true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_this_sync_made_is_spared() {
        let backups = Backups::new(b"~".to_vec());
        let other_thread = backups.clone();
        other_thread.remember(b"dir/a");
        assert_eq!(backups.spare(b"dir/a~", || panic!("it is a backup")), Ok(false));
        assert_eq!(backups.spare(b"dir/b~", || Ok(())), Ok(true), "of an earlier sync");
        assert_eq!(backups.spare(b"dir/a", || Err(Errno::NOENT)), Err(Errno::NOENT));
    }
}
