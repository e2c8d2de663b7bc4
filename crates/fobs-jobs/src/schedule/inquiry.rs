//! Which other hosts are asked for their room, and what follows from their answers.
//!
//! A host is asked before a job begins there that could begin otherwise, and for one that was adopted while
//! it ran. What was said of a place is good for a while; meanwhile jobs begin and end there by what they
//! hold.

use std::collections::BTreeMap;

use super::entry::{Entry, Writes};
use super::{JobId, Measured, Moment, Schedule};

/// A job whose host is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inquiry {
    /// The job.
    pub id: JobId,
    /// The place, where it is known.
    pub place: Option<String>,
}

/// What a host has said for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The job.
    pub id: JobId,
    /// The place in which it writes.
    pub place: String,
    /// What is free there.
    pub free_bytes: u64,
    /// Until when that is good, ms since 1970.
    pub until_ms: u64,
    /// What the job has still to write, now that it is known what is there.
    pub left_bytes: Option<u64>,
    /// What jobs had still to write before the host was asked.
    pub before: Measured,
}

impl Schedule {
    /// The jobs for which another host is to be asked, because they run or would begin otherwise.
    pub fn inquiries(&self, now: Moment) -> Vec<Inquiry> {
        let is_due = |entry: &Entry| match &entry.writes {
            Writes::Unasked => Some(None),
            Writes::Untold { until_ms } if *until_ms <= now.ms && !entry.is_running() => Some(None),
            Writes::At(place) if !entry.is_running() && entry.left_bytes.is_some() => {
                let free = self.rooms.free.get(place).filter(|free| free.until_ms.is_some());
                free.is_some_and(|free| !free.is_good(now)).then(|| Some(place.clone()))
            }
            _ => None,
        };
        let would_begin = |entry: &Entry| {
            entry.is_running()
                || (entry.holds_back(now).is_none() && self.places.full(entry, self.limits).is_none())
        };
        let due = self.entries.iter().filter_map(|(id, entry)| Some((*id, entry, is_due(entry)?)));
        let due = due.filter(|(_, entry, _)| would_begin(entry));
        due.map(|(id, _, place)| Inquiry { id, place }).collect()
    }

    /// A host has answered.
    pub fn told(&mut self, told: Told, now: Moment) {
        let Told { id, place, free_bytes, until_ms, left_bytes, before } = told;
        // Jobs may have begun and ended in a place that was known and good while it was asked about: what
        // is known of it then stays.
        let runs = self.entries.get(&id).is_some_and(Entry::is_running);
        if self.free_at(&place, now).is_some() {
            if runs {
                // It was adopted, and has written since that was measured.
                self.rooms.doubt(&place, now);
            }
            return self.take_place(id, place, left_bytes, now);
        }
        let Measured { mut left, read_ms, .. } = before;
        left.retain(|other, _| *other == id || self.place_of(*other) == Some(&place));
        let mut places: BTreeMap<JobId, String> = left.keys().map(|other| (*other, place.clone())).collect();
        places.insert(id, place.clone());
        if let Some(bytes) = left_bytes.filter(|_| !runs) {
            left.insert(id, bytes);
        }
        let free = BTreeMap::from([(place, free_bytes)]);
        self.set_room(Measured { left, read_ms, places, free, until_ms: Some(until_ms) });
    }

    /// A job writes in a place that is known already.
    fn take_place(&mut self, id: JobId, place: String, left_bytes: Option<u64>, now: Moment) {
        let left = left_bytes.map(|bytes| (id, bytes)).into_iter().collect();
        let places = BTreeMap::from([(id, place)]);
        self.set_room(Measured { left, places, until_ms: Some(now.ms), ..Measured::default() });
    }

    /// Whether there is room for all of a job in a place of which is known what is free: then it writes
    /// there.
    pub fn takes_known(&mut self, id: JobId, place: &str, left_bytes: Option<u64>, now: Moment) -> bool {
        let is_enough = self.free_at(place, now).is_some_and(|free| left_bytes.unwrap_or(0) <= free);
        if is_enough {
            self.take_place(id, place.to_owned(), left_bytes, now);
        }
        is_enough
    }

    /// The host to which a job writes does not say how much room it has: until then it begins without.
    pub fn set_untold(&mut self, id: JobId, until_ms: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.writes = Writes::Untold { until_ms };
        }
    }

    /// The place in which a job writes, where that is known.
    pub fn place_of(&self, id: JobId) -> Option<&str> {
        match &self.entries.get(&id)?.writes {
            Writes::At(place) => Some(place),
            _ => None,
        }
    }

    /// What is free in a place and held by none of those that run, where that is known and good.
    fn free_at(&self, place: &str, now: Moment) -> Option<u64> {
        let unheld = self.rooms.unheld(self.entries.values());
        unheld.free.get(place).filter(|free| free.is_good(now)).map(|free| free.bytes)
    }
}
