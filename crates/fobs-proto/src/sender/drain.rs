//! The drain rate: the rate at which the receiver empties its socket, as a limit beside congestion control,
//! which losses at the receiver do not affect (protocol 5.10).
//!
//! A receiver that is too slow drops the excess: at its own rate it loses nothing and gets as much. One that
//! pauses now and then drops the same share at any rate, and a lower rate only costs. The effect of a cut
//! tells them apart: one that only reduced the delivery rate is taken back. The limit never exceeds the rate
//! at which losses were found, so a loss that the receiver claims never lets the sender go faster.

use crate::{Rate, Timestamp};
use std::time::Duration;

/// Share of the packets that the receiver may lose: probing for more by [`GROWTH`] costs about as much.
const TOLERATED: f64 = 0.01;
/// Share from which a cut stays even if it does not help: above it most of the path's capacity is wasted.
const TOO_MUCH: f64 = 0.33;
/// Largest cut at once: a receiver that paused does not show its rate.
const CUT_MAX: f64 = 0.5;
/// A cut has helped if the share lost fell below this part of the share before, or if the rate taken fell by
/// less than this part of the cut.
const HELPED: f64 = 0.5;
/// Cuts without effect after which the first of them is taken back. Not one: the packets that fill a socket's
/// buffer look as if the receiver had taken them.
const VAIN_MAX: u32 = 2;
/// How long a receiver that cuts do not help is left at its rate before the next cut.
const RESPITE: Duration = Duration::from_secs(10);
/// Growth of the limit per period with less than [`TOLERATED`] lost: doubled in 15 periods.
const GROWTH: f64 = 1.05;
/// Shortest time, and fewest round trips, that a share is taken over: schedulers keep a thread off its CPU
/// for tens of milliseconds.
const PERIOD: Duration = Duration::from_millis(250);
const PERIOD_ROUND_TRIPS: u32 = 4;
/// The limit is lifted from this multiple of the controller's rate on.
const GONE_FROM: f64 = 2.0;
/// Lowest limit, bytes per second: enough to notice that the receiver is back.
const LOWEST: u64 = 125_000;

/// The limit.
#[derive(Debug, Default)]
pub(super) struct DrainLimit {
    limit: Option<Rate>,
    phase: Phase,
    period: Option<Period>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Phase {
    /// Nothing is being tried.
    #[default]
    Steady,
    /// A cut was made: the yield before it, and cuts without effect until then, the first of them from
    /// `full`.
    Cut { full: Rate, before: Yield, vain: u32 },
    /// Cuts do not help; until then.
    Respite(Timestamp),
}

#[derive(Debug, Clone, Copy)]
struct Period {
    /// Not before this.
    from: Timestamp,
    began: Timestamp,
    before: Count,
}

/// The result of a period.
#[derive(Debug, Clone, Copy)]
struct Yield {
    /// Share of the packets that the receiver lost.
    share: f64,
    /// Packets a second that it took.
    taken: f64,
}

impl Yield {
    /// Whether a cut by `cut` (a share) from the result `before` has helped.
    fn helped(self, before: Yield, cut: f64) -> bool {
        self.share <= HELPED * before.share || self.taken >= before.taken * (1.0 - HELPED * cut)
    }
}

/// Packets sent, and those of them that the receiver lost, since the beginning.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Count {
    pub(super) sent: u64,
    pub(super) spared: u64,
}

impl DrainLimit {
    pub(super) fn rate(&self) -> Option<Rate> {
        self.limit
    }

    /// A round trip has passed. `rate` is the sending rate, `wanted` the controller's.
    pub(super) fn on_round_trip(
        &mut self,
        now: Timestamp,
        rtt: Duration,
        count: Count,
        rate: Rate,
        wanted: Rate,
    ) {
        let period = self.period.get_or_insert(Period { from: now, began: now, before: count });
        if now < period.from {
            // Packets that left before a change are not counted.
            *period = Period { began: now, before: count, ..*period };
            return;
        }
        let Period { began, before, .. } = *period;
        if now < began + PERIOD.max(rtt * PERIOD_ROUND_TRIPS) {
            return;
        }
        let lost = count.spared.saturating_sub(before.spared) as f64;
        let sent = count.sent.saturating_sub(before.sent) as f64;
        let taken = (sent - lost).max(0.0) / (now - began).as_secs_f64();
        let result = Yield { share: lost / sent.max(1.0), taken };
        let changed = self.decide(now, result, rate);
        if !changed && result.share <= TOLERATED && !matches!(self.phase, Phase::Respite(_)) {
            self.grow(wanted);
        }
        // Packets in flight when the rate changes belong to the rate before.
        let from = if changed { now + rtt + rtt / 2 } else { now };
        self.period = Some(Period { from, began: now, before: count });
    }

    /// Whether the rate changes much by it.
    fn decide(&mut self, now: Timestamp, result: Yield, rate: Rate) -> bool {
        let share = result.share;
        match self.phase {
            Phase::Respite(until) if share <= TOO_MUCH => {
                if now >= until {
                    self.phase = Phase::Steady;
                }
                false
            }
            _ if share <= TOLERATED => {
                self.phase = Phase::Steady;
                false
            }
            Phase::Cut { full, before, vain }
                if share <= TOO_MUCH && !result.helped(before, before.share.min(CUT_MAX)) =>
            {
                if vain + 1 >= VAIN_MAX {
                    self.limit = Some(full);
                    self.phase = Phase::Respite(now + RESPITE);
                } else {
                    self.cut(rate, share);
                    self.phase = Phase::Cut { full, before: result, vain: vain + 1 };
                }
                true
            }
            _ => {
                self.cut(rate, share);
                self.phase = Phase::Cut { full: rate, before: result, vain: 0 };
                true
            }
        }
    }

    fn cut(&mut self, rate: Rate, share: f64) {
        let cut = rate.scaled(1.0 - share.min(CUT_MAX));
        self.limit = Some(Rate::bytes_per_second(cut.as_bytes().max(LOWEST)));
    }

    fn grow(&mut self, wanted: Rate) {
        let raised = self.limit.map(|limit| limit.scaled(GROWTH));
        self.limit = raised.filter(|raised| *raised < wanted.scaled(GONE_FROM));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);
    const WANTED: Rate = Rate::bytes_per_second(100_000_000);

    /// A sender at the highest rate allowed.
    #[derive(Default)]
    struct World {
        drain: DrainLimit,
        round: u64,
        count: Count,
        spared: f64,
    }

    impl World {
        /// Sends for `seconds` to a receiver that loses a share; returns the limit then, and the share lost.
        fn run(&mut self, seconds: u64, loses: impl Fn(f64) -> f64) -> (f64, f64) {
            let before = self.count;
            for _ in 0..seconds * 20 {
                let rate = self.drain.rate().unwrap_or(WANTED).min(WANTED);
                let packets = rate.as_bytes() / 20 / 1000;
                self.count.sent += packets;
                self.spared += packets as f64 * loses(rate.as_bytes() as f64);
                self.count.spared = self.spared as u64;
                self.round += 1;
                let now = Timestamp::from_nanos(self.round * 50_000_000);
                self.drain.on_round_trip(now, RTT, self.count, rate, WANTED);
            }
            let lost = (self.count.spared - before.spared) as f64;
            let limit = self.drain.rate().map_or(f64::INFINITY, |rate| rate.as_bytes() as f64);
            (limit, lost / (self.count.sent - before.sent) as f64)
        }
    }

    #[test]
    fn a_slow_receiver_gets_what_it_takes() {
        let mut world = World::default();
        let (limit, lost) = world.run(60, |rate| 1.0 - (40e6 / rate).min(1.0));
        assert!((36e6..44e6).contains(&limit), "{limit}");
        assert!(lost < 0.04, "{lost}");
        let (limit, _) = world.run(20, |_| 0.0);
        assert_eq!(limit, f64::INFINITY, "and is forgotten when the receiver is well again");
    }

    #[test]
    fn a_receiver_that_stands_still_now_and_then_keeps_its_rate() {
        let mut world = World::default();
        let cut = (0..60).filter(|_| world.run(1, |_| 0.1).0 < 0.95 * WANTED.as_bytes() as f64).count();
        assert!(cut <= 20, "cut in {cut} of 60 looks");
    }

    #[test]
    fn one_that_loses_most_is_spared_whether_that_helps_or_not() {
        assert_eq!(World::default().run(30, |_| 0.9).0, LOWEST as f64);
    }

    #[test]
    fn without_losses_there_is_no_limit() {
        assert_eq!(World::default().run(10, |_| 0.005).0, f64::INFINITY);
    }
}
