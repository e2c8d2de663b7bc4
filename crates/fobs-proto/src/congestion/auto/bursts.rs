//! Bursts of others that take all of the link and pass.
//!
//! When somebody sends at the link's rate beside us, the queue grows by nearly a second each second. A cruise never makes that slope, nor
//! does CUBIC or BBR in its steady state. The queue of one bandwidth-delay product is full when its first news arrives, and what of ours is on
//! its way beyond the product is lost: so while bursts come the window leaves less of that.
//!
//! One of us who joins makes the same slope for a round trip, and a shorter window would cut who has less. What tells them apart is
//! how often a steep queue comes and goes: joins leave one or two a second apart. In the first second nothing can have come and gone so
//! often; there a steep queue is met as a burst while it stands.

use super::super::AckSample;
use crate::{Rate, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// Points in a row that must rise, and the time from one to the next: a part of the round trip, not so little that the 0.3 ms of
/// two hosts' noise counts, and some packets on slow paths.
const POINTS: usize = 4;
const POINT_SHARE: u32 = 32;
const POINT_MIN: Duration = Duration::from_millis(2);
const POINT_PACKETS: u64 = 4;
/// Delay gained per time at our end: `s / (1 + s)` for a queue that grows by `s`, because the news of a growing queue comes later and
/// later. A burst at the link's rate beside ours makes 0.5; above 0.75 so little is delivered that the link itself has become slow.
const STEEP: (f64, f64) = (0.35, 0.75);
/// A queue shorter than this part of the round trip, at least so much, is gone.
const GONE_SHARE: u32 = 16;
const GONE_MIN: Duration = Duration::from_millis(2);
/// So many steep queues that came and went within this time are bursts. Several of us who join every 2 s saw at most two (8 flows, 6
/// seeds, 26 and 65 ms), beside bursts of 100 ms four of five were at least the third.
const PASSED_COUNT: usize = 3;
const PASSED_SPAN: Duration = Duration::from_secs(2);
/// A queue that has not gone after so long will not count as one that passed.
const PASSED_MAX: Duration = Duration::from_secs(1);
/// For so long after the path's rate was found one steep queue is enough: a copy of 128 MB at 1 Gbit/s wasted most of all here, 11.2% of its
/// packets instead of 7.7% (docs/experiments/cross-traffic.md).
const FIRST_SPAN: Duration = Duration::from_secs(1);

/// Least round trips of short spans: noise only adds.
#[derive(Debug, Default)]
struct Trend {
    /// When, and how long; the newest last.
    points: [(Timestamp, Duration); POINTS],
    count: usize,
    began: Timestamp,
    open: Option<(Timestamp, Duration)>,
}

impl Trend {
    fn on_ack(&mut self, now: Timestamp, rtt: Duration, len: Duration) {
        if let Some(point) = self.open
            && now - self.began >= len
        {
            self.points.rotate_left(1);
            self.points[POINTS - 1] = point;
            self.count = (self.count + 1).min(POINTS);
            self.open = None;
        }
        match &mut self.open {
            Some(point) if rtt < point.1 => *point = (now, rtt),
            Some(_) => {}
            None => {
                self.began = now;
                self.open = Some((now, rtt));
            }
        }
    }

    fn rises_steeply(&self) -> bool {
        let ((began, from), (ended, to)) = (self.points[0], self.points[POINTS - 1]);
        let each = self.points.windows(2).all(|pair| pair[1].1 > pair[0].1);
        let slope = to.saturating_sub(from).as_secs_f64() / (ended - began).as_secs_f64();
        self.count == POINTS && each && (STEEP.0..STEEP.1).contains(&slope)
    }

    fn newest(&self) -> Duration {
        self.points[POINTS - 1].1
    }
}

/// Watches for bursts.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    trend: Trend,
    began: Option<Timestamp>,
    /// Since when a steep queue stands, and when the last ones were gone.
    rose: Option<Timestamp>,
    passed: VecDeque<Timestamp>,
}

impl Bursts {
    /// Whether the next may come at any time.
    pub(super) fn expected(&self) -> bool {
        self.passed.len() >= PASSED_COUNT
    }

    /// Whether one may be here: one of several, or a steep queue that came too early to know.
    pub(super) fn may_stand(&self) -> bool {
        let early = |rose: Timestamp| self.began.is_some_and(|began| rose - began <= FIRST_SPAN);
        self.expected() || self.rose.is_some_and(early)
    }

    /// What was seen until now is not connected with what comes.
    pub(super) fn forget_trend(&mut self) {
        self.trend = Trend::default();
        self.rose = None;
    }

    /// Takes an ack on a path of this delay and rate, once that has been found.
    pub(super) fn on_ack(&mut self, ack: &AckSample, min_rtt: Duration, capacity: Rate) {
        self.began.get_or_insert(ack.now);
        let packets = capacity.time_for(POINT_PACKETS * u64::from(ack.packet_len));
        self.trend.on_ack(ack.now, ack.latest_rtt, (min_rtt / POINT_SHARE).max(POINT_MIN).max(packets));
        let gone = min_rtt + (min_rtt / GONE_SHARE).max(GONE_MIN);
        if self.trend.rises_steeply() && self.trend.newest() >= gone {
            self.rose.get_or_insert(ack.now);
        }
        match self.rose {
            Some(_) if ack.latest_rtt < gone => {
                self.rose = None;
                self.passed.push_back(ack.now);
            }
            Some(rose) if ack.now - rose > PASSED_MAX => self.rose = None,
            _ => {}
        }
        let old = |at: &Timestamp| ack.now - *at > PASSED_SPAN;
        if self.passed.len() > PASSED_COUNT || self.passed.front().is_some_and(old) {
            self.passed.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::Acks;
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const RTT: Duration = Duration::from_millis(65);
    const RATE: Rate = Rate::bits_per_second(900_000_000);

    struct Seen {
        bursts: Bursts,
        acks: Acks,
    }

    impl Seen {
        fn new() -> Seen {
            Seen { bursts: Bursts::default(), acks: Acks::new(RTT) }
        }

        /// An ack every millisecond of which each finds the queue longer by `gains` than the one before.
        fn acks(&mut self, count: u32, gains: f64) {
            for _ in 0..count {
                let rtt = self.acks.rtt.as_secs_f64() + gains * 1e-3;
                self.acks.rtt = Duration::from_secs_f64(rtt).max(RTT);
                self.bursts.on_ack(&self.acks.next(MS, RATE), RTT, RATE);
            }
        }

        /// Queues of 20 ms that come with this slope and go; whether bursts are expected after each.
        fn passes(&mut self, slope: f64) -> [bool; 4] {
            [(); 4].map(|()| {
                self.acks((20.0 / slope) as u32, slope);
                self.acks(40, -1.0);
                self.acks(200, 0.0);
                self.bursts.expected()
            })
        }
    }

    #[test]
    fn several_steep_queues_that_pass_are_bursts_until_they_are_long_ago() {
        let mut seen = Seen::new();
        assert_eq!(seen.passes(0.5), [false, false, true, true]);
        seen.acks(2500, 0.0);
        assert!(!seen.bursts.expected());
    }

    #[test]
    fn a_steep_queue_of_the_first_second_is_met_as_one_while_it_stands() {
        let mut seen = Seen::new();
        seen.acks(100, 0.0);
        assert!(!seen.bursts.may_stand(), "no queue");
        seen.acks(40, 0.5);
        assert!(seen.bursts.may_stand() && !seen.bursts.expected());
        seen.acks(40, -1.0);
        assert!(!seen.bursts.may_stand(), "it has gone");
        seen.acks(1000, 0.0);
        seen.acks(40, 0.5);
        assert!(!seen.bursts.may_stand(), "it came after the first second");
    }

    #[test]
    fn gentle_slopes_and_noise_are_none() {
        assert_eq!(Seen::new().passes(0.2), [false; 4]);
        let mut seen = Seen::new();
        for _ in 0..500 {
            seen.acks(1, 9.0);
            seen.acks(1, -9.0);
        }
        assert!(!seen.bursts.expected());
    }

    #[test]
    fn a_queue_that_stays_is_none() {
        let mut seen = Seen::new();
        for _ in 0..4 {
            seen.acks(20, 0.5);
            seen.acks(1100, 0.0);
            seen.acks(40, -1.0);
        }
        assert!(!seen.bursts.expected());
    }
}
