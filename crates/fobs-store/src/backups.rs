//! Backups (`--backup`): what is replaced is kept under another name, or in another directory, and is not
//! deleted by the same sync.

mod aside;

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, Mode, OFlags, fstat, fsync};
use rustix::io::Errno;

use super::at;
use super::beneath::kind;
pub(crate) use aside::Aside;
use aside::copy;
use fobs_filter::path;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::name::{BackupSuffix, Component, ComponentBuf};

/// Most backups that are remembered, 8 bytes each. Beyond that, nothing with a backup's name is deleted.
const MADE_MAX: usize = 4 << 20;

/// The backups of one sync, shared by the threads that make and delete.
#[derive(Debug, Clone)]
pub(super) struct Backups {
    /// None only where they lie elsewhere.
    suffix: Option<BackupSuffix>,
    elsewhere: Option<Elsewhere>,
    hashes: RandomState,
    made: Arc<Mutex<Made>>,
}

/// Where backups lie that are not beside their files.
#[derive(Debug, Clone)]
struct Elsewhere {
    aside: Arc<Aside>,
    /// The destination.
    top: Arc<OwnedFd>,
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
        let made = Arc::new(Mutex::new(made));
        Backups { suffix: Some(suffix), elsewhere: None, hashes: RandomState::new(), made }
    }

    /// Backups of what lies below `top` in a directory of their own.
    pub(super) fn aside(
        suffix: Option<BackupSuffix>,
        aside: Arc<Aside>,
        top: Arc<OwnedFd>,
        budget: &MemoryBudget,
    ) -> Backups {
        let made = Made { paths: HashSet::new(), is_full: false, kept: budget.charge(Keeps::Backups) };
        let made = Arc::new(Mutex::new(made));
        Backups { suffix, elsewhere: Some(Elsewhere { aside, top }), hashes: RandomState::new(), made }
    }

    /// The name of a backup.
    fn name_of(&self, name: Component<'_>) -> Result<ComponentBuf, Errno> {
        match &self.suffix {
            Some(suffix) => Ok(suffix.of(name)?),
            None => Ok(ComponentBuf::new(name.as_bytes().to_vec())?),
        }
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
        let backup = self.name_of(name)?;
        let backup = backup.as_component();
        self.remember(path);
        if is_own(&held) {
            return Ok(());
        }
        let Some(elsewhere) = &self.elsewhere else {
            clear(directory, backup)?;
            return match at::link_held(&held, directory, backup) {
                // No file system has several names for everything.
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK) => at::rename(directory, name, backup),
                other => other,
            };
        };
        let to = elsewhere.directory_of(path)?;
        clear(&to, backup)?;
        match at::link_held(&held, &to, backup) {
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::XDEV) => copy(&held, &to, backup),
            other => other,
        }
    }

    /// Copies the file that is held and has the name to its backup's, before it is written in place; the
    /// device keeps the copy if `syncs`.
    pub(super) fn keep_copy(
        &self,
        path: &[u8],
        (directory, name): (&OwnedFd, Component<'_>),
        held: &OwnedFd,
        syncs: bool,
    ) -> Result<(), Errno> {
        let backup = self.name_of(name)?;
        let backup = backup.as_component();
        self.remember(path);
        let made = self.elsewhere.as_ref().map(|elsewhere| elsewhere.directory_of(path)).transpose()?;
        let to = made.as_ref().unwrap_or(directory);
        clear(to, backup)?;
        copy(held, to, backup)?;
        if syncs {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            fsync(at::open_beneath(to, backup.as_bytes(), flags, Mode::empty(), at::Links::Refuse)?)?;
        }
        Ok(())
    }

    /// Notes that an earlier run made the backup of this entry.
    pub(super) fn has_been_kept(&self, path: &[u8]) {
        self.remember(path);
    }

    /// Makes what has the name its own backup, instead of deleting it; `false` if it is one by its name.
    pub(super) fn take(&self, path: &[u8], directory: &OwnedFd, name: Component<'_>) -> Result<bool, Errno> {
        if let Some(elsewhere) = &self.elsewhere {
            return elsewhere.take(path, directory, name, &self.name_of(name)?).map(|()| true);
        }
        if self.suffix.as_ref().is_some_and(|suffix| name.as_bytes().ends_with(suffix.as_bytes())) {
            return Ok(false);
        }
        let backup = self.name_of(name)?;
        self.remember(path);
        at::rename(directory, name, backup.as_component()).map(|()| true)
    }

    /// Remembers the backup of an entry; to be called before it is made.
    fn remember(&self, path: &[u8]) {
        let Some(suffix) = self.suffix.as_ref().filter(|_| self.elsewhere.is_none()) else { return };
        let hash = self.hashes.hash_one([path, suffix.as_bytes()].concat());
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
        let suffix = self.suffix.as_ref().filter(|_| self.elsewhere.is_none());
        let is_one = suffix.is_some_and(|suffix| path.ends_with(suffix.as_bytes()))
            && (made.is_full || made.paths.contains(&self.hashes.hash_one(path)));
        if is_one { Ok(false) } else { delete().map(|()| true) }
    }
}

impl Elsewhere {
    fn directory_of(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.aside.directory_of(&self.top, path::split(path).0)
    }

    /// Moves what is deleted there.
    fn take(
        &self,
        path: &[u8],
        directory: &OwnedFd,
        name: Component<'_>,
        backup: &ComponentBuf,
    ) -> Result<(), Errno> {
        let to = self.directory_of(path)?;
        clear(&to, backup.as_component())?;
        match at::move_to(directory, name, &to, backup.as_component()) {
            Err(Errno::XDEV) => {
                copy(&at::hold(directory, name)?, &to, backup.as_component())?;
                at::unlink(directory, name)
            }
            moved => moved,
        }
    }
}

/// Removes an older backup, or an empty directory in its place.
fn clear(directory: &OwnedFd, name: Component<'_>) -> Result<(), Errno> {
    match at::unlink(directory, name) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) if at::remove_directory(directory, name).is_ok() => Ok(()),
        Err(errno) => Err(errno),
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
