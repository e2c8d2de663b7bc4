//! Which files the first names are that further names lead to: a name in a directory where another user may
//! write can lead elsewhere by the time its second one is made.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Stat, fstat};

use super::{Attempt, Tree, Trouble};
use crate::held::{Inode, is_shared, is_trusted};
use fobs_filter::path;
use fobs_filter::path::show;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};

/// Most files that are remembered. Past it a further name is made only of what nobody else can have put
/// there.
const FILES_MAX: usize = 1 << 18;

/// The first names of this transfer, shared by the threads that compare and store.
#[derive(Debug, Clone, Default)]
pub(crate) struct FirstNames(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    hashes: RandomState,
    names: Mutex<Names>,
}

#[derive(Debug)]
struct Names {
    known: HashSet<Known>,
    kept: Charge,
}

/// A file by its path.
#[derive(Debug, Clone, Copy)]
struct Known {
    path: u64,
    inode: Inode,
}

impl PartialEq for Known {
    fn eq(&self, other: &Known) -> bool {
        self.path == other.path
    }
}

impl Eq for Known {}

impl Hash for Known {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.path.hash(state);
    }
}

impl Borrow<u64> for Known {
    fn borrow(&self) -> &u64 {
        &self.path
    }
}

impl FirstNames {
    /// Of a transfer with hard links.
    pub(crate) fn within(budget: &MemoryBudget) -> FirstNames {
        let names = Names { known: HashSet::new(), kept: budget.charge(Keeps::Linkable) };
        FirstNames(Some(Arc::new(Shared { hashes: RandomState::new(), names: Mutex::new(names) })))
    }

    /// What has this path is what the source has: this run, or one before, has put it there, or compared it.
    pub(crate) fn are_right(&self, path: &[u8], stat: &Stat) {
        let Some(shared) = &self.0 else { return };
        let hash = shared.hashes.hash_one(path);
        shared.names().remember(Known { path: hash, inode: Inode::of(stat) });
    }

    /// A file was stored in a directory.
    pub(super) fn stored(&self, path: &[u8], stat: &Stat, directory: &OwnedFd) {
        // Where nobody else may write, what has the name is what was put there.
        if self.0.is_some() && is_shared(directory) {
            self.are_right(path, stat);
        }
    }

    /// A file was stored, which is open.
    pub(super) fn stored_file(&self, path: &[u8], file: &OwnedFd, directory: &OwnedFd) {
        if self.0.is_some()
            && let Ok(stat) = fstat(file)
        {
            self.stored(path, &stat, directory);
        }
    }

    fn get(&self, path: &[u8]) -> Option<Inode> {
        let shared = self.0.as_ref()?;
        let hash = shared.hashes.hash_one(path);
        shared.names().known.get(&hash).map(|known| known.inode)
    }
}

impl Shared {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    fn remember(&mut self, known: Known) {
        if self.known.contains(&known.path) {
            self.known.replace(known);
        } else if self.known.len() < FILES_MAX {
            // Without room it is a file that is not remembered.
            let _ = self.kept.insert(&mut self.known, known);
        }
    }
}

impl Tree {
    /// Whether what stands at the first name `first` may have one more, `path`: it is what was stored there,
    /// or nobody else can have put it there, or it is theirs who own the directory of the further name.
    pub(super) fn check_first_name(&mut self, path: &[u8], first: &[u8], found: &Stat) -> Attempt<()> {
        let is_right = match self.first_names.get(first) {
            Some(stored) => stored == Inode::of(found),
            None => is_trusted(found) || self.is_theirs_anyway(path, first, found),
        };
        if is_right {
            return Ok(());
        }
        let (path, first) = (show(path), show(first));
        Err(Trouble::Path(format!(
            "cannot make the hard link '{path}': another user owns or exchanged what has its first name '{first}', \
             or may do so; copy both again, or without -H"
        )))
    }

    fn is_theirs_anyway(&mut self, path: &[u8], first: &[u8], found: &Stat) -> bool {
        let mut above = |path: &[u8]| {
            let place = self.place(path).ok()?.into_owned();
            let parent = path::split(&place).0.to_vec();
            self.hold(&parent).ok()
        };
        let is_of = |directory: &OwnedFd| fstat(directory).is_ok_and(|it| it.st_uid == found.st_uid);
        above(first).is_some_and(|directory| !is_shared(&*directory))
            || above(path).is_some_and(|directory| is_of(&directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat_of(inode: u64) -> Stat {
        let mut stat = rustix::fs::stat("/").expect("its status");
        stat.st_ino = inode;
        stat
    }

    #[test]
    fn first_names_are_kept_within_the_budget() {
        let budget = MemoryBudget::of(4 << 10);
        let names = FirstNames::within(&budget);
        (0..1000).for_each(|at| names.are_right(format!("f{at}").as_bytes(), &stat_of(at)));
        assert_eq!(names.get(b"f3"), Some(Inode::of(&stat_of(3))));
        assert_eq!(names.get(b"f999"), None, "there was no room");
        assert!(budget.used() <= 4 << 10);
        names.are_right(b"f3", &stat_of(7));
        assert_eq!(names.get(b"f3"), Some(Inode::of(&stat_of(7))), "the last one counts");
    }

    #[test]
    fn without_hard_links_nothing_is_kept() {
        let none = FirstNames::default();
        none.are_right(b"two", &stat_of(2));
        assert_eq!(none.get(b"two"), None);
    }
}
