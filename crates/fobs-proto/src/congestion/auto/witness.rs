//! What a controller can know of a path beside its rate: the queue that never goes away, and the losses that chance does
//! not explain.

use crate::{Rate, Timestamp};
use std::time::Duration;

/// The part of the queueing delay that stands: the least of a window, so that noise of hosts and bursts does not count.
#[derive(Debug, Default)]
pub(super) struct StandingQueue {
    now: Duration,
    before: Duration,
    began: Timestamp,
    idle_at: Timestamp,
}

impl StandingQueue {
    /// Takes a queueing delay; `window` is what its least is taken of, and `idle` is the delay at which the bottleneck
    /// may have idled.
    pub(super) fn on_delay(&mut self, now: Timestamp, delay: Duration, window: Duration, idle: Duration) {
        if now - self.began >= window {
            self.before = self.now;
            self.now = delay;
            self.began = now;
        }
        self.now = self.now.min(delay);
        if delay <= idle {
            self.idle_at = now;
        }
    }

    /// The standing delay.
    pub(super) fn delay(&self) -> Duration {
        self.now.min(self.before)
    }

    /// Whether the bottleneck cannot have idled for all of `span`.
    pub(super) fn was_busy(&self, now: Timestamp, span: Duration) -> bool {
        now - self.idle_at >= span
    }
}

/// For how long the path's own delay is remembered, at least; at most twice as long. Longer than the 5 s of [`AckSample::min_rtt`]: a
/// CUBIC flow beside us takes up to 15 s from one of its losses to the next, and in between its queue only grows.
///
/// [`AckSample::min_rtt`]: crate::congestion::AckSample::min_rtt
const BASE_SPAN: Duration = Duration::from_secs(30);

/// The path's own delay: the least round trip of a long time.
#[derive(Debug)]
pub(super) struct Base {
    now: Duration,
    before: Duration,
    began: Timestamp,
}

impl Default for Base {
    fn default() -> Base {
        Base { now: Duration::MAX, before: Duration::MAX, began: Timestamp::ZERO }
    }
}

impl Base {
    /// Takes a round trip and gives the least.
    pub(super) fn on_rtt(&mut self, now: Timestamp, rtt: Duration) -> Duration {
        if now - self.began >= BASE_SPAN {
            self.before = self.now;
            self.now = rtt;
            self.began = now;
        }
        self.now = self.now.min(rtt);
        self.now.min(self.before)
    }

    /// The path has another delay now.
    pub(super) fn forget(&mut self, now: Timestamp, rtt: Duration) {
        *self = Base { now: rtt, before: rtt, began: now };
    }
}

/// For how long the best delivery is remembered, at least; at most twice as long: to come back to after a burst of others,
pub(super) const BEST_SPAN: Duration = Duration::from_secs(2);
/// and to begin a competition with, as long as the path's own delay: a CUBIC flow that was there before us can take 15 s to show that it
/// gives no way, and what is left of our part by then says nothing.
pub(super) const HELD_SPAN: Duration = BASE_SPAN;

/// The most that was delivered lately.
#[derive(Debug)]
pub(super) struct Best {
    span: Duration,
    now: Option<Rate>,
    before: Option<Rate>,
    began: Timestamp,
}

impl Best {
    /// Of at least so long.
    pub(super) fn over(span: Duration) -> Best {
        Best { span, now: None, before: None, began: Timestamp::ZERO }
    }

    /// So much is delivered.
    pub(super) fn observe(&mut self, now: Timestamp, rate: Rate) {
        if now - self.began >= self.span {
            self.before = self.now.take();
            self.began = now;
        }
        self.now = self.now.max(Some(rate));
    }

    /// The best of at least its span, 0 if there is none.
    pub(super) fn rate(&self) -> Rate {
        self.now.max(self.before).unwrap_or(Rate::bytes_per_second(0))
    }
}

/// Packets lost beyond which chance does not explain them: what is expected and a quarter (the expectation is a measurement
/// too), three standard deviations, and a few.
const CHANCE_SHARE: f64 = 1.25;
const CHANCE_SIGMAS: f64 = 3.0;
const CHANCE_PACKETS: f64 = 4.0;
/// Losses of so many packets and of this share of a round trip need no statistics: no path worth using loses a third at random.
const COLLAPSE_PACKETS: f64 = 64.0;
const COLLAPSE_SHARE: f64 = 1.0 / 3.0;
/// Most loss that is called the path's own. Paths with 5% random loss exist; more is somebody's congestion.
const SHARE_MAX: f64 = 0.10;

/// Packets acknowledged and lost.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    acked: f64,
    lost: f64,
}

impl Count {
    fn all(self) -> f64 {
        self.acked + self.lost
    }
}

/// How many packets get lost, and how many would if we were not there.
#[derive(Debug, Default)]
pub(super) struct Losses {
    phase: Count,
    turn: Count,
    turn_began: Timestamp,
    /// Of phases in which nothing of ours was in the way, each weighing half of the one after it.
    unhindered: Count,
}

impl Losses {
    /// Packets arrived.
    pub(super) fn on_acked(&mut self, packets: f64) {
        self.phase.acked += packets;
        self.turn.acked += packets;
    }

    /// Packets were lost.
    pub(super) fn on_lost(&mut self, packets: f64) {
        self.phase.lost += packets;
        self.turn.lost += packets;
    }

    /// Packets acknowledged in this phase.
    pub(super) fn acked(&self) -> f64 {
        self.phase.acked
    }

    /// Another phase is measured.
    pub(super) fn begin_phase(&mut self) {
        self.phase = Count::default();
    }

    /// In this phase nothing of ours was in the way: what was lost is the path's own loss.
    pub(super) fn learn(&mut self) {
        self.unhindered.acked = self.unhindered.acked / 2.0 + self.phase.acked;
        self.unhindered.lost = self.unhindered.lost / 2.0 + self.phase.lost;
    }

    /// Share of packets that the path loses whatever we do, at most a tenth.
    pub(super) fn share(&self) -> f64 {
        if self.unhindered.all() < 1.0 {
            0.0
        } else {
            (self.unhindered.lost / self.unhindered.all()).min(SHARE_MAX)
        }
    }

    /// Whether more was lost in this phase than chance explains.
    pub(super) fn beyond_chance(&self) -> bool {
        let expected = CHANCE_SHARE * self.share() * self.phase.all();
        self.phase.lost > expected + CHANCE_SIGMAS * expected.sqrt() + CHANCE_PACKETS
    }

    /// Whether so many losses of so many packets are more than the path's own share explains. A path that is not known to lose
    /// any has none to explain.
    pub(super) fn beyond(&self, lost: f64, all: f64) -> bool {
        let expected = CHANCE_SHARE * self.share() * all;
        lost > expected + CHANCE_SIGMAS * expected.sqrt()
    }

    /// Whether so much was lost in the last round trip that there is nothing left to measure; true at most once a round trip.
    pub(super) fn collapse(&mut self, now: Timestamp, round_trip: Duration) -> bool {
        if now - self.turn_began < round_trip {
            return false;
        }
        let turn = std::mem::take(&mut self.turn);
        self.turn_began = now;
        turn.lost >= COLLAPSE_PACKETS && turn.lost > COLLAPSE_SHARE * turn.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Timestamp {
        Timestamp::ZERO + MS * ms
    }

    #[test]
    fn a_queue_that_comes_and_goes_does_not_stand() {
        let mut queue = StandingQueue::default();
        for ms in 0..40 {
            queue.on_delay(at(ms), if ms % 5 == 0 { MS } else { 9 * MS }, 10 * MS, 2 * MS);
        }
        assert_eq!(queue.delay(), MS);
        assert!(!queue.was_busy(at(40), 10 * MS));
        for ms in 40..60 {
            queue.on_delay(at(ms), 9 * MS, 10 * MS, 2 * MS);
        }
        assert_eq!(queue.delay(), 9 * MS);
        assert!(queue.was_busy(at(60), 20 * MS));
    }

    #[test]
    fn the_best_is_remembered_for_a_while() {
        let (slow, fast) = (Rate::bits_per_second(1_000_000), Rate::bits_per_second(9_000_000));
        let mut best = Best::over(BEST_SPAN);
        assert_eq!(best.rate().as_bytes(), 0);
        best.observe(at(1), fast);
        for ms in (2..2_000).step_by(10) {
            best.observe(at(ms), slow);
        }
        assert_eq!(best.rate(), fast, "younger than the span");
        for ms in (2_000..4_100).step_by(10) {
            best.observe(at(ms), slow);
        }
        assert_eq!(best.rate(), slow, "older than twice the span");
    }

    #[test]
    fn only_loss_beyond_the_path_s_own_is_news() {
        let mut losses = Losses::default();
        losses.on_acked(960.0);
        losses.on_lost(40.0);
        assert!(losses.beyond_chance(), "a path that is not known to lose");
        losses.learn();
        assert!(!losses.beyond_chance());
        assert_eq!(losses.share(), 0.04);
        losses.begin_phase();
        losses.on_acked(920.0);
        losses.on_lost(80.0);
        assert!(losses.beyond_chance(), "twice what the path loses");
    }

    #[test]
    fn a_collapse_is_told_once_a_round_trip() {
        let mut losses = Losses::default();
        losses.on_lost(100.0);
        losses.on_acked(100.0);
        assert!(!losses.collapse(at(5), 10 * MS));
        assert!(losses.collapse(at(10), 10 * MS));
        assert!(!losses.collapse(at(20), 10 * MS));
    }
}
