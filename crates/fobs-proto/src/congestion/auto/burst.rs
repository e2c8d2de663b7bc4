//! Bursts of others that take all of the link and pass.
//!
//! When somebody sends at the link's rate beside us, the queue grows by nearly a second each second. A cruise never makes that slope, nor
//! does CUBIC or BBR in its steady state. Its first news takes a round trip, and the queue of one bandwidth-delay product is full by
//! then: so the answer is at once and deep, a trickle that only keeps the news coming. It ends as soon as the queue stands still while all of ours
//! is delivered, or falls: then the burst is over, and what we had is ours again without delay. A queue that does neither for some round
//! trips is no burst, and the usual law goes on.
//!
//! One of us who joins makes the same slope for a round trip, and if all of us answered it as a burst we would go on answering each other
//! (measured: Jain's index of eight fell to 0.7). What tells them apart is how often a steep queue comes and goes: joins leave one or
//! two a second apart. So bursts are answered where several have passed lately, and in the first second, when nothing can be known:
//! then only he who joins answers wrongly, and those who were there do not.

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
/// later. A burst at the link's rate beside ours makes 0.5. With 0.25 instead of 0.35 our own ramps counted (54% of what is left
/// instead of 70%); above 0.75 so little is delivered that the link itself has become slow.
const STEEP: (f64, f64) = (0.35, 0.75);
/// From point to point a queue that gains less than this stands still.
const FLAT: f64 = 0.1;
/// And all of ours is delivered if this share of what we sent arrives; behind a full queue a burst leaves us a half.
const DELIVERED: f64 = 0.8;
/// A queue is empty or has fallen below its highest by this part of the round trip, at least so much.
const FALLEN_SHARE: u32 = 16;
const FALLEN_MIN: Duration = Duration::from_millis(2);
/// The trickle, as a share of what we had. Measured beside bursts (7 to 15 copies of 1 GB, docs/experiments/cross-traffic.md): 0.1 gets 2
/// to 3 points less of what is left over than 0.2, 0.3 repeats 2 to 3 points more.
const TRICKLE: f64 = 0.2;
/// Round trips, with the queue in them, after which it is no burst.
const STAYS: f64 = 2.5;
/// What we take again of what we had.
const RETURN_SHARE: f64 = 0.95;
/// Once it is over, what the next round trip of acks tells is the past; and so much longer, until a new slope can be seen.
const NEWS: Duration = Duration::from_millis(20);
/// A slope that begins with the news of our return, or so much before, is our return's: we took more than there was.
const RETURN: Duration = Duration::from_millis(5);
/// So many steep queues that came and went within this time are bursts. Several of us who join every 2 s saw at most two (8 flows, 6
/// seeds, 26 and 65 ms), beside bursts of 100 ms four of five were at least the third.
const PASSED_COUNT: usize = 3;
const PASSED_SPAN: Duration = Duration::from_secs(2);
/// A queue that has not gone after so long will not count as one that passed.
const PASSED_MAX: Duration = Duration::from_secs(1);
/// For so long after the start a slope is taken for a burst's without any that passed. Without it 128 MB at 1 Gbit/s waste half as
/// much more; without its end eight of us share unequally.
const YOUNG: Duration = Duration::from_secs(1);

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

    /// Delay gained per time over the newest `count` points.
    fn slope(&self, count: usize) -> Option<f64> {
        let (first, last) = (self.points[POINTS - count], self.points[POINTS - 1]);
        let span = (last.0 - first.0).as_secs_f64();
        (self.count >= count && span > 0.0).then(|| (last.1.as_secs_f64() - first.1.as_secs_f64()) / span)
    }

    fn rises_steeply(&self) -> bool {
        let each = self.points.windows(2).all(|pair| pair[1].1 > pair[0].1);
        each && self.slope(POINTS).is_some_and(|slope| (STEEP.0..STEEP.1).contains(&slope))
    }

    fn newest(&self) -> Duration {
        self.points[POINTS - 1].1
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Phase {
    #[default]
    Watch,
    /// A trickle, since when; the longest round trip since then.
    Yield { since: Timestamp, longest: Duration },
    /// What we had again; the first ack of it comes at `news`.
    Return { news: Timestamp },
}

/// What is to be sent on account of a burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answer {
    /// There is none: what the usual law says.
    None,
    /// So much.
    Send(Rate),
    /// The same as the usual law from now on, which goes on with this.
    GoOn(Rate),
}

/// What the controller knows of the path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    /// Its own delay.
    pub(super) min_rtt: Duration,
    /// A queue that may be ours.
    pub(super) own_queue: Duration,
    /// What it delivers when it is busy.
    pub(super) capacity: Rate,
    /// What it delivers now.
    pub(super) delivered: Rate,
}

/// Watches for bursts, and answers them.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    trend: Trend,
    phase: Phase,
    /// What we had before the present one.
    had: Rate,
    began: Option<Timestamp>,
    /// Since when a steep queue stands, and when the last ones were gone.
    rose: Option<Timestamp>,
    passed: VecDeque<Timestamp>,
}

impl Bursts {
    /// Whether one is being answered.
    pub(super) fn answers(&self) -> bool {
        self.phase != Phase::Watch
    }

    /// What was seen until now is not connected with what comes.
    pub(super) fn forget_trend(&mut self) {
        self.trend = Trend::default();
        self.rose = None;
    }

    /// Takes an ack.
    pub(super) fn on_ack(&mut self, ack: &AckSample, path: Path) -> Answer {
        let packets = path.capacity.time_for(POINT_PACKETS * u64::from(ack.packet_len));
        let len = (path.min_rtt / POINT_SHARE).max(POINT_MIN).max(packets);
        self.trend.on_ack(ack.now, ack.latest_rtt, len);
        let fallen = (path.min_rtt / FALLEN_SHARE).max(FALLEN_MIN);
        let steep = self.trend.rises_steeply();
        self.count_passed(ack, steep && self.trend.newest() >= path.min_rtt + fallen, path.min_rtt + fallen);
        let rises = steep && self.trend.newest() > path.min_rtt + path.own_queue;
        let phase = match self.phase {
            Phase::Watch if rises && !ack.app_limited && self.expects(ack.now) => {
                self.had = path.capacity;
                Phase::Yield { since: ack.now, longest: ack.latest_rtt }
            }
            Phase::Watch => return Answer::None,
            Phase::Yield { since, longest } => {
                let longest = longest.max(self.trend.newest());
                let gained = |count| self.trend.slope(count).unwrap_or(f64::INFINITY);
                let falls = gained(2) < 0.0 && ack.latest_rtt + fallen < longest;
                let stands = gained(3) < FLAT && path.delivered > self.had.scaled(DELIVERED);
                if falls || stands {
                    Phase::Return { news: ack.now + ack.latest_rtt }
                } else if ack.now - since >= ack.latest_rtt.mul_f64(STAYS) {
                    return self.go_on(path.delivered);
                } else {
                    Phase::Yield { since, longest }
                }
            }
            Phase::Return { news } if steep && self.trend.points[0].0 + RETURN >= news => {
                return self.go_on(path.delivered);
            }
            Phase::Return { .. } if steep => Phase::Yield { since: ack.now, longest: ack.latest_rtt },
            Phase::Return { news } if ack.now >= news + NEWS => return self.go_on(self.had),
            Phase::Return { news } => Phase::Return { news },
        };
        if std::mem::discriminant(&phase) != std::mem::discriminant(&self.phase) {
            self.trend = Trend::default();
        }
        self.phase = phase;
        match phase {
            Phase::Yield { .. } => Answer::Send(self.had.scaled(TRICKLE)),
            Phase::Return { .. } | Phase::Watch => Answer::Send(self.had.scaled(RETURN_SHARE)),
        }
    }

    fn go_on(&mut self, rate: Rate) -> Answer {
        self.phase = Phase::Watch;
        self.trend = Trend::default();
        Answer::GoOn(rate)
    }

    /// Whether a slope is a burst's.
    fn expects(&self, now: Timestamp) -> bool {
        self.began.is_none_or(|began| now - began < YOUNG) || self.passed.len() >= PASSED_COUNT
    }

    fn count_passed(&mut self, ack: &AckSample, rises: bool, empty: Duration) {
        self.began.get_or_insert(ack.now);
        if rises {
            self.rose.get_or_insert(ack.now);
        }
        match self.rose {
            Some(_) if ack.latest_rtt < empty => {
                self.rose = None;
                self.passed.push_back(ack.now);
            }
            Some(rose) if ack.now - rose > PASSED_MAX => self.rose = None,
            _ => {}
        }
        if self.passed.len() > PASSED_COUNT
            || self.passed.front().is_some_and(|at| ack.now - *at > PASSED_SPAN)
        {
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
    const HAD: Rate = Rate::bits_per_second(900_000_000);
    const TRICKLES: Answer = Answer::Send(Rate::bits_per_second(180_000_000));

    struct Seen {
        bursts: Bursts,
        acks: Acks,
    }

    impl Seen {
        fn new() -> Seen {
            Seen { bursts: Bursts::default(), acks: Acks::new(RTT) }
        }

        /// An ack every millisecond of which each finds the queue longer by `gains` than the one before; the last answer but `None`.
        fn acks(&mut self, count: u32, gains: f64, delivered: Rate) -> Answer {
            let path = Path { min_rtt: RTT, own_queue: 3 * MS, capacity: HAD, delivered };
            let mut last = Answer::None;
            for _ in 0..count {
                let rtt = self.acks.rtt.as_secs_f64() + gains * 1e-3;
                self.acks.rtt = Duration::from_secs_f64(rtt).max(RTT);
                match self.bursts.on_ack(&self.acks.next(MS, delivered), path) {
                    Answer::None => {}
                    answer => last = answer,
                }
            }
            last
        }

        /// A steep queue that comes and goes.
        fn passes(&mut self) -> Answer {
            let answer = self.acks(20, 0.5, HAD.scaled(0.5));
            self.acks(40, -1.0, HAD);
            self.acks(200, 0.0, HAD);
            answer
        }
    }

    #[test]
    fn a_burst_is_yielded_to_and_what_we_had_comes_back_when_it_is_over() {
        let mut seen = Seen::new();
        assert_eq!(seen.acks(100, 0.0, HAD), Answer::None);
        assert_eq!(seen.acks(20, 0.5, HAD.scaled(0.5)), TRICKLES);
        assert_eq!(seen.acks(10, 0.0, HAD.scaled(0.5)), TRICKLES, "the queue is full, and the burst goes on");
        assert_eq!(seen.acks(10, -1.0, HAD.scaled(0.2)), Answer::Send(HAD.scaled(RETURN_SHARE)));
        assert_eq!(seen.acks(200, 0.0, HAD), Answer::GoOn(HAD));
        assert!(!seen.bursts.answers());
    }

    #[test]
    fn a_queue_that_stands_while_all_of_ours_arrives_has_no_burst_any_more() {
        let mut seen = Seen::new();
        assert_eq!(seen.acks(20, 0.5, HAD.scaled(0.5)), TRICKLES);
        assert_eq!(seen.acks(10, 0.0, HAD), Answer::Send(HAD.scaled(RETURN_SHARE)));
    }

    #[test]
    fn a_queue_that_stays_and_one_that_our_return_makes_are_the_usual_law_s() {
        let mut seen = Seen::new();
        seen.acks(20, 0.5, HAD.scaled(0.5));
        assert_eq!(seen.acks(400, 0.0, HAD.scaled(0.1)), Answer::GoOn(HAD.scaled(0.1)));
        let mut seen = Seen::new();
        seen.acks(20, 0.5, HAD.scaled(0.5));
        seen.acks(20, -1.0, HAD.scaled(0.2));
        let until_news = (seen.acks.rtt.as_millis() - 10) as u32;
        seen.acks(until_news, 0.0, HAD.scaled(0.2));
        assert_eq!(seen.acks(20, 0.5, HAD.scaled(0.6)), Answer::GoOn(HAD.scaled(0.6)));
    }

    #[test]
    fn gentle_slopes_and_noise_are_no_bursts() {
        let mut seen = Seen::new();
        assert_eq!(seen.acks(200, 0.2, HAD), Answer::None);
        let mut seen = Seen::new();
        for _ in 0..100 {
            assert_eq!(seen.acks(1, 9.0, HAD), Answer::None);
            assert_eq!(seen.acks(1, -9.0, HAD), Answer::None);
        }
    }

    #[test]
    fn later_on_several_must_have_passed_lately() {
        let mut seen = Seen::new();
        seen.acks(1100, 0.0, HAD);
        let answers: Vec<bool> = (0..4).map(|_| seen.passes() != Answer::None).collect();
        assert_eq!(answers, [false, false, false, true]);
        seen.acks(2500, 0.0, HAD);
        assert_eq!(seen.passes(), Answer::None, "these were long ago");
    }
}
