//! When a session gets one more lane: where the thread of its packets has been the limit for some seconds,
//! while cores were idle.
//!
//! What the threads of both ends did is judged in stretches, each as [`PacketThreads`] judges a whole
//! transfer. Several in a row must call for more lanes, and after an addition some are left out, in which
//! rates settle. A lane that brought nothing is the last: then something else is the limit.

use super::PacketThreads;
use std::time::Duration;

/// Length of a stretch: samples of the other end come once a second, and in less time a thread's share of a
/// core is noise.
const STRETCH: Duration = Duration::from_millis(1500);
/// Stretches in a row that must call for more.
const STRETCHES_BUSY: u32 = 3;
/// Stretches after an addition that are not judged: the controller finds the path's rate for more lanes.
const STRETCHES_SETTLING: u32 = 2;
/// By which part the rate must have grown for a lane to have been of use.
const GAIN_MIN: f64 = 0.1;
/// Part of the data that may have gone over streams: those have threads of their own.
const FRAMED_MAX: f64 = 0.125;

/// What makes a session grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowthRule {
    /// Threads that are the limit, on hosts with this number of cores at this end.
    Threads {
        /// Cores of this end.
        cores: u32,
    },
    /// Every stretch of this length, up to this number of lanes: for tests and experiments.
    Always {
        /// Length of a stretch.
        stretch: Duration,
        /// Lanes at most.
        lanes: u8,
    },
}

/// The time of a thread so far, as its end counts it, microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Since the session began.
    pub time_us: u64,
    /// On a core.
    pub run_us: u64,
    /// Ready, and without one.
    pub delay_us: u64,
}

/// What is seen of a session so far; counters never decrease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GrowthSeen {
    /// The thread that seals packets, of the average lane.
    pub sender: ThreadTimes,
    /// The one that opens them.
    pub receiver: ThreadTimes,
    /// Bytes acknowledged in datagrams, and in frames of streams.
    pub bytes: u64,
    /// See above.
    pub framed: u64,
    /// The present round trip, microseconds.
    pub round_trip_us: u64,
}

/// See the module.
#[derive(Debug)]
pub struct LaneGrowth {
    rule: GrowthRule,
    /// Bytes that several lanes may have in flight.
    room: u64,
    /// At the start of the present stretch.
    began: Option<GrowthSeen>,
    busy_stretches: u32,
    settling: u32,
    /// Bytes a second before the newest addition, until that is judged.
    before: Option<f64>,
    is_over: bool,
}

impl LaneGrowth {
    /// For a session whose lanes, once there are several, may have `room` bytes in flight.
    pub fn new(rule: GrowthRule, room: u64) -> LaneGrowth {
        LaneGrowth { rule, room, began: None, busy_stretches: 0, settling: 0, before: None, is_over: false }
    }

    /// Takes what is seen of a session that has `lanes` now: how busy the thread of a lane is, 0 to 1, if one
    /// more is to be added.
    pub fn observe(&mut self, lanes: u8, seen: GrowthSeen) -> Option<f64> {
        let began = *self.began.get_or_insert(seen);
        let stretch = match self.rule {
            GrowthRule::Threads { .. } => STRETCH,
            GrowthRule::Always { stretch, .. } => stretch,
        };
        let passed = |of: fn(&GrowthSeen) -> &ThreadTimes| {
            Duration::from_micros(of(&seen).time_us.saturating_sub(of(&began).time_us))
        };
        if self.is_over || passed(|seen| &seen.sender).min(passed(|seen| &seen.receiver)) < stretch {
            return None;
        }
        self.began = Some(seen);
        let busy = self.judge(lanes, &began, &seen);
        if let GrowthRule::Always { lanes: most, .. } = self.rule {
            return (lanes < most).then_some(busy.unwrap_or(1.0));
        }
        self.count(busy, rate_between(&began, &seen))
    }

    /// No further lane is to be added.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// How busy the thread of a lane was, if that calls for more.
    fn judge(&self, lanes: u8, began: &GrowthSeen, seen: &GrowthSeen) -> Option<f64> {
        let GrowthRule::Threads { cores } = self.rule else { return None };
        let part = |of: fn(&ThreadTimes) -> u64| {
            let end = |before: &ThreadTimes, now: &ThreadTimes| {
                let passed = now.time_us.saturating_sub(before.time_us).max(1) as f64;
                of(now).saturating_sub(of(before)) as f64 / passed
            };
            end(&began.sender, &seen.sender).max(end(&began.receiver, &seen.receiver))
        };
        let (busy, short) = (part(|times| times.run_us), part(|times| times.delay_us));
        let threads = PacketThreads { lanes, busy, short, cores };
        let [bytes, framed] =
            [seen.bytes.saturating_sub(began.bytes), seen.framed.saturating_sub(began.framed)];
        let in_flight = rate_between(began, seen) * seen.round_trip_us as f64 / 1e6;
        // The window of several lanes is half of the memory: a path that needs more is better off with one.
        let fits = in_flight * 2.0 <= self.room as f64;
        let over_udp = framed as f64 <= bytes as f64 * FRAMED_MAX;
        (threads.lanes_next() > lanes && fits && over_udp).then_some(busy)
    }

    /// Counts a stretch with this rate, bytes a second.
    fn count(&mut self, busy: Option<f64>, rate: f64) -> Option<f64> {
        if self.settling > 0 {
            self.settling -= 1;
            return None;
        }
        if let Some(before) = self.before.take()
            && rate < before * (1.0 + GAIN_MIN)
        {
            self.is_over = true;
            return None;
        }
        let Some(busy) = busy else {
            self.busy_stretches = 0;
            return None;
        };
        self.busy_stretches += 1;
        if self.busy_stretches < STRETCHES_BUSY {
            return None;
        }
        (self.busy_stretches, self.settling, self.before) = (0, STRETCHES_SETTLING, Some(rate));
        Some(busy)
    }
}

/// Bytes a second that were acknowledged meanwhile.
fn rate_between(began: &GrowthSeen, seen: &GrowthSeen) -> f64 {
    let seconds = seen.sender.time_us.saturating_sub(began.sender.time_us).max(1) as f64 / 1e6;
    seen.bytes.saturating_sub(began.bytes) as f64 / seconds
}

#[cfg(test)]
mod tests;
