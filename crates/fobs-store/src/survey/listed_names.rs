//! The names that were listed, as far as a hard link may lead to one.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use super::row::{Row, RowKind};
use fobs_model::budget::{Charge, Keeps, MemoryBudget};

/// Hashes of listed names. What the budget has no room for is not among them: no link is made to it.
#[derive(Debug)]
pub(super) struct ListedNames {
    names: HashSet<u64>,
    /// No peer knows its keys.
    hashes: RandomState,
    kept: Charge,
}

impl ListedNames {
    pub(super) fn within(budget: &MemoryBudget) -> ListedNames {
        ListedNames {
            names: HashSet::new(),
            hashes: RandomState::new(),
            kept: budget.charge(Keeps::HardLinks),
        }
    }

    /// Something that a link can lead to; nothing else counts.
    pub(super) fn add(&mut self, row: &Row) {
        if matches!(row.kind, RowKind::File | RowKind::Symlink { .. } | RowKind::Special { .. }) {
            let ListedNames { names, hashes, kept } = self;
            // Without room it stays unknown.
            let _ = kept.insert(names, hashes.hash_one(&row.path[..]));
        }
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.names.contains(&self.hashes.hash_one(path))
    }
}
