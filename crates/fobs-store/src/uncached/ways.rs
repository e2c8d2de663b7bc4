//! Which way of writing is faster on one file system, as measured: a slow disk takes less time behind a cache
//! that has room.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fobs_model::storage::CacheReason;

/// One way of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Into the page cache.
    Through,
    /// To the device.
    Past,
}

/// How fast both ways are on one file system.
#[derive(Debug, Clone)]
pub(crate) struct Ways(Arc<Mutex<Paces>>);

/// See [`Ways`].
#[derive(Debug)]
pub(super) struct Paces {
    /// All is asked to be on the device at the end: then the cache only puts that off.
    kept_at_once: bool,
    /// The file system says that it can, and does not.
    pub(super) refused: bool,
    /// Time for a byte, s.
    through: Option<f64>,
    past: Option<f64>,
    /// Writes in all.
    writes: u64,
    /// Since the other way was tried last: writes, and the time that they took.
    since: (u32, Duration),
    /// How much longer the last try took.
    excess: Duration,
}

impl Paces {
    /// Each way is tried this often at first.
    const FIRST: u64 = 4;
    /// Past the cache costs a tenth of the CPU (0.1 s for a GB instead of 1.7 s, ext4), which is worth a
    /// quarter of the time.
    const WORTH: f64 = 1.25;
    /// Share of a new write in what is known of a way.
    const GAIN: f64 = 0.25;
    /// Fewest writes from one try of the other way to the next, and the least time, in tries.
    const TRY_AFTER: u32 = 32;
    const TRY_COST: u32 = 20;

    fn better(&self) -> Way {
        match (self.through, self.past) {
            (Some(through), Some(past)) if past <= through * Self::WORTH => Way::Past,
            _ => Way::Through,
        }
    }

    /// The next write's way, and why that is through the cache where it is.
    pub(super) fn next(&self) -> (Way, CacheReason) {
        if self.refused {
            return (Way::Through, CacheReason::Refused);
        }
        if self.kept_at_once {
            return (Way::Past, CacheReason::Timed);
        }
        if self.writes < 2 * Self::FIRST {
            let way = if self.writes.is_multiple_of(2) { Way::Through } else { Way::Past };
            return (way, CacheReason::Timed);
        }
        let (writes, time) = self.since;
        let is_due = writes >= Self::TRY_AFTER && time >= self.excess * Self::TRY_COST;
        match (self.better(), is_due) {
            (Way::Past, false) | (Way::Through, true) => (Way::Past, CacheReason::Timed),
            (Way::Through, false) => (Way::Through, CacheReason::Faster),
            (Way::Past, true) => (Way::Through, CacheReason::Timed),
        }
    }

    /// Whether the next write may be one of several at a time: past the cache, as is known to be the faster
    /// way. One that is to be timed is not.
    pub(super) fn goes_beside(&mut self, bytes: usize) -> bool {
        if self.refused || self.kept_at_once {
            return !self.refused;
        }
        if self.writes < 2 * Self::FIRST || self.better() != Way::Past || self.next().0 != Way::Past {
            return false;
        }
        let usual = self.past.map_or(0.0, |pace| pace * bytes as f64);
        let (writes, time) = self.since;
        self.since = (writes.saturating_add(1), time.saturating_add(Duration::from_secs_f64(usual)));
        true
    }

    pub(super) fn took(&mut self, way: Way, bytes: usize, time: Duration) {
        let other = self.better() != way;
        let for_a_byte = time.as_secs_f64() / bytes.max(1) as f64;
        let (pace, others) = match way {
            Way::Through => (&mut self.through, self.past),
            Way::Past => (&mut self.past, self.through),
        };
        let known = pace.get_or_insert(for_a_byte);
        *known += (for_a_byte - *known) * Self::GAIN;
        self.writes += 1;
        if other {
            let usual = others.map_or(0.0, |pace| pace * bytes as f64);
            self.excess = Duration::from_secs_f64((time.as_secs_f64() - usual).max(0.0));
            self.since = (0, Duration::ZERO);
        } else {
            self.since = (self.since.0.saturating_add(1), self.since.1.saturating_add(time));
        }
    }
}

impl Ways {
    /// Of one on which nothing was written yet; with `fsync` its device is asked to keep each file.
    pub(crate) fn new(fsync: bool) -> Ways {
        Ways(Arc::new(Mutex::new(Paces {
            kept_at_once: fsync,
            refused: false,
            through: None,
            past: None,
            writes: 0,
            since: (0, Duration::ZERO),
            excess: Duration::ZERO,
        })))
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Paces) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;
