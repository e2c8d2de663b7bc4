//! How far a path reorders, in time (RFC 8985 section 6.2, RACK's reordering window).
//!
//! RACK widens its window step by step, by reports of duplicates. Here each transmission has a number of its
//! own, so a late ack shows by how much its packet was overtaken, and the window follows what was measured.

use std::time::Duration;

/// Round trips for which a measurement counts at least, at most twice as long: RACK keeps its window for 16
/// recoveries.
const ROUND_TRIPS: u32 = 16;
/// Least window, a part of the round trip: RACK begins with a quarter, RFC 9002 waits an eighth.
const LEAST_SHARE: u32 = 8;
/// RFC 9002 section 6.1.2: timers cannot be finer than this.
const GRANULARITY: Duration = Duration::from_millis(1);
/// Largest window in round trips. RACK's bound is one, but of two unequal paths the round trip that is
/// measured may be the shorter one's.
const LARGEST_ROUND_TRIPS: u32 = 4;

/// By how much packets were overtaken lately.
#[derive(Debug, Default)]
pub(super) struct Reordering {
    /// The most of the present span, and of the one before.
    now: Option<Duration>,
    before: Option<Duration>,
    round_trips: u32,
}

impl Reordering {
    /// A packet arrived although one that was sent later by `extent` had been acknowledged.
    pub(super) fn on_overtaken(&mut self, extent: Duration) {
        self.now = self.now.max(Some(extent));
    }

    /// A round trip has passed.
    pub(super) fn on_round_trip(&mut self) {
        self.round_trips += 1;
        if self.round_trips == ROUND_TRIPS {
            self.round_trips = 0;
            self.before = self.now.take();
        }
    }

    /// How much later a packet must have been sent for one before it to be lost: a quarter more than the most
    /// that was seen. `None` on a path that keeps the order.
    pub(super) fn window(&self, round_trip: Duration) -> Option<Duration> {
        let most = self.now.max(self.before)?;
        let least = (round_trip / LEAST_SHARE).max(GRANULARITY);
        Some((most * 5 / 4).max(least).min(LARGEST_ROUND_TRIPS * round_trip.max(GRANULARITY)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_window_follows_what_was_seen_and_forgets_it() {
        let mut path = Reordering::default();
        assert_eq!(path.window(40 * MS), None);
        path.on_overtaken(8 * MS);
        path.on_overtaken(2 * MS);
        assert_eq!(path.window(40 * MS), Some(10 * MS));
        assert_eq!(path.window(200 * MS), Some(25 * MS), "an eighth of a round trip at least");
        assert_eq!(path.window(2 * MS), Some(8 * MS), "four round trips at most");
        for _ in 0..ROUND_TRIPS {
            path.on_round_trip();
        }
        assert!(path.window(40 * MS).is_some());
        for _ in 0..ROUND_TRIPS {
            path.on_round_trip();
        }
        assert_eq!(path.window(40 * MS), None);
    }
}
