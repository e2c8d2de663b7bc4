//! Room where jobs write: never more is admitted than there is.
//!
//! A job holds what it has still to write from the moment that it begins. What is free was measured after the
//! figures of what was written were read, and what a job held counts as used until the next measurement: of
//! two views of the same bytes the one counts that leaves less.

use std::collections::BTreeMap;

use super::entry::{Entry, Writes};
use super::{JobId, Reason};

/// A look at the disks of this host that jobs write to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// What jobs have still to write, bytes; not of those of which it is not known. Read before `free`.
    pub left: BTreeMap<JobId, u64>,
    /// The places that jobs write to.
    pub places: BTreeMap<JobId, String>,
    /// Free bytes of each place.
    pub free: BTreeMap<String, u64>,
}

/// What is free, and what is held of it.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    free: BTreeMap<String, u64>,
}

impl Rooms {
    pub(super) fn measure(&mut self, free: BTreeMap<String, u64>) {
        self.free = free;
    }

    /// A job has ended: what it held may be written, and counts so until it was looked at.
    pub(super) fn spend(&mut self, entry: &Entry) {
        if let (Writes::At(place), Some(left)) = (&entry.writes, entry.left_bytes)
            && let Some(free) = self.free.get_mut(place)
        {
            *free = free.saturating_sub(left);
        }
    }

    /// What is free in each place and held by none of the jobs that run.
    pub(super) fn unheld<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> BTreeMap<String, u64> {
        let mut free = self.free.clone();
        for entry in entries.filter(|entry| entry.is_running()) {
            if let (Writes::At(place), Some(left)) = (&entry.writes, entry.left_bytes)
                && let Some(free) = free.get_mut(place)
            {
                *free = free.saturating_sub(left);
            }
        }
        free
    }
}

/// Why there is no room for a job; none where there is, or where its size is not known.
pub(super) fn lacking(entry: &Entry, unheld: &BTreeMap<String, u64>) -> Option<Reason> {
    let place = match &entry.writes {
        Writes::Elsewhere => return None,
        Writes::Unmeasured => return Some(Reason::Unmeasured),
        Writes::At(place) => place,
    };
    let (needed_bytes, free_bytes) = (entry.left_bytes?, *unheld.get(place)?);
    (needed_bytes > free_bytes).then_some(Reason::Room { needed_bytes, free_bytes })
}
