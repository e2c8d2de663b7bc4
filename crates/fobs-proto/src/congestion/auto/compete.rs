//! Beside flows that fill the queue until it overflows: whoever gives way to the delay there gives way for ever. `auto` tells such
//! a neighbour by a queue that does not go away when it sends less, and then does as the neighbour does: CUBIC (RFC 9438), as
//! Copa changes its mode (Arun, Balakrishnan 2018, section 2.2), until sending less for a moment shows that the queue is its own.
//!
//! Two things are not CUBIC's. Losses that chance explains are none of its business. And where losses go on after it has
//! answered them, others do not answer (BBR version 1 does not): there it gives no further way than its bound of losses asks.

use super::super::cubic::Cubic;
use super::super::{AckSample, Controller, LossEpisode, ModeReason};
use super::persist::Persist;
use super::priority::Priority;
use super::witness::Losses;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// The queue is crowded above so many targets: twice what our own law would leave.
const CROWDED: u32 = 2;
/// Round trips for which it must stay so,
const CROWDED_ROUNDS: u32 = 4;
/// and how often what we have yielded meanwhile must cover its highest: a queue of our own is gone after once.
const CROWDED_YIELDED: f64 = 1.5;

/// Watches whether the queue goes away when we send less.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    since: Option<Timestamp>,
    last: Timestamp,
    peak: Duration,
    /// How much shorter the queue would be by now if it were ours, seconds: what we sent less than was delivered, net of what we sent
    /// more, or our own drains and climbs among others like us would look like yielding.
    yielded: f64,
    /// It stayed though we yielded, and when it was last gone.
    stayed: bool,
    gone: Timestamp,
}

impl Crowd {
    /// The queue is gone, whoever made it go: who fills queues does not.
    pub(super) fn on_gone(&mut self, now: Timestamp) {
        *self = Crowd { gone: now, ..Crowd::default() };
    }

    /// Takes the standing queue, the queue that we aim at, and the share of what is delivered that we do not send; whether others
    /// hold the queue: one that stayed though we yielded and was not gone for as long as `patience`.
    pub(super) fn on_ack(
        &mut self,
        ack: &AckSample,
        queue: Duration,
        target: Duration,
        yields: f64,
        patience: Duration,
    ) -> bool {
        self.stayed |= self.stays(ack, queue, target, yields);
        self.stayed && ack.now - self.gone >= patience
    }

    fn stays(&mut self, ack: &AckSample, queue: Duration, target: Duration, yields: f64) -> bool {
        if queue <= CROWDED * target || ack.app_limited {
            *self = Crowd { stayed: self.stayed, gone: self.gone, ..Crowd::default() };
            return false;
        }
        let since = *self.since.get_or_insert(ack.now);
        if self.last > Timestamp::ZERO {
            self.yielded = (self.yielded + yields * (ack.now - self.last).as_secs_f64()).max(0.0);
        }
        self.last = ack.now;
        self.peak = self.peak.max(queue);
        ack.now - since >= CROWDED_ROUNDS * ack.latest_rtt
            && self.yielded >= CROWDED_YIELDED * self.peak.as_secs_f64()
    }

    /// How much shorter the queue would be by now if it were ours.
    pub(super) fn yielded(&self) -> Duration {
        Duration::try_from_secs_f64(self.yielded).unwrap_or_default()
    }
}

/// From test to test whether the queue is ours: a test costs its round trip half of the rate, 2% of the time at 26 ms.
const TEST_EVERY: Duration = Duration::from_secs(3);
/// Or so many round trips, where these are long.
const TEST_ROUNDS: u32 = 30;
/// Share of the rate that a test withholds.
const TEST_YIELDS: f64 = 0.5;
/// And for how long, as so much more than would empty the queue if it were ours.
const TEST_MARGIN: f64 = 1.2;
/// What may be left of the queue then. With half of the link in our hands 0.4 of it are left.
const TEST_LEFT: f64 = 0.3;
/// The first test comes after so many.
const TEST_FIRST: u32 = 4;
/// While less is sent a busy queue delivers more than that, by half of our share of the link. If it does not, there is no queue: the
/// path is longer than it was.
const TEST_NO_QUEUE: f64 = 1.05;
/// The queue need not be watched any more when it has been near its target for so many round trips.
const CALM_ROUNDS: u32 = 16;
/// An event of losses comes alone if standard TCP would have needed a half of the time since the last to come back to where it was
/// (RFC 9438 section 4.3: 0.3 of the window, 0.53 packets a round trip), or so many round trips.
const ALONE_SHARE: f64 = 0.5 * 0.3 / 0.53;
const ALONE_ROUNDS: f64 = 16.0;
/// Where losses go on whatever we do: what of ours may be lost before we send less nevertheless.
const LOSS_MAX: f64 = 0.05;

/// Losses in a row that came although the last were answered, and the share of what was ours before it: then others do not answer.
const DEAF_LOSSES: u32 = 4;
const DEAF_SHARE: f64 = 0.25;
/// Of which we then begin with so much.
const PERSIST_SHARE: f64 = 0.35;
/// With more than this we take from those who do answer.
const HEARD_SHARE: f64 = 0.65;

/// What we do as.
#[derive(Debug)]
enum Law {
    /// Others answer losses.
    Cubic(Cubic),
    /// They do not.
    Persist(Persist),
}

/// What a competition comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// Others fill the queue.
    GoesOn,
    /// The queue went away when we sent less: it is ours.
    Over,
    /// There is no queue: the path's own delay is longer than we thought.
    Longer,
}

/// A test: less is sent until the first moment, and the queue is watched until the second.
#[derive(Debug, Clone, Copy)]
struct Test {
    low_until: Timestamp,
    watch_until: Timestamp,
    rate: Rate,
    /// The queue that would show that it was ours.
    ours: Duration,
}

/// A competition at work.
#[derive(Debug)]
pub(super) struct Compete {
    priority: Priority,
    law: Law,
    /// What the link gave before it had to be shared, as far as known.
    proven: Rate,
    unanswered: u32,
    test: Option<Test>,
    test_at: Timestamp,
    calm_since: Option<Timestamp>,
    /// Packets of the present round.
    acked: f64,
    lost: f64,
    last_loss: Option<LossEpisode>,
    answered: Option<Timestamp>,
    lost_last: Option<Timestamp>,
    rtt: Duration,
    /// Why the law is another one than it was.
    change: Option<ModeReason>,
}

/// CUBIC with the window that sends `rate` now.
fn as_cubic(ack: &AckSample, rate: Rate) -> Law {
    let packets = rate.bytes_in(ack.latest_rtt) as f64 / f64::from(ack.packet_len.max(1));
    Law::Cubic(Cubic::at(ack.packet_len, packets))
}

impl Compete {
    /// Begins with `rate` where the link gave `proven` before.
    pub(super) fn new(ack: &AckSample, rate: Rate, proven: Rate, priority: Priority) -> Compete {
        let law = match priority {
            Priority::Greedy => Law::Persist(Persist::new(ack.now, rate)),
            Priority::Scavenger | Priority::Fair => as_cubic(ack, rate),
        };
        Compete {
            priority,
            law,
            proven,
            unanswered: 0,
            test: None,
            test_at: ack.now + TEST_FIRST * ack.latest_rtt,
            calm_since: None,
            acked: 0.0,
            lost: 0.0,
            last_loss: None,
            answered: None,
            lost_last: None,
            rtt: ack.latest_rtt,
            change: None,
        }
    }

    /// Takes an ack, the standing queue and the one that we would leave.
    pub(super) fn on_ack(
        &mut self,
        ack: &AckSample,
        delivered: Rate,
        queue: Duration,
        target: Duration,
        losses: &Losses,
    ) -> Verdict {
        self.rtt = ack.latest_rtt;
        self.acked += ack.acked_packets as f64;
        if ack.round_start {
            self.end_round(ack, losses);
        }
        match &mut self.law {
            Law::Cubic(cubic) => cubic.on_ack(ack),
            Law::Persist(persist) => persist.on_ack(ack, delivered),
        }
        self.choose_law(ack, delivered);
        if queue > target {
            self.calm_since = None;
        }
        let calm = *self.calm_since.get_or_insert(ack.now);
        let quiet = queue <= target && ack.now - calm >= CALM_ROUNDS * ack.latest_rtt;
        if let Some(test) = self.test {
            if queue <= test.ours {
                return Verdict::Over;
            }
            if ack.now >= test.watch_until {
                self.test = None;
                self.test_at = ack.now + TEST_EVERY.max(TEST_ROUNDS * ack.latest_rtt);
                if !ack.app_limited && delivered <= test.rate.scaled(TEST_NO_QUEUE) {
                    return Verdict::Longer;
                }
            }
        } else if ack.now >= self.test_at {
            let low = queue.mul_f64(TEST_MARGIN / TEST_YIELDS);
            let low_until = ack.now + low;
            let rate = delivered.scaled(1.0 - TEST_YIELDS);
            let ours = target.min(queue.mul_f64(TEST_LEFT));
            self.test = Some(Test { low_until, watch_until: low_until + ack.latest_rtt, rate, ours });
        }
        if quiet { Verdict::Over } else { Verdict::GoesOn }
    }

    /// Packets were lost.
    pub(super) fn on_loss(&mut self, loss: &LossEpisode) {
        self.lost += loss.packets as f64;
        self.last_loss = Some(*loss);
    }

    fn end_round(&mut self, ack: &AckSample, losses: &Losses) {
        let (acked, lost) = (std::mem::take(&mut self.acked), std::mem::take(&mut self.lost));
        let Some(loss) = self.last_loss.take() else { return };
        if !losses.beyond(lost, acked + lost) {
            return;
        }
        let round = ack.latest_rtt.as_secs_f64();
        let rounds_since = |at: Option<Timestamp>| {
            at.map_or(f64::INFINITY, |at| (ack.now - at).as_secs_f64() / round.max(1e-6))
        };
        let Law::Cubic(cubic) = &mut self.law else { return };
        let packets = cubic.congestion_window() as f64 / f64::from(ack.packet_len.max(1));
        let alone = rounds_since(self.lost_last) >= (ALONE_SHARE * packets).min(ALONE_ROUNDS);
        self.unanswered = if rounds_since(self.lost_last) >= ALONE_ROUNDS { 0 } else { self.unanswered + 1 };
        self.lost_last = Some(ack.now);
        let heavy = lost > (LOSS_MAX + losses.share()) * (acked + lost) && rounds_since(self.answered) >= 2.0;
        if alone || heavy {
            self.answered = Some(ack.now);
            cubic.on_loss(&LossEpisode { now: ack.now, sent: (ack.now, ack.now), ..loss });
        }
    }

    fn choose_law(&mut self, ack: &AckSample, delivered: Rate) {
        if self.priority == Priority::Greedy {
            return;
        }
        match &self.law {
            Law::Cubic(_) if self.unanswered >= DEAF_LOSSES && delivered < self.proven.scaled(DEAF_SHARE) => {
                self.law = Law::Persist(Persist::new(ack.now, self.proven.scaled(PERSIST_SHARE)));
                self.change = Some(ModeReason::LossesStay { rounds: self.unanswered, proven: self.proven });
            }
            Law::Persist(_) if delivered > self.proven.scaled(HEARD_SHARE) => {
                self.law = as_cubic(ack, delivered);
                self.unanswered = 0;
                self.change = Some(ModeReason::LossesAnswered { proven: self.proven });
            }
            _ => {}
        }
    }

    /// Why the law is another one since this was last asked.
    pub(super) fn take_change(&mut self) -> Option<ModeReason> {
        self.change.take()
    }

    /// Whether a test is on.
    pub(super) fn tests(&self, now: Timestamp) -> Option<Rate> {
        self.test.filter(|test| now < test.low_until).map(|test| test.rate)
    }

    /// The window, bytes.
    pub(super) fn window(&self) -> u64 {
        match &self.law {
            Law::Cubic(cubic) => cubic.congestion_window(),
            Law::Persist(persist) => persist.window(self.rtt),
        }
    }

    /// The rate of departures.
    pub(super) fn pacing(&self, now: Timestamp) -> Rate {
        let law = match &self.law {
            Law::Cubic(cubic) => cubic.pacing_rate().unwrap_or(Rate::ZERO),
            Law::Persist(persist) => persist.pacing(),
        };
        self.tests(now).unwrap_or(law)
    }

    /// What it is doing, in a word.
    pub(super) fn state(&self) -> &'static str {
        match &self.law {
            Law::Cubic(_) => "as cubic",
            Law::Persist(_) => "persists",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Acks, PACKET};
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TARGET: Duration = Duration::from_millis(2);
    const RATE: Rate = Rate::bits_per_second(50_000_000);

    /// Whether a quarter less, sent for so many acks of 5 ms, finds a crowd in queues that `queue` gives.
    fn crowded(acks_sent: u32, queue: impl Fn(u32) -> Duration) -> bool {
        let (mut crowd, mut acks) = (Crowd::default(), Acks::new(40 * MS));
        (0..acks_sent).any(|n| crowd.on_ack(&acks.next(5 * MS, RATE), queue(n), TARGET, 0.25, 200 * MS))
    }

    #[test]
    fn a_queue_that_stays_is_a_crowd_and_one_that_goes_is_none() {
        assert!(crowded(60, |_| 20 * MS), "it does not shrink");
        // Ours: a quarter less takes 1.25 ms from it with each ack.
        assert!(!crowded(60, |n| (20 * MS).saturating_sub(n * Duration::from_micros(1250))));
        assert!(!crowded(60, |_| TARGET), "no longer than we want it");
        assert!(!crowded(20, |_| 20 * MS), "not yet");
    }

    #[test]
    fn a_queue_that_goes_once_in_a_while_is_not_of_those_who_fill_it() {
        let judge = |goes_every: u32| {
            let (mut crowd, mut acks) = (Crowd::default(), Acks::new(40 * MS));
            (1..400).any(|n| {
                let ack = acks.next(5 * MS, RATE);
                if n % goes_every == 0 {
                    crowd.on_gone(ack.now);
                }
                crowd.on_ack(&ack, 20 * MS, TARGET, 0.25, 1000 * MS)
            })
        };
        assert!(!judge(190), "every 950 ms");
        assert!(judge(210), "every 1050 ms");
    }

    #[test]
    fn losses_in_a_row_are_answered_once_and_then_others_are_deaf() {
        let mut acks = Acks::new(40 * MS);
        let losses = Losses::default();
        let proven = Rate::bits_per_second(400_000_000);
        let mut compete = Compete::new(&acks.round(0), RATE, proven, Priority::Fair);
        let before = compete.window();
        for round in 0..6 {
            compete.on_loss(&acks.losses(2));
            let ack = acks.round(compete.window());
            compete.on_ack(&ack, RATE, 20 * MS, TARGET, &losses);
            if round == 2 {
                let share = compete.window() as f64 / before as f64;
                assert!((0.69..0.8).contains(&share), "one answer to three losses: {share}");
                assert_eq!(compete.state(), "as cubic");
                assert_eq!(compete.take_change(), None);
            }
        }
        assert_eq!(compete.state(), "persists");
        assert_eq!(compete.take_change(), Some(ModeReason::LossesStay { rounds: DEAF_LOSSES, proven }));
        assert!(compete.window() > before, "and takes its part of what the link gave");
    }

    #[test]
    fn a_test_that_empties_the_queue_ends_it() {
        let mut acks = Acks::new(40 * MS);
        let losses = Losses::default();
        let mut compete = Compete::new(&acks.round(0), RATE, RATE, Priority::Fair);
        let mut queue = 20 * MS;
        for _ in 0..200 {
            let ack = acks.next(5 * MS, RATE);
            if compete.tests(ack.now).is_some() {
                queue = queue.saturating_sub(3 * MS);
            }
            if compete.on_ack(&ack, RATE, queue, TARGET, &losses) == Verdict::Over {
                assert!(queue <= TARGET, "{queue:?}");
                return;
            }
        }
        panic!("no test in a second, with packets of {PACKET} bytes");
    }
}
