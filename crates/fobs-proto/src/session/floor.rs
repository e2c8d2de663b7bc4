//! A transfer that crawls: the lowest mean rate that a user accepts, over a time of the user's choice.

use crate::{Rate, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// Samples kept over the time: the window is exact to one part in this many.
const SAMPLES: u32 = 32;

/// The lowest rate, and what was measured over the newest stretch of time.
#[derive(Debug)]
pub struct RateFloor {
    rate: Rate,
    over: Duration,
    /// Moments and bytes until then, oldest first; the first is the newest that is at least `over` old, once
    /// there is one.
    samples: VecDeque<(Timestamp, u64)>,
}

impl RateFloor {
    /// At least `rate` on average over any stretch of `over`, from the first look on.
    pub fn new(rate: Rate, over: Duration) -> RateFloor {
        RateFloor { rate, over, samples: VecDeque::new() }
    }

    /// To be called with every heartbeat; `bytes` are all so far. The rate over the time, if it is below the
    /// lowest.
    pub fn check(&mut self, now: Timestamp, bytes: u64) -> Option<Rate> {
        let newest = self.samples.back().map(|(at, _)| *at);
        if newest.is_none_or(|newest| now - newest >= self.over / SAMPLES) {
            self.samples.push_back((now, bytes));
        }
        while self.samples.get(1).is_some_and(|(at, _)| now - *at >= self.over) {
            self.samples.pop_front();
        }
        let &(since, before) = self.samples.front()?;
        let time = now - since;
        let measured = Rate::of(bytes.saturating_sub(before), time)?;
        (time >= self.over && measured < self.rate).then_some(measured)
    }
}

#[cfg(test)]
mod tests {
    use super::super::HEARTBEAT;
    use super::*;

    const MEGABIT: Rate = Rate::bits_per_second(1_000_000);
    const OVER: Duration = Duration::from_secs(30);

    /// The heartbeat at which the floor is broken by this rate in each of its heartbeats, bytes a heartbeat.
    fn broken_at(bytes_at: impl Fn(u32) -> u64, beats: u32) -> Option<Duration> {
        let mut floor = RateFloor::new(MEGABIT, OVER);
        let mut bytes = 0;
        (0..beats).map(|beat| (beat, HEARTBEAT * beat)).find_map(|(beat, at)| {
            bytes += bytes_at(beat);
            floor.check(Timestamp::ZERO + at, bytes).map(|_| at)
        })
    }

    #[test]
    fn a_rate_below_the_floor_ends_it_after_the_time() {
        assert_eq!(broken_at(|_| 24_000, 1000), Some(OVER));
        assert_eq!(broken_at(|_| 25_001, 1000), None);
        assert_eq!(broken_at(|_| 0, 1000), Some(OVER));
    }

    #[test]
    fn a_pause_within_the_time_is_made_good() {
        // A burst of 30 s' worth every 15 s.
        assert_eq!(broken_at(|beat| if beat % 75 == 0 { 3_750_000 } else { 0 }, 2000), None);
    }

    #[test]
    fn a_fast_start_does_not_excuse_what_follows() {
        let stalls = |beat| if beat < 100 { 1_000_000 } else { 0 };
        let at = broken_at(stalls, 1000).expect("it crawls");
        let stalled = HEARTBEAT * 100;
        assert!((stalled + OVER / 2..=stalled + OVER + OVER / SAMPLES + HEARTBEAT).contains(&at), "{at:?}");
    }

    #[test]
    fn memory_is_bounded_whatever_the_time() {
        let mut floor = RateFloor::new(MEGABIT, Duration::from_secs(100_000));
        for beat in 0..100_000 {
            floor.check(Timestamp::ZERO + HEARTBEAT * beat, u64::from(beat));
            assert!(floor.samples.len() <= SAMPLES as usize + 2);
        }
    }
}
