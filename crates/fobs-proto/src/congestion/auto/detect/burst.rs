//! Bursts of cross traffic that take all of the link and pass.
//!
//! Where another sender starts at the link's rate, the queue grows by nearly a second each second, a slope
//! that neither cruising nor CUBIC nor BBR makes in its steady state. When the first news of it arrives a
//! queue of one bandwidth-delay product is full, and what is in flight in excess of it is lost: so while
//! bursts come the window leaves less of that.
//!
//! An `auto` flow that joins makes the same slope for a round trip. What differs is how often a steep queue
//! comes and goes: joins leave one or two a second apart. Just after the ramp nothing can have come and gone
//! so often; there one steep queue is enough while it stands.

use super::super::super::AckSample;
use super::super::findings::Bursts;
use super::super::params::{Params, TREND_POINTS as POINTS};
use crate::{Rate, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

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

    fn rises_steeply(&self, p: &Params) -> bool {
        let ((began, from), (ended, to)) = (self.points[0], self.points[POINTS - 1]);
        let each = self.points.windows(2).all(|pair| pair[1].1 > pair[0].1);
        let slope = to.saturating_sub(from).as_secs_f64() / (ended - began).as_secs_f64();
        self.count == POINTS && each && slope >= p.steep_min
    }

    fn newest(&self) -> Duration {
        self.points[POINTS - 1].1
    }
}

/// The path that bursts are looked for on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BurstPath {
    pub(crate) min_rtt: Duration,
    pub(crate) capacity: Rate,
    /// Longer delays that are no queue.
    pub(crate) noise: Duration,
}

/// Watches for bursts.
#[derive(Debug, Default)]
pub(crate) struct BurstDetector {
    trend: Trend,
    /// The first ack after the ramp.
    began: Option<Timestamp>,
    /// Since when a steep queue stands.
    rose: Option<Timestamp>,
    /// When the last steep queues passed.
    passed: VecDeque<Timestamp>,
}

impl BurstDetector {
    pub(crate) fn finding(&self, p: &Params) -> Bursts {
        let early = |rose: Timestamp| self.began.is_some_and(|began| rose - began <= p.drain_cycle_min);
        if self.passed.len() > p.in_a_row as usize {
            Bursts::Expected
        } else if self.rose.is_some_and(early) {
            Bursts::Standing
        } else {
            Bursts::Absent
        }
    }

    /// What was seen until now is not connected with what comes.
    pub(crate) fn forget_trend(&mut self) {
        self.trend = Trend::default();
        self.rose = None;
    }

    /// Takes an ack on this path, once the ramp has found its rate.
    pub(crate) fn on_ack(&mut self, ack: &AckSample, path: &BurstPath, p: &Params) {
        let BurstPath { min_rtt, capacity, noise } = *path;
        self.began.get_or_insert(ack.now);
        let packets = capacity.time_for(p.few_packets * u64::from(ack.packet_len));
        self.trend.on_ack(
            ack.now,
            ack.latest_rtt,
            (min_rtt / p.queue_share / 2).max(p.queue_min).max(packets).max(noise),
        );
        let gone = min_rtt + noise + (min_rtt / p.queue_share).max(p.queue_min);
        if self.trend.rises_steeply(p) && self.trend.newest() >= gone {
            self.rose.get_or_insert(ack.now);
        }
        match self.rose {
            Some(_) if ack.latest_rtt < gone => {
                self.rose = None;
                self.passed.push_back(ack.now);
            }
            Some(rose) if ack.now - rose > p.drain_cycle_min => self.rose = None,
            _ => {}
        }
        let old = |at: &Timestamp| ack.now - *at > p.drain_cycle_min;
        if self.passed.len() > p.in_a_row as usize + 1 || self.passed.front().is_some_and(old) {
            self.passed.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::testing::Acks;
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const RTT: Duration = Duration::from_millis(65);
    const RATE: Rate = Rate::bits_per_second(900_000_000);

    struct Seen {
        bursts: BurstDetector,
        params: Params,
        acks: Acks,
    }

    impl Seen {
        fn new() -> Seen {
            Seen { bursts: BurstDetector::default(), params: Params::default(), acks: Acks::new(RTT) }
        }

        fn finding(&self) -> Bursts {
            self.bursts.finding(&self.params)
        }

        /// An ack every millisecond of which each finds the queue longer by `gains` than the one before.
        fn acks(&mut self, count: u32, gains: f64) {
            for _ in 0..count {
                let rtt = self.acks.rtt.as_secs_f64() + gains * 1e-3;
                self.acks.rtt = Duration::from_secs_f64(rtt).max(RTT);
                let path = BurstPath { min_rtt: RTT, capacity: RATE, noise: Duration::ZERO };
                self.bursts.on_ack(&self.acks.next(MS, RATE), &path, &self.params);
            }
        }

        /// Queues of 20 ms that come with this slope and go; whether bursts are expected after each.
        fn passes(&mut self, slope: f64) -> [bool; 4] {
            [(); 4].map(|()| {
                self.acks((20.0 / slope) as u32, slope);
                self.acks(40, -1.0);
                self.acks(200, 0.0);
                self.finding() == Bursts::Expected
            })
        }
    }

    #[test]
    fn several_steep_queues_that_pass_are_bursts_for_a_while() {
        let mut seen = Seen::new();
        assert_eq!(seen.passes(0.5), [false, false, true, true]);
        seen.acks(2500, 0.0);
        assert!(seen.finding() != Bursts::Expected);
    }

    #[test]
    fn one_steep_queue_just_after_the_ramp_counts_while_it_stands() {
        let mut seen = Seen::new();
        seen.acks(100, 0.0);
        assert_eq!(seen.finding(), Bursts::Absent, "no queue");
        seen.acks(40, 0.5);
        assert_eq!(seen.finding(), Bursts::Standing);
        seen.acks(40, -1.0);
        assert_eq!(seen.finding(), Bursts::Absent, "it has gone");
        seen.acks(2000, 0.0);
        seen.acks(40, 0.5);
        assert_eq!(seen.finding(), Bursts::Absent, "it came later");
    }

    #[test]
    fn gentle_slopes_and_noise_are_no_bursts() {
        assert_eq!(Seen::new().passes(0.2), [false; 4]);
        let mut seen = Seen::new();
        for _ in 0..500 {
            seen.acks(1, 9.0);
            seen.acks(1, -9.0);
        }
        assert!(seen.finding() != Bursts::Expected);
    }

    #[test]
    fn a_queue_that_stays_is_no_burst() {
        let mut seen = Seen::new();
        for _ in 0..4 {
            seen.acks(20, 0.5);
            seen.acks(2100, 0.0);
            seen.acks(40, -1.0);
        }
        assert!(seen.finding() != Bursts::Expected);
    }
}
