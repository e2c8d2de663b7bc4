//! Backups (`--backup`): what is replaced is kept under another name, and is not deleted by the same sync.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, fstat};
use rustix::io::Errno;

use super::at;
use super::beneath::kind;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::name::{BackupSuffix, Component};

/// Most backups that are remembered, 8 bytes each. Beyond that, nothing with a backup's name is deleted.
const MADE_MAX: usize = 4 << 20;

/// The backups of one sync, shared by the threads that make and delete.
#[derive(Debug, Clone)]
pub(super) struct Backups {
    suffix: BackupSuffix,
    hashes: RandomState,
    made: Arc<Mutex<Made>>,
}

#[derive(Debug)]
struct Made {
    /// Hashes of their paths within the transfer.
    paths: HashSet<u64>,
    is_full: bool,
    kept: Charge,
}

impl Backups {
    pub(super) fn new(suffix: BackupSuffix, budget: &MemoryBudget) -> Backups {
        let made = Made { paths: HashSet::new(), is_full: false, kept: budget.charge(Keeps::Backups) };
        Backups { suffix, hashes: RandomState::new(), made: Arc::new(Mutex::new(made)) }
    }

    /// Keeps what has the name, unless it is a directory, under its backup's name too, so that it always has
    /// one. To be called before it is replaced. What an earlier run of the same transfer put there, as
    /// `is_own` says, is no older version: the backup that this run made of one stays.
    pub(super) fn keep(
        &self,
        path: &[u8],
        directory: &OwnedFd,
        name: Component<'_>,
        is_own: impl FnOnce(&OwnedFd) -> bool,
    ) -> Result<(), Errno> {
        let held = match at::hold(directory, name) {
            Ok(held) if kind(&fstat(&held)?) != FileType::Directory => held,
            Ok(_) | Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        let backup = self.suffix.of(name)?;
        self.remember(path);
        if is_own(&held) {
            return Ok(());
        }
        match at::unlink(directory, backup.as_component()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        match at::link_held(&held, directory, backup.as_component()) {
            // No file system has several names for everything.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK) => {
                at::rename(directory, name, backup.as_component())
            }
            other => other,
        }
    }

    /// Makes what has the name its own backup, instead of deleting it; `false` if it is one by its name.
    pub(super) fn take(&self, path: &[u8], directory: &OwnedFd, name: Component<'_>) -> Result<bool, Errno> {
        if name.as_bytes().ends_with(self.suffix.as_bytes()) {
            return Ok(false);
        }
        let backup = self.suffix.of(name)?;
        self.remember(path);
        at::rename(directory, name, backup.as_component()).map(|()| true)
    }

    /// Remembers the backup of an entry; to be called before it is made.
    fn remember(&self, path: &[u8]) {
        let hash = self.hashes.hash_one([path, self.suffix.as_bytes()].concat());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let Made { paths, is_full, kept } = &mut *made;
        *is_full |= paths.len() >= MADE_MAX || kept.insert(paths, hash).is_err();
    }

    /// Deletes the entry with this path, unless it is a backup of this sync: then `false`. None is made
    /// meanwhile.
    pub(super) fn spare(
        &self,
        path: &[u8],
        delete: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<bool, Errno> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let is_one = path.ends_with(self.suffix.as_bytes())
            && (made.is_full || made.paths.contains(&self.hashes.hash_one(path)));
        if is_one { Ok(false) } else { delete().map(|()| true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_more_are_remembered_all_are_spared() {
        let suffix = BackupSuffix::new(b"~".to_vec()).expect("a suffix");
        let budget = MemoryBudget::of(1 << 10);
        let backups = Backups::new(suffix, &budget);
        assert_eq!(backups.spare(b"old~", || Ok(())), Ok(true));
        (0..1000).for_each(|at| backups.remember(format!("f{at}").as_bytes()));
        assert_eq!(backups.spare(b"old~", || panic!("it may be one of this sync")), Ok(false));
        assert_eq!(backups.spare(b"other", || Ok(())), Ok(true), "it has no backup's name");
        assert!(budget.used() <= 1 << 10);
    }

    #[test]
    fn only_what_this_sync_made_is_spared() {
        let suffix = BackupSuffix::new(b"~".to_vec()).expect("a suffix");
        let backups = Backups::new(suffix, &MemoryBudget::default());
        let other_thread = backups.clone();
        other_thread.remember(b"dir/a");
        assert_eq!(backups.spare(b"dir/a~", || panic!("it is a backup")), Ok(false));
        assert_eq!(backups.spare(b"dir/b~", || Ok(())), Ok(true), "of an earlier sync");
        assert_eq!(backups.spare(b"dir/a", || Err(Errno::NOENT)), Err(Errno::NOENT));
    }
}
