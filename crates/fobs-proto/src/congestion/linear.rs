//! The papers' careful controller (`seeds/004` section 2.2.1): a decision only after whole chunks, constant
//! steps, and a memory of the rates that lost too much.
//!
//! The paper leaves open, and each constant states: the first rate (`opening`), the time between decisions
//! where chunks have 4 MiB instead of 100 MB, when history forbids an attempt, and when it is tried again.

use super::history::CEILINGS_MAX;
use super::opening::Opening;
use super::rate::{bounded, safety_window};
use super::{AckSample, Ceiling, Controller, LossEpisode, Outcome, PathHistory};
use crate::{Rate, Timestamp};
use std::time::Duration;

/// `seeds/004` section 2.2.1: half of one percent.
const LOSS_THRESHOLD: f64 = 0.005;
/// `seeds/004` section 2.2.1: 5 Mbit/s where the slowest link has 100.
const STEP_SHARE: f64 = 0.05;
/// Round trips between decisions. The paper's chunk of 100 MB at 100 Mbit/s lasted more than a hundred;
/// "significantly greater than a single round trip" is what it requires (section 5), and ten let a transfer
/// of a gigabyte find its band.
const DECISION_ROUNDS: u32 = 10;
/// An attempt is not repeated where this share of at least [`TRIES_MIN`] tries failed.
const FAILED_SHARE: (u32, u32) = (1, 2);
const TRIES_MIN: u32 = 2;
/// Quiet decisions below a ceiling after which it is tried once more: "neither frequent nor severe" changes
/// of the band (section 2.2.1) are found, at the cost of one lossy interval in 32.
const RETRY_AFTER: u32 = 32;

/// The controller.
#[derive(Debug)]
pub struct Linear {
    /// Until the path's rate is known.
    opening: Option<Opening>,
    rate: Rate,
    step: Rate,
    ceilings: Vec<Ceiling>,
    /// The present rate was reached by an attempt that is not judged yet.
    attempt: Option<u64>,
    /// Decisions that a ceiling has kept the rate where it is.
    held: u32,
    /// When the rate was set: only chunks that began later count.
    since: Timestamp,
    packets: u64,
    lost: u64,
    rtt: Duration,
    min_rtt: Duration,
}

impl Linear {
    /// A controller that knows nothing of the path; it needs no packet size.
    pub fn new(_packet_len: u16) -> Linear {
        let opening = Opening::new();
        Linear {
            rate: opening.rate(),
            step: opening.rate().scaled(STEP_SHARE),
            opening: Some(opening),
            ceilings: Vec::new(),
            attempt: None,
            held: 0,
            since: Timestamp::ZERO,
            packets: 0,
            lost: 0,
            rtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
        }
    }

    fn decide(&mut self, now: Timestamp, loss: f64) {
        let too_much = loss > LOSS_THRESHOLD;
        if let Some(rate) = self.attempt.take() {
            self.judge(rate, too_much);
        }
        let next = bounded(self.rate.as_bytes() as f64 + self.step.as_bytes() as f64);
        if too_much {
            self.held = 0;
            // The lowest band is one step: where everything loses too much, the transfer still ends.
            let lower = self.rate.as_bytes().saturating_sub(self.step.as_bytes());
            self.rate = Rate::bytes_per_second(lower).max(self.step);
        } else if self.is_ceiling(next.as_bytes()) && self.held < RETRY_AFTER {
            self.held += 1;
        } else if next > self.rate {
            self.held = 0;
            self.attempt = Some(next.as_bytes());
            self.rate = next;
        }
        self.begin(now);
    }

    fn begin(&mut self, now: Timestamp) {
        self.since = now;
        (self.packets, self.lost) = (0, 0);
    }

    /// The band that a rate is in: within half a step.
    fn band(&mut self, rate: u64) -> Option<&mut Ceiling> {
        let half = self.step.as_bytes() / 2;
        self.ceilings.iter_mut().find(|c| c.rate.abs_diff(rate) <= half)
    }

    fn is_ceiling(&mut self, rate: u64) -> bool {
        let (part, whole) = FAILED_SHARE;
        self.band(rate).is_some_and(|c| {
            c.tries >= TRIES_MIN
                && u64::from(c.failures) * u64::from(whole) >= u64::from(c.tries) * u64::from(part)
        })
    }

    fn judge(&mut self, rate: u64, failed: bool) {
        if self.band(rate).is_none() {
            if self.ceilings.len() == CEILINGS_MAX {
                // The lowest is the least likely to be met again.
                self.ceilings.remove(0);
            }
            let place = self.ceilings.partition_point(|c| c.rate < rate);
            self.ceilings.insert(place, Ceiling { rate, tries: 0, failures: 0 });
        }
        if let Some(ceiling) = self.band(rate) {
            ceiling.tries = ceiling.tries.saturating_add(1);
            ceiling.failures = ceiling.failures.saturating_add(u32::from(failed));
        }
    }
}

impl Controller for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        (self.rtt, self.min_rtt) = (ack.smoothed_rtt, ack.min_rtt);
        let Some(opening) = &mut self.opening else { return };
        match opening.on_ack(ack) {
            Some(found) => {
                self.opening = None;
                self.rate = found;
                self.step = bounded(found.as_bytes() as f64 * STEP_SHARE);
                self.begin(ack.now);
            }
            None => self.rate = opening.rate(),
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        if let Some(opening) = &mut self.opening {
            opening.on_loss(loss);
            self.rate = opening.rate();
        }
    }

    fn on_chunk(&mut self, chunk: &Outcome) {
        if self.opening.is_some() || chunk.began < self.since {
            return;
        }
        self.packets += u64::from(chunk.packets);
        self.lost += u64::from(chunk.lost.min(chunk.packets));
        if self.packets > 0 && chunk.now - self.since >= self.rtt.saturating_mul(DECISION_ROUNDS) {
            self.decide(chunk.now, self.lost as f64 / self.packets as f64);
        }
    }

    fn recall(&mut self, history: &PathHistory) {
        let (Some(safe), Some(link)) = (history.safe_rate, history.link_rate) else { return };
        self.opening = None;
        self.rate = bounded(safe as f64);
        self.step = bounded(link as f64 * STEP_SHARE);
        self.ceilings = history.ceilings.iter().copied().take(CEILINGS_MAX).collect();
        self.ceilings.sort_by_key(|c| c.rate);
    }

    fn remember(&self, history: &mut PathHistory) {
        if self.opening.is_none() {
            history.safe_rate = Some(self.rate.as_bytes());
            history.link_rate = Some((self.step.as_bytes() as f64 / STEP_SHARE) as u64);
            history.ceilings.clone_from(&self.ceilings);
        }
    }

    fn congestion_window(&self) -> u64 {
        safety_window(self.rate, self.min_rtt)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn state(&self) -> &'static str {
        match (&self.opening, self.attempt) {
            (Some(_), _) => "opening",
            (None, Some(_)) => "attempt",
            (None, None) => "safe",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Acks;
    use super::*;

    const RTT: Duration = Duration::from_millis(50);
    const MBIT: u64 = 125_000;

    /// A path of 100 Mbit/s, found.
    fn found() -> (Linear, Acks) {
        let (mut linear, mut acks) = (Linear::new(1472), Acks::new(RTT));
        let link = Rate::bits_per_second(100_000_000);
        while linear.opening.is_some() {
            linear.on_ack(&acks.next(RTT / 10, linear.rate.min(link)));
        }
        (linear, acks)
    }

    /// Chunks until the next decision, each with this loss; the rate then, Mbit/s.
    fn interval(linear: &mut Linear, acks: &mut Acks, loss: f64) -> u64 {
        let before = linear.since;
        while linear.since == before {
            acks.next(RTT, Rate::ZERO);
            linear.on_chunk(&acks.outcome(RTT / 2, loss));
        }
        linear.rate.as_bytes() / MBIT
    }

    #[test]
    fn the_threshold_is_half_a_percent_and_the_step_a_twentieth() {
        let (mut linear, mut acks) = found();
        assert_eq!(linear.rate.as_bytes() / MBIT, 100);
        assert_eq!(interval(&mut linear, &mut acks, 0.0051), 95);
        assert_eq!(interval(&mut linear, &mut acks, 0.20), 90, "a constant step, however much is lost");
        assert_eq!(interval(&mut linear, &mut acks, 0.005), 95);
        assert_eq!(interval(&mut linear, &mut acks, 0.0), 100);
    }

    #[test]
    fn chunks_that_began_at_another_rate_do_not_count() {
        let (mut linear, mut acks) = found();
        interval(&mut linear, &mut acks, 0.01);
        acks.next(20 * RTT, Rate::ZERO);
        linear.on_chunk(&acks.outcome(21 * RTT, 0.5));
        assert_eq!(linear.rate.as_bytes() / MBIT, 95);
    }

    #[test]
    fn a_ceiling_is_tried_twice_and_then_left_alone_for_long() {
        let (mut linear, mut acks) = found();
        let mut attempts = 0;
        for _ in 0..30 {
            // Above 100 Mbit/s too much is lost.
            let over = linear.rate.as_bytes() > 101 * MBIT;
            attempts += u32::from(over);
            interval(&mut linear, &mut acks, if over { 0.02 } else { 0.0 });
        }
        assert_eq!(attempts, TRIES_MIN);
        assert_eq!(linear.rate.as_bytes() / MBIT, 100);
        assert_eq!(linear.state(), "safe");
        let mut decisions = 0;
        while linear.rate.as_bytes() < 101 * MBIT {
            interval(&mut linear, &mut acks, 0.0);
            decisions += 1;
        }
        assert!(decisions <= RETRY_AFTER, "tried again after {decisions}");
        // The path has become faster: the ceiling fades, and the next band is tried.
        assert_eq!(interval(&mut linear, &mut acks, 0.0), 110);
    }

    #[test]
    fn a_later_transfer_begins_where_this_one_ended() {
        let (mut linear, mut acks) = found();
        for _ in 0..12 {
            let over = linear.rate.as_bytes() > 101 * MBIT;
            interval(&mut linear, &mut acks, if over { 0.02 } else { 0.0 });
        }
        let mut history = PathHistory::default();
        linear.remember(&mut history);
        assert_eq!(history.safe_rate, Some(100 * MBIT));
        let mut next = Linear::new(1472);
        next.recall(&history);
        assert_eq!((next.state(), next.rate), ("safe", linear.rate));
        assert_eq!(interval(&mut next, &mut acks, 0.0), 100, "what failed before is not tried");
        let mut again = PathHistory::default();
        next.remember(&mut again);
        assert_eq!(again.ceilings, history.ceilings);
        // Nothing known is nothing written, and an empty history leaves the opening to find the rate.
        let mut fresh = Linear::new(1472);
        fresh.recall(&PathHistory::default());
        assert_eq!(fresh.state(), "opening");
    }
}
