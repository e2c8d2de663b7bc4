//! Room where jobs write: never more is admitted than there is.
//!
//! A job holds what it has still to write from the moment that it begins. What is free was measured after the
//! figures of what was written were read, and what a job held counts as used until the next measurement: of
//! two views of the same bytes the one counts that leaves less. What another host has said is good for a
//! while: then it is asked again before a job of known size begins there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::entry::{Entry, Writes};
use super::{JobId, Moment, Reason, Schedule};

/// For how long the last word of a place is kept after it was good, ms: of further hosts a keeper asks anew.
const FORGET_MS: u64 = 3_600_000;
/// Most jobs that have ended of which is kept what they held: those of the time that a host takes to answer.
const SPENT_MAX: usize = 10_000;

/// A look at the places that jobs write to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// What jobs have still to write, bytes; not of those of which it is not known. Read before `free`.
    pub left: BTreeMap<JobId, u64>,
    /// When it was read, ms since 1970.
    pub read_ms: u64,
    /// The places that jobs write to.
    pub places: BTreeMap<JobId, String>,
    /// Free bytes of each place.
    pub free: BTreeMap<String, u64>,
    /// Until when that is good, ms since 1970; none for this host's disks, which are all looked at together.
    pub until_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Free {
    pub bytes: u64,
    pub until_ms: Option<u64>,
}

impl Free {
    fn doubt(&mut self, now: Moment) {
        self.until_ms = self.until_ms.map(|until_ms| until_ms.min(now.ms));
    }

    pub(super) fn is_good(self, now: Moment) -> bool {
        self.until_ms.is_none_or(|until_ms| until_ms > now.ms)
    }
}

/// What a job held that has ended.
#[derive(Debug)]
struct Spent {
    at_ms: u64,
    place: String,
    bytes: u64,
}

/// What is free, and what is held of it.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    pub free: BTreeMap<String, Free>,
    /// The newest ends last: what was free is measured a while before it is known here.
    spent: VecDeque<Spent>,
    /// When a job ended last of which it was not known where it wrote, ms since 1970: what was measured on
    /// other hosts before counts no more.
    unclear_ms: Option<u64>,
}

/// What is free in each place and held by none of the jobs that run.
#[derive(Debug)]
pub(super) struct Unheld<'a> {
    pub free: BTreeMap<String, Free>,
    /// Hosts to which a job runs that was adopted, and of which it is not known in which place it writes.
    unclear: BTreeSet<&'a str>,
}

impl Rooms {
    fn measure(&mut self, free: BTreeMap<String, u64>, read_ms: u64, until_ms: Option<u64>) {
        match until_ms {
            None => self.free.retain(|_, old| old.until_ms.is_some()),
            Some(until) => self
                .free
                .retain(|_, old| old.until_ms.is_none_or(|old| old.saturating_add(FORGET_MS) > until)),
        }
        for (place, bytes) in free {
            // What has ended since may have been written after it was measured.
            let since = self.spent.iter().filter(|spent| spent.at_ms >= read_ms && spent.place == place);
            let bytes = since.fold(bytes, |bytes, spent| bytes.saturating_sub(spent.bytes));
            let is_unclear = self.unclear_ms.is_some_and(|unclear_ms| unclear_ms >= read_ms);
            let until_ms = until_ms.map(|until_ms| if is_unclear { read_ms } else { until_ms });
            self.free.insert(place, Free { bytes, until_ms });
        }
    }

    /// A job has ended: what it held may be written, and counts so until it was looked at.
    pub(super) fn spend(&mut self, entry: &Entry, now: Moment) {
        if entry.writes == Writes::Unasked {
            self.unclear_ms = Some(now.ms);
            self.free.values_mut().for_each(|free| free.doubt(now));
        }
        let (Writes::At(place), Some(bytes)) = (&entry.writes, entry.left_bytes) else { return };
        if let Some(free) = self.free.get_mut(place) {
            free.bytes = free.bytes.saturating_sub(bytes);
        }
        if self.spent.len() >= SPENT_MAX {
            self.spent.pop_front();
        }
        self.spent.push_back(Spent { at_ms: now.ms, place: place.clone(), bytes });
    }

    /// What is known of a place is to be asked for again before a job begins there.
    pub(super) fn doubt(&mut self, place: &str, now: Moment) {
        if let Some(free) = self.free.get_mut(place) {
            free.doubt(now);
        }
    }

    pub(super) fn unheld<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Unheld<'a> {
        let mut unheld = Unheld { free: self.free.clone(), unclear: BTreeSet::new() };
        for entry in entries.filter(|entry| entry.is_running()) {
            match (&entry.writes, entry.left_bytes) {
                (Writes::At(place), Some(left)) => {
                    if let Some(free) = unheld.free.get_mut(place) {
                        free.bytes = free.bytes.saturating_sub(left);
                    }
                }
                (Writes::Unasked, _) => unheld.unclear.extend(entry.destinations.iter().map(String::as_str)),
                _ => {}
            }
        }
        unheld
    }
}

/// Why there is no room for a job; none where there is, or where its size or its room is not known.
pub(super) fn lacking(entry: &Entry, unheld: &Unheld<'_>, now: Moment) -> Option<Reason> {
    let place = match &entry.writes {
        Writes::Unknown => return None,
        Writes::Untold { until_ms } => return (*until_ms <= now.ms).then_some(Reason::Unmeasured),
        Writes::Unmeasured | Writes::Unasked => return Some(Reason::Unmeasured),
        Writes::At(place) => place,
    };
    let (needed_bytes, free) = (entry.left_bytes?, *unheld.free.get(place)?);
    let is_unclear = free.until_ms.is_some()
        && entry.destinations.iter().any(|host| unheld.unclear.contains(host.as_str()));
    if is_unclear || !free.is_good(now) {
        return Some(Reason::Unmeasured);
    }
    (needed_bytes > free.bytes).then_some(Reason::Room { needed_bytes, free_bytes: free.bytes })
}

impl Schedule {
    /// Takes a look at places that jobs write to.
    pub fn set_room(&mut self, measured: Measured) {
        let Measured { left, read_ms, places, free, until_ms } = measured;
        self.rooms.measure(free, read_ms, until_ms);
        for (id, place) in places {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.writes = Writes::At(place);
            }
        }
        for (id, left) in left {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.left_bytes = Some(left);
            }
        }
    }
}
