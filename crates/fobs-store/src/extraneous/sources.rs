//! What the sources have in each directory: as it is listed, and until the end where the decision falls then.

use std::collections::HashMap;

use crate::record::Meta;
use fobs_filter::path;
use fobs_model::budget::{Charge, Keeps, MemoryBudget, Spent};

/// When a directory of the destination is looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// When its rows are complete.
    AtOnce,
    /// When everything is listed: its rows may come in several parts, from several sources.
    AtTheEnd,
    /// When everything is stored, new filter files too.
    WhenStored,
}

/// What is known of what the sources have in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All of it: what else is there is extraneous.
    Whole,
    /// Not all, or nothing there can be extraneous.
    Part,
}

/// A directory whose rows are coming.
pub(super) struct Open {
    pub(super) scope: Scope,
    /// Hashes of the names that the sources have.
    pub(super) seen: Vec<u64>,
    pub(super) kept: Charge,
}

impl Open {
    pub(super) fn new(scope: Scope, budget: &MemoryBudget) -> Open {
        Open { scope, seen: Vec::new(), kept: budget.charge(Keeps::Seen) }
    }

    /// The sources have a name of this hash.
    pub(super) fn see(&mut self, hash: u64) -> Result<(), Spent> {
        match self.scope {
            Scope::Whole => self.kept.push(&mut self.seen, hash),
            Scope::Part => Ok(()),
        }
    }
}

/// A directory that was listed.
pub(super) struct Listed {
    pub(super) open: Open,
    pub(super) meta: Meta,
}

/// The directories that are looked through at the end.
pub(super) struct Waiting {
    directories: HashMap<Vec<u8>, Listed>,
    kept: Charge,
}

impl Waiting {
    pub(super) fn within(budget: &MemoryBudget) -> Waiting {
        Waiting { directories: HashMap::new(), kept: budget.charge(Keeps::Seen) }
    }

    /// The rows of a directory are complete, or one part of them.
    pub(super) fn add(&mut self, path: &[u8], mut open: Open, meta: Meta) -> Result<(), Spent> {
        if let Some(earlier) = self.directories.get_mut(path) {
            earlier.meta = meta;
            let is_whole = (earlier.open.scope, open.scope) == (Scope::Whole, Scope::Whole);
            if !is_whole {
                earlier.open.scope = Scope::Part;
                return Ok(());
            }
            let Open { seen, kept, .. } = &mut earlier.open;
            return open.seen.drain(..).try_for_each(|hash| kept.push(seen, hash));
        }
        self.kept.grow(path.len() + size_of::<(Vec<u8>, Listed)>() * 2)?;
        self.directories.insert(path.to_vec(), Listed { open, meta });
        Ok(())
    }

    /// All of them, each after those above it.
    pub(super) fn take(&mut self) -> Vec<(Vec<u8>, Listed)> {
        let mut all: Vec<_> = std::mem::take(&mut self.directories).into_iter().collect();
        all.sort_unstable_by(|(one, _), (other, _)| {
            one.split(|&byte| byte == b'/').cmp(other.split(|&byte| byte == b'/'))
        });
        all
    }
}

/// Whether `path` lies below `above`, or is it; the empty path is above all.
pub(super) fn lies_in(path: &[u8], above: &[u8]) -> bool {
    above.is_empty() || path == above || path::is_inside(path, above)
}
