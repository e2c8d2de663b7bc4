//! Capabilities of storing: nothing is made at the destination without a [`Clearance`], and only a [`Gate`]
//! gives one. Where there is a survey, it issues one for each entry that it wants, and each is spent by the
//! record of that entry; where there is none, the request itself says which names may come.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::record::{Record, protocol};
use super::requested::Requested;
use fobs_filter::NameKind;
use fobs_filter::path::show;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::error::Result;

/// Most entries that are asked for and have not come, 8 bytes each. At the bound the survey waits: a sender
/// that follows it sends what was decided long before. More than the records of all chunks in transit.
const OUTSTANDING_MAX: usize = 1 << 20;
/// How often a survey that waits looks whether its session is over.
const LOOK: Duration = Duration::from_millis(100);

/// That something may be stored under a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clearance<'p> {
    path: &'p [u8],
}

impl<'p> Clearance<'p> {
    /// Path within the transfer.
    pub(crate) fn path(self) -> &'p [u8] {
        self.path
    }
}

/// What decides on each record.
pub(crate) enum Gate {
    /// The request.
    Request(Box<Requested>),
    /// The survey.
    Survey(Clearances),
}

impl Gate {
    /// The clearance for a record with a path.
    ///
    /// # Errors
    /// `Protocol`: nobody asked for it.
    pub(crate) fn clear<'p>(&mut self, record: &Record<'p>) -> Result<Option<Clearance<'p>>> {
        let (path, kind, first) = match *record {
            Record::Directory { path } => (path, Kind::Directory, None),
            Record::DirectoryEnd { path, .. } => (path, Kind::DirectoryEnd, None),
            Record::Symlink { path, .. } => (path, Kind::Symlink, None),
            // What was to go on may begin anew.
            Record::File { path, .. } | Record::Resume { path, .. } => (path, Kind::File, None),
            Record::Hardlink { path, target } => (path, Kind::Hardlink, Some(target)),
            Record::Special { path, .. } => (path, Kind::Special, None),
            Record::Failed { .. } => {
                if let Gate::Survey(clearances) = self {
                    clearances.fail();
                }
                return Ok(None);
            }
            Record::Attributes { .. }
            | Record::Identity { .. }
            | Record::Extent { .. }
            | Record::Hole { .. }
            | Record::End => return Ok(None),
        };
        let is_cleared = match self {
            Gate::Request(requested) => {
                requested.includes(path, kind.of_name())
                    && first.is_none_or(|first| requested.includes(first, NameKind::Other))
            }
            Gate::Survey(clearances) => clearances.spend(path, kind, first),
        };
        if is_cleared {
            Ok(Some(Clearance { path }))
        } else {
            Err(protocol(&format!("'{}' was not asked for", show(path))))
        }
    }

    /// Whether all has come.
    ///
    /// # Errors
    /// `Protocol`: something that was asked for did not.
    pub(crate) fn close(&self) -> Result<()> {
        let Gate::Survey(clearances) = self else { return Ok(()) };
        match clearances.missing() {
            0 => Ok(()),
            missing => Err(protocol(&format!("{missing} entries that were asked for did not come"))),
        }
    }
}

/// What an entry is made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Directory,
    DirectoryEnd,
    File,
    Symlink,
    Hardlink,
    Special,
}

impl Kind {
    fn of_name(self) -> NameKind {
        match self {
            Kind::Directory | Kind::DirectoryEnd => NameKind::Directory,
            Kind::File | Kind::Symlink | Kind::Hardlink | Kind::Special => NameKind::Other,
        }
    }
}

/// What the survey asked for and the sink has not got, in the order of both.
#[derive(Clone)]
pub(crate) struct Clearances(Arc<Shared>);

struct Shared {
    /// No peer knows its keys, so none can make two paths equal.
    hashes: RandomState,
    state: Mutex<Outstanding>,
    spent: Condvar,
}

struct Outstanding {
    /// Hashes of path, kind and a link's first name.
    outstanding: VecDeque<u64>,
    kept: Charge,
    /// Whether a survey waits for room: to wake nobody is a call to the kernel for each entry.
    is_awaited: bool,
    /// What the sender passed over, and what it said that it could not send.
    skipped: u64,
    failed: u64,
}

impl Clearances {
    pub(crate) fn within(budget: &MemoryBudget) -> Clearances {
        let state = Outstanding {
            outstanding: VecDeque::new(),
            kept: budget.charge(Keeps::Clearances),
            is_awaited: false,
            skipped: 0,
            failed: 0,
        };
        Clearances(Arc::new(Shared {
            hashes: RandomState::new(),
            state: Mutex::new(state),
            spent: Condvar::new(),
        }))
    }

    /// Asks for an entry; a link leads to `first`. Call it before the decision is sent. Waits while too much
    /// is outstanding, until `stop` says that nobody waits any more.
    ///
    /// # Errors
    /// The budget has no room for it.
    pub(crate) fn issue(
        &self,
        path: &[u8],
        kind: Kind,
        first: Option<&[u8]>,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let entry = self.0.hashes.hash_one((path, kind, first));
        let mut state = self.lock();
        while state.outstanding.len() >= OUTSTANDING_MAX && !stop() {
            state.is_awaited = true;
            let waited = self.0.spent.wait_timeout(state, LOOK);
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |waited| waited.0);
        }
        let Outstanding { outstanding, kept, .. } = &mut *state;
        if outstanding.len() == outstanding.capacity() {
            let more = outstanding.capacity().max(256);
            kept.grow(more * size_of::<u64>())?;
            outstanding.reserve_exact(more);
        }
        outstanding.push_back(entry);
        Ok(())
    }

    /// Spends the clearance of a record; those before it belong to what the sender passed over.
    fn spend(&self, path: &[u8], kind: Kind, first: Option<&[u8]>) -> bool {
        let entry = self.0.hashes.hash_one((path, kind, first));
        let mut state = self.lock();
        let Some(at) = state.outstanding.iter().position(|&outstanding| outstanding == entry) else {
            return false;
        };
        state.outstanding.drain(..=at);
        state.skipped += at as u64;
        if std::mem::take(&mut state.is_awaited) {
            self.0.spent.notify_all();
        }
        true
    }

    fn fail(&self) {
        self.lock().failed += 1;
    }

    /// What neither came nor was given up.
    fn missing(&self) -> u64 {
        let state = self.lock();
        (state.skipped + state.outstanding.len() as u64).saturating_sub(state.failed)
    }

    fn lock(&self) -> MutexGuard<'_, Outstanding> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
