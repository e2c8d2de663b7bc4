//! Whether a delta costs less time than the whole file: what is measured, and what is tried to measure it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::choice::{Cheaper, GROWTH_MAX, Pace, Rates};
use super::form::Cutting;
use super::gaps::Gaps;
use crate::tree_hash::GROUP;
use fobs_model::deltas::Because;
use fobs_model::options::sync::Delta;

/// Bytes that are looked at, listed or sent before a rate or a share means something.
const SAMPLE: u64 = 64 << 20;
/// Likewise for the threads' own work, which does not wait for anything.
const WORK_SAMPLE: u64 = 4 << 20;
/// What a session spends at first, at most, to find out how fast data goes whole: while it is spent the list
/// of the first file comes, which a delta waits for.
const OPENING: Duration = Duration::from_millis(100);
/// Share of the time of reading for deltas that is spent later on the same question.
const STAKE: f64 = 0.05;
/// A trial needs this many round trips, and this time, to say anything.
const TRIPS: f64 = 6.0;
const TRIAL_MIN: Duration = Duration::from_millis(50);
/// Data of a trial that is sent before any of it has arrived, bytes.
const START: u64 = 64 << 10;
/// Chunks of a trial that are in flight at once, at least, once it is faster.
const PARTS: u64 = 8;
/// A rate is that of a window of at least these round trips, and seconds.
const WINDOW_TRIPS: f64 = 2.0;
const WINDOW_S: f64 = 0.02;
/// Weight of a window in the rate of what goes whole, once that is known.
const SMOOTHING: f64 = 0.125;

/// What a sender knows of a session's path, files and ends. Clones share it.
#[derive(Debug, Clone)]
pub struct Pays(Arc<Measured>);

#[derive(Debug)]
struct Measured {
    when: Delta,
    state: Mutex<Findings>,
    gaps: Mutex<Gaps>,
}

/// What was found so far.
#[derive(Debug, Default)]
struct Findings {
    round_trip: Option<Duration>,
    whole: Option<f64>,
    whole_min: f64,
    pace: Pace,
    delta: Work,
    reading: Work,
    /// Of each way to cut, and which of them is the present file's.
    by_content: Cuts,
    in_place: Cuts,
    cutting: Cutting,
    looked_at: u64,
    found: u64,
    /// When the trial in work began, and what earlier ones took.
    trial: Option<Instant>,
    spent: Duration,
    /// Bytes of trials that were read, and that have arrived.
    tried: u64,
    arrived: u64,
    /// Whether lists are of no use, and what the receiver was told of that.
    wants_none: bool,
    told_none: bool,
}

/// What cutting a basis, and looking for that, takes.
#[derive(Debug, Default, Clone, Copy)]
struct Cuts {
    looking: Work,
    /// What the receiver listed of files that are passed, and of the present one.
    listing: [Work; 2],
}

/// Bytes, and the time that they took.
#[derive(Debug, Default, Clone, Copy)]
struct Work {
    bytes: u64,
    seconds: f64,
}

/// Which way a file goes from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// As a delta: what is not listed is waited for.
    Delta,
    /// Whole.
    Whole,
    /// Whole until the rate of that is known, this number of bytes now.
    Trial(u64),
}

/// Whether the sender is past a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    Yes,
    No,
}

/// A chunk that the receiver has verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// File data in it, bytes.
    pub data_bytes: u64,
    /// Whether pieces were looked for in it.
    pub looked: bool,
    /// What of it was read for a trial, bytes.
    pub tried: u64,
    /// Time since the chunk before, or since it left if that was of another kind or nothing was to be sent.
    pub took: Duration,
    /// Which of the two.
    pub follows: Follows,
}

/// What was before a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// One of its kind.
    ItsLike,
    /// One of another kind.
    Another,
    /// Nothing: the sender waited for decisions.
    Nothing,
}

impl Work {
    fn add(&mut self, bytes: u64, time: Duration) {
        self.bytes += bytes;
        self.seconds += time.as_secs_f64();
    }

    /// Bytes per second, over at least this many.
    fn rate(self, least: u64) -> Option<f64> {
        (self.bytes >= least && self.seconds > 0.0).then(|| self.bytes as f64 / self.seconds)
    }
}

impl Findings {
    fn rates(&self) -> Rates {
        let Cuts { looking, listing: [past, present] } = match self.cutting {
            Cutting::ByContent => self.by_content,
            Cutting::InPlace => self.in_place,
        };
        let listing = Work { bytes: past.bytes + present.bytes, seconds: past.seconds + present.seconds };
        let missed = 1.0 - self.found as f64 / self.looked_at.max(1) as f64;
        Rates {
            whole: self.whole,
            whole_min: self.whole_min.max(self.pace.best()),
            delta: self.delta.rate(SAMPLE),
            reading: self.reading.rate(WORK_SAMPLE),
            listing: listing.rate(WORK_SAMPLE),
            looking: looking.rate(WORK_SAMPLE),
            missed: (self.looked_at >= SAMPLE).then_some(missed),
        }
    }

    /// Whether a trial goes on, or begins.
    fn tries(&self, now: Instant) -> bool {
        // Where deltas wait for the path there is no work, and nothing to learn.
        let looked_s = self.by_content.looking.seconds + self.in_place.looking.seconds;
        let worked_s = self.reading.seconds + looked_s;
        let allowed = OPENING + Duration::from_secs_f64(worked_s * STAKE);
        let left = allowed.saturating_sub(self.spent);
        // The first of it shows how long a round trip takes.
        let round_trip = self.round_trip.unwrap_or_default();
        // One that ends before it could be as fast as would count says nothing.
        let doublings = (self.rates().worth() * round_trip.as_secs_f64() / START as f64).log2().ceil();
        let is_enough = left >= round_trip.mul_f64(doublings.max(TRIPS)).max(TRIAL_MIN);
        let lasts = now.saturating_duration_since(self.trial.unwrap_or(now));
        // One that would soon show that whole files are faster is not broken off.
        let soon = (left + OPENING).saturating_sub(lasts).as_secs_f64();
        let may_rise = || self.pace.reaches(self.rates().worth()).is_some_and(|seconds| seconds < soon);
        is_enough && (lasts < left || may_rise())
    }

    /// What this way to cut takes, which is the present one.
    fn cuts(&mut self, cutting: Cutting) -> &mut Cuts {
        self.cutting = cutting;
        match cutting {
            Cutting::ByContent => &mut self.by_content,
            Cutting::InPlace => &mut self.in_place,
        }
    }

    fn way(&mut self, now: Instant) -> Way {
        let cheaper = self.rates().cheaper();
        self.wants_none = cheaper == Cheaper::Whole;
        if cheaper == Cheaper::Open && self.tries(now) {
            self.trial.get_or_insert(now);
            // Twice as fast as so far, at most: of a slow path no queue is made that a delta would wait for.
            let flying = START + (GROWTH_MAX * self.pace.best() * self.window_s()) as u64;
            let room = (self.arrived + flying).saturating_sub(self.tried);
            // In parts, so that one is read while others travel.
            let part = (flying / PARTS).max(START) / GROUP * GROUP;
            return Way::Trial(if room < part { 0 } else { part });
        }
        if let Some(since) = self.trial.take() {
            self.spent += now.saturating_duration_since(since);
        }
        if cheaper == Cheaper::Whole { Way::Whole } else { Way::Delta }
    }

    /// How long a window of what goes whole is at least, seconds.
    fn window_s(&self) -> f64 {
        WINDOW_S.max(self.round_trip.unwrap_or_default().as_secs_f64() * WINDOW_TRIPS)
    }

    /// Another chunk went whole.
    fn went_whole(&mut self, arrival: Arrival) {
        if arrival.follows != Follows::ItsLike {
            self.pace.begin_window();
        }
        let (took, window_s) = (arrival.took.as_secs_f64(), self.window_s());
        let Some((rate, true)) = self.pace.arrived(arrival.data_bytes, took, window_s) else { return };
        self.whole = Some(self.whole.map_or(rate, |whole| whole + (rate - whole) * SMOOTHING));
    }
}

impl Pays {
    /// Of a session in which the user chose this.
    pub fn new(when: Delta) -> Pays {
        Pays(Arc::new(Measured { when, state: Mutex::default(), gaps: Mutex::default() }))
    }

    /// The path was once found to carry this.
    pub fn path_carries(&self, bytes_per_second: u64) {
        self.state().whole_min = bytes_per_second as f64;
    }

    /// A round trip takes this long.
    pub fn round_trip(&self, time: Duration) {
        self.state().round_trip = Some(time);
    }

    /// The receiver has verified a chunk.
    pub fn arrived(&self, arrival: Arrival) {
        let mut state = self.state();
        state.arrived += arrival.tried;
        if arrival.looked {
            let took = if arrival.follows == Follows::Nothing { Duration::ZERO } else { arrival.took };
            state.delta.add(arrival.data_bytes, took);
            if state.delta.bytes > 4 * SAMPLE {
                // What is older counts half.
                state.delta.bytes /= 2;
                state.delta.seconds /= 2.0;
            }
        } else if arrival.data_bytes > 0 {
            state.went_whole(arrival);
        }
    }

    /// Whether lists are of use, if the receiver was not told so.
    pub fn news_of_lists(&self) -> Option<bool> {
        let mut state = self.state();
        let is_told = state.told_none == state.wants_none;
        state.told_none = state.wants_none;
        (!is_told).then_some(!state.wants_none)
    }

    /// The receiver has listed this much of a file within this time.
    pub(super) fn was_listed(&self, (bytes, time): (u64, Duration), passed: Passed, cutting: Cutting) {
        let mut state = self.state();
        let [past, present] = &mut state.cuts(cutting).listing;
        *present = Work { bytes, seconds: time.as_secs_f64() };
        if passed == Passed::Yes {
            past.bytes += bytes;
            past.seconds += time.as_secs_f64();
            *present = Work::default();
        }
    }

    /// `bytes` were read and hashed.
    pub(crate) fn was_read(&self, bytes: u64, time: Duration) {
        self.state().reading.add(bytes, time);
    }

    /// Looking at `bytes` took this time.
    pub(super) fn worked(&self, bytes: u64, time: Duration, cutting: Cutting) {
        self.state().cuts(cutting).looking.add(bytes, time);
    }

    /// `bytes` were looked at, of which this number were found.
    pub(super) fn found(&self, bytes: u64, found: u64) {
        let mut state = self.state();
        state.looked_at += bytes;
        state.found += found;
    }

    /// `bytes` were read for a trial.
    pub(super) fn tried(&self, bytes: u64) {
        self.state().tried += bytes;
    }

    /// Which way a file goes from here.
    pub(crate) fn way(&self, now: Instant) -> Way {
        if self.0.when == Delta::Auto { self.state().way(now) } else { Way::Delta }
    }

    /// Why files go whole, where they do.
    pub(super) fn why_whole(&self) -> Because {
        if self.state().rates().is_hopeless() { Because::Hopeless } else { Because::Faster }
    }

    /// How gaps between long pieces are looked at.
    pub(super) fn gaps(&self) -> MutexGuard<'_, Gaps> {
        self.0.gaps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, Findings> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
