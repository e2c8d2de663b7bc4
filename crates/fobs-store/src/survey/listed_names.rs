//! The names that were listed, as far as a hard link may lead to one.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use super::row::{Row, RowKind};
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::options::sync::{Present, SyncRules};

/// Why the rules of a sync leave an entry out: so what has its name stays, whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Its size (`--max-size`, `--min-size`) or its kind: so is every name of it.
    Itself,
    /// What stands at its name, or that nothing does (`--existing`, `--ignore-existing`, `-u`).
    There,
}

/// What became of a name that was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has, or gets, what the source has.
    Right,
    Left(Left),
}

/// A name that a further one leads to; with the source's time, seconds since 1970, where that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) fate: Fate,
    pub(super) mtime_s: Option<i64>,
}

/// Listed names by their hashes. What the budget has no room for is not among them: no link is made to it.
#[derive(Debug)]
pub(super) struct ListedNames {
    /// What is right, as long as no time counts.
    right: HashSet<u64>,
    others: HashSet<Other>,
    /// Whether a further name may stay because it is newer (`-u`).
    keeps_times: bool,
    /// No peer knows its keys.
    hashes: RandomState,
    kept: Charge,
}

#[derive(Debug, Clone, Copy)]
struct Other {
    path: u64,
    fate: Fate,
    mtime_s: i64,
}

impl PartialEq for Other {
    fn eq(&self, other: &Other) -> bool {
        self.path == other.path
    }
}

impl Eq for Other {}

impl Hash for Other {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.path.hash(state);
    }
}

impl Borrow<u64> for Other {
    fn borrow(&self) -> &u64 {
        &self.path
    }
}

impl ListedNames {
    pub(super) fn within(budget: &MemoryBudget) -> ListedNames {
        ListedNames {
            right: HashSet::new(),
            others: HashSet::new(),
            keeps_times: false,
            hashes: RandomState::new(),
            kept: budget.charge(Keeps::HardLinks),
        }
    }

    /// In a sync with these rules.
    pub(super) fn under(self, rules: &SyncRules) -> ListedNames {
        ListedNames { keeps_times: rules.present == Present::UpdatedUnlessNewer, ..self }
    }

    /// Something that a link can lead to; nothing else counts.
    pub(super) fn add(&mut self, row: &Row, left: Option<Left>) {
        if !matches!(row.kind, RowKind::File | RowKind::Symlink { .. } | RowKind::Special { .. }) {
            return;
        }
        let fate = left.map_or(Fate::Right, Fate::Left);
        let ListedNames { right, others, keeps_times, hashes, kept } = self;
        let path = hashes.hash_one(&row.path[..]);
        // Without room it stays unknown.
        let _ = if fate == Fate::Right && !*keeps_times {
            kept.insert(right, path)
        } else {
            kept.insert(others, Other { path, fate, mtime_s: row.meta.mtime_s })
        };
    }

    pub(super) fn get(&self, path: &[u8]) -> Option<Listed> {
        let hash = self.hashes.hash_one(path);
        if self.right.contains(&hash) {
            return Some(Listed { fate: Fate::Right, mtime_s: None });
        }
        let other = self.others.get(&hash)?;
        Some(Listed { fate: other.fate, mtime_s: Some(other.mtime_s).filter(|_| self.keeps_times) })
    }
}
