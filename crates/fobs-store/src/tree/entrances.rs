//! Which directories the survey saw where another user may exchange them before they are entered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::held::Inode;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};

/// Most directories that wait to be entered: rows of 32 batches, as far as the survey is ahead.
const WAITING_MAX: usize = 1 << 16;
/// What one costs beside its path, bytes: what was seen, two words of a path, and the table's spare room.
const COST: usize = 96;

/// Directories by their paths within the transfer; `None` where there was none. Shared by the threads that
/// compare and store.
#[derive(Debug, Clone)]
pub(crate) struct Entrances(Arc<Mutex<Waiting>>);

#[derive(Debug)]
struct Waiting {
    seen: HashMap<Box<[u8]>, Option<Inode>>,
    /// More than there was room for.
    is_full: bool,
    kept: Charge,
}

impl Entrances {
    pub(crate) fn within(budget: &MemoryBudget) -> Entrances {
        let kept = budget.charge(Keeps::Survey);
        Entrances(Arc::new(Mutex::new(Waiting { seen: HashMap::new(), is_full: false, kept })))
    }

    /// What stands at a path that is to be entered.
    pub(crate) fn see(&self, path: &[u8], there: Option<Inode>) {
        let Waiting { seen, is_full, kept } = &mut *self.waiting();
        if seen.len() >= WAITING_MAX || kept.grow(COST + path.len()).is_err() {
            *is_full = true;
        } else if seen.insert(path.into(), there).is_some() {
            kept.shrink(COST + path.len());
        }
    }

    /// Whether the directory that is being entered may be: it was seen, or nobody else can exchange it.
    pub(super) fn may_enter(&self, path: &[u8], found: Inode, is_safe: impl FnOnce() -> bool) -> bool {
        let Waiting { seen, is_full, kept } = &mut *self.waiting();
        let Some(there) = seen.remove(path) else { return !*is_full || is_safe() };
        kept.shrink(COST + path.len());
        there == Some(found)
    }

    /// It was made.
    pub(super) fn forget(&self, path: &[u8]) {
        let Waiting { seen, kept, .. } = &mut *self.waiting();
        if seen.remove(path).is_some() {
            kept.shrink(COST + path.len());
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_seen_is_entered_and_the_rest_is_bounded() {
        let inode = |number: u64| {
            let mut stat = rustix::fs::stat("/").expect("its status");
            stat.st_ino = number;
            Inode::of(&stat)
        };
        let budget = MemoryBudget::of(10 * (COST + 4));
        let entrances = Entrances::within(&budget);
        for path in [b"a", b"b", b"c"] {
            entrances.see(path, Some(inode(1)));
        }
        entrances.see(b"b", None);
        let may_enter = |path: &[u8], number, is_safe| entrances.may_enter(path, inode(number), || is_safe);
        assert!(may_enter(b"a", 1, false) && !may_enter(b"c", 2, true));
        assert!(!may_enter(b"b", 1, true), "there was none");
        assert!(may_enter(b"x", 1, false), "all others were seen where nobody can exchange them");
        assert_eq!(budget.used(), 0);
        (0..1000).for_each(|at| entrances.see(format!("{at:04}").as_bytes(), None));
        assert_eq!(budget.used(), 10 * (COST + 4));
        assert!(!may_enter(b"0999", 1, false) && may_enter(b"0999", 1, true), "there was no room");
        (0..1000).for_each(|at| entrances.forget(format!("{at:04}").as_bytes()));
        assert_eq!(budget.used(), 0);
    }
}
