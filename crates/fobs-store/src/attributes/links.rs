//! Hard links among the entries of a transfer (`-H`): which entry is one more name of an earlier one.

use std::collections::HashMap;

use rustix::fs::Stat;

use crate::stamp::name_count;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};

/// Most memory for files that have more names, bytes: a million files of ordinary paths at either end's
/// bound.
const MEMORY_MAX: usize = 64 << 20;
/// What a file costs beside its path, bytes: key, count, two words of a path, and the table's spare room.
const FILE_COST: usize = 96;

/// The files that have been seen and have names that have not.
#[derive(Debug)]
pub(crate) struct HardLinks {
    first_names: HashMap<(u64, u64), FirstName>,
    memory: Charge,
    told: bool,
}

#[derive(Debug)]
struct FirstName {
    path: Box<[u8]>,
    /// Names that have not been seen.
    left: u64,
}

/// What a name is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The first one of its file.
    First,
    /// One more of the file that had this name first.
    Again(Vec<u8>),
    /// The first, and there is no room to remember it: its other names will be files of their own.
    NotRemembered,
}

impl HardLinks {
    pub(crate) fn within(budget: &MemoryBudget) -> HardLinks {
        HardLinks { first_names: HashMap::new(), memory: budget.charge(Keeps::HardLinks), told: false }
    }

    /// Records a name, its path within the transfer, of the file that `stat` describes.
    pub(crate) fn see(&mut self, stat: &Stat, path: &[u8]) -> Seen {
        let Some(left) = name_count(stat).checked_sub(1).filter(|&left| left > 0) else {
            return Seen::First;
        };
        let key = (stat.st_dev, stat.st_ino);
        if let Some(first) = self.first_names.get_mut(&key) {
            first.left -= 1;
            let (path, left) = (first.path.to_vec(), first.left);
            if left == 0 {
                self.forget(stat);
            }
            return Seen::Again(path);
        }
        let cost = path.len() + FILE_COST;
        if self.memory.bytes() + cost > MEMORY_MAX || self.memory.grow(cost).is_err() {
            return Seen::NotRemembered;
        }
        self.first_names.insert(key, FirstName { path: path.into(), left });
        Seen::First
    }

    /// Whether the user has been told that there was no room; from now on they have.
    pub(crate) fn is_told(&mut self) -> bool {
        std::mem::replace(&mut self.told, true)
    }

    /// The file's first name cannot be read: the next one takes its place.
    pub(crate) fn forget(&mut self, stat: &Stat) {
        if let Some(first) = self.first_names.remove(&(stat.st_dev, stat.st_ino)) {
            self.memory.shrink(first.path.len() + FILE_COST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat_of(inode: u64, links: u32) -> Stat {
        let mut stat = rustix::fs::stat("/").expect("its status");
        (stat.st_ino, stat.st_nlink) = (inode, links.into());
        stat
    }

    #[test]
    fn further_names_lead_to_the_first() {
        let mut links = HardLinks::within(&MemoryBudget::default());
        assert_eq!(links.see(&stat_of(1, 1), b"alone"), Seen::First);
        assert_eq!(links.see(&stat_of(2, 3), b"a"), Seen::First);
        assert_eq!(links.see(&stat_of(3, 2), b"x"), Seen::First);
        assert_eq!(links.see(&stat_of(2, 3), b"b"), Seen::Again(b"a".to_vec()));
        assert_eq!(links.see(&stat_of(2, 3), b"c"), Seen::Again(b"a".to_vec()));
        links.forget(&stat_of(3, 2));
        assert_eq!(links.see(&stat_of(3, 2), b"y"), Seen::First);
        assert_eq!(links.see(&stat_of(3, 2), b"z"), Seen::Again(b"y".to_vec()));
        assert_eq!((links.memory.bytes(), links.first_names.len()), (0, 0), "nothing is kept without need");
    }

    #[test]
    fn memory_is_bounded() {
        let budget = MemoryBudget::of(2 * MEMORY_MAX);
        let mut links = HardLinks::within(&budget);
        let path = vec![b'p'; 4000];
        let mut inode = 0;
        while links.see(&stat_of(inode, 2), &path) == Seen::First {
            inode += 1;
        }
        assert!(budget.used() <= MEMORY_MAX && inode as usize >= MEMORY_MAX / (4000 + FILE_COST));
        assert_eq!(links.see(&stat_of(inode, 2), &path), Seen::NotRemembered);
        assert_eq!(links.see(&stat_of(0, 2), b"q"), Seen::Again(path), "what is known stays known");
        assert_eq!(links.see(&stat_of(inode, 2), b"q"), Seen::First, "and makes room");
    }
}
