//! Which losses the controller responds to (protocol 5.10): the live part of `loss_cause/`.
//!
//! Losses that may be the receiver's are held until the round in which they were found is over, then judged
//! together and passed to the controller as the network's or as the receiver's, at most one round trip late.
//! With the receiver's counters, only as many losses are held as the counters cover; without them all are,
//! because only the whole pattern shows a cause.
//!
//! The counters are the receiver's claim. They are used only while the pattern of losses does not contradict
//! them; after a contradiction nothing is held until [`TRUST_AFTER`] patterns in a row were without one.

use super::drain::{Count, DrainLimit};
use super::lesson_cutter::{self, LessonCutter};
use crate::congestion::LossEvidence;
use crate::loss_cause::report::{Lesson, LossReport};
use crate::loss_cause::signature::Recorded;
use crate::loss_cause::witness::Evidence;
use crate::loss_cause::{Judge, SignatureBuilder, Verdict};
use crate::recovery::Lost;
use crate::wire::Ack;
use crate::{PacketNumber, Rate, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// Packets that a pattern covers at least: the models are trained on windows of 10,000 and of 70,000 packets.
const WINDOW_PACKETS: u64 = 10_000;
/// Lost packets that it covers, if [`WINDOW_LONG`] packets hold as many.
const WINDOW_LOST: u64 = 32;
/// Packets that it may reach back.
const WINDOW_LONG: u64 = 70_000;
/// Packets that it may reach back to find eight lost ones; fewer show nothing
/// (`loss_cause::mixture::LOST_MIN`).
const WINDOW_LONGEST: u64 = 1 << 20;
/// Lost packets that are held at most, 1 MB; those beyond count as the network's.
const HELD_MAX: usize = 1 << 15;
/// Reports that wait to be taken; beyond that the oldest is dropped.
const REPORTS_MAX: usize = 64;
/// Lags of a round that are kept for their median.
const LAGS_MAX: usize = 64;
/// Patterns with at least eight losses that must agree with the receiver's counters before those are used
/// again.
const TRUST_AFTER: u32 = 8;
/// Weight of the newest burst in the mean burst length, which the features are corrected for.
const BURST_SHARE: f64 = 1.0 / 16.0;

/// The account of losses.
#[derive(Debug)]
pub(super) struct Attribution {
    judge: Judge,
    trail: SignatureBuilder,
    drops: DropCredit,
    lags: Vec<u16>,
    round: Option<Round>,
    /// Patterns that must agree before the receiver's counters are used again.
    distrust: u32,
    drain: DrainLimit,
    burst: f64,
    reports: VecDeque<LossReport>,
    lessons: LessonCutter,
}

/// Drops that the receiver has counted and that no loss has used up.
#[derive(Debug, Default)]
struct DropCredit {
    /// The receiver's newest count; `None` if it does not count.
    count: Option<u32>,
    credit: u64,
    /// The part of the credit that came in this round trip. Older credit expires with the next.
    fresh: u64,
}

/// Losses found within a round trip.
#[derive(Debug)]
struct Round {
    /// Its first loss.
    first: PacketNumber,
    /// The round ends when this packet or a later one is acknowledged.
    end: PacketNumber,
    held: Vec<Lost>,
    /// Packets lost, and those of them that the receiver's counters cover.
    lost: u32,
    covered: u32,
    /// Data packets that were passed to the controller at once.
    passed: u32,
    /// Marks came with it: the network is congested, whatever else happened.
    marked: bool,
}

/// Whether the controller knows of a loss that was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// It was held, and is dropped.
    Held,
    /// It was passed on.
    Reported,
}

/// What follows from losses just declared.
pub(super) struct Held {
    /// Losses held before that must be passed to the controller now.
    pub(super) released: Vec<Lost>,
    /// How many of the missed packets, from the first, are held; the others must be passed on now.
    pub(super) count: usize,
}

/// The result of a round.
pub(super) struct Settled {
    /// The losses held were the receiver's.
    pub(super) spared: bool,
    pub(super) held: Vec<Lost>,
}

impl Attribution {
    pub(super) fn new(judge: Judge) -> Attribution {
        Attribution {
            judge,
            trail: SignatureBuilder::new(0),
            drops: DropCredit::default(),
            lags: Vec::new(),
            round: None,
            distrust: 0,
            drain: DrainLimit::default(),
            burst: 1.0,
            reports: VecDeque::new(),
            lessons: LessonCutter::default(),
        }
    }

    /// The rate limit that the receiver's losses call for.
    pub(super) fn drain_rate(&self) -> Option<Rate> {
        self.drain.rate()
    }

    pub(super) fn on_burst(&mut self, packets: usize) {
        self.burst += BURST_SHARE * (packets as f64 - self.burst);
    }

    /// Takes the receiver's counters; before the losses of the same ack are looked for.
    pub(super) fn on_report(&mut self, ack: &Ack) {
        if !self.judge.hears_receiver() {
            return;
        }
        if let Some(dropped) = ack.host.dropped {
            self.drops.on_count(dropped);
        }
        if let Some(lag) = ack.host.lag.filter(|_| self.lags.len() < LAGS_MAX) {
            self.lags.push(lag);
        }
    }

    /// The path marked packets.
    pub(super) fn on_mark(&mut self) {
        if let Some(round) = &mut self.round {
            round.marked = true;
        }
    }

    /// A packet declared lost has arrived.
    pub(super) fn on_found(&mut self, number: PacketNumber) -> Found {
        self.trail.found(number);
        if let Some(round) = &mut self.round
            && let Ok(index) = round.held.binary_search_by_key(&number, |lost| lost.number)
        {
            round.held.remove(index);
            round.lost = round.lost.saturating_sub(1);
            return Found::Held;
        }
        Found::Reported
    }

    /// Takes packets declared lost, in the order of their numbers, and the missed ones among them, whose data
    /// no report has acknowledged; `next_number` is sent next.
    pub(super) fn on_losses(
        &mut self,
        lost: &[Lost],
        missed: &[Lost],
        evidence: LossEvidence,
        next_number: PacketNumber,
    ) -> Held {
        match evidence {
            _ if self.judge.is_off() => Held { released: Vec::new(), count: 0 },
            LossEvidence::Acks => Held { released: Vec::new(), count: self.hold(lost, missed, next_number) },
            LossEvidence::Silence => Held { released: self.abandon(next_number), count: 0 },
        }
    }

    /// A round trip has passed.
    pub(super) fn on_round_trip(&mut self) {
        self.drops.on_round_trip();
    }

    /// Adapts the drain rate after a round trip; `rate` is the sending rate, `wanted` the controller's.
    pub(super) fn adapt_drain(
        &mut self,
        now: Timestamp,
        rtt: Duration,
        count: Count,
        (rate, wanted): (Rate, Rate),
    ) {
        self.drain.on_round_trip(now, rtt, count, rate, wanted);
    }

    /// The oldest report on losses; at most 64 wait.
    pub(super) fn take_report(&mut self) -> Option<LossReport> {
        self.reports.pop_front()
    }

    /// The oldest window of known cause; at most 64 wait.
    pub(super) fn take_lesson(&mut self) -> Option<Lesson> {
        self.lessons.take()
    }

    /// How many of the missed packets `data`, a part of those lost, are held.
    fn hold(&mut self, lost: &[Lost], data: &[Lost], next_number: PacketNumber) -> usize {
        let Some(first) = lost.first() else { return 0 };
        for packet in lost {
            let range = packet.number..packet.number + 1;
            if self.trail.lost(range.clone()) == Recorded::Full {
                self.forget_before(packet.number.saturating_sub(WINDOW_PACKETS));
                // Still full only if every other packet is lost: the network's doing, which needs no pattern.
                let _ = self.trail.lost(range);
            }
        }
        let blind = self.drops.count.is_none();
        let covered = if blind { lost.len() } else { self.drops.take(lost.len()) };
        let round = self.round.get_or_insert_with(|| Round {
            first: first.number,
            end: next_number,
            held: Vec::new(),
            lost: 0,
            covered: 0,
            passed: 0,
            marked: false,
        });
        round.first = round.first.min(first.number);
        round.lost = round.lost.saturating_add(lost.len() as u32);
        round.covered = round.covered.saturating_add(covered as u32);
        let may_hold = if self.distrust > 0 { 0 } else { HELD_MAX - round.held.len() };
        let held = covered.min(data.len()).min(may_hold);
        round.held.extend_from_slice(&data[..held]);
        round.passed = round.passed.saturating_add((data.len() - held) as u32);
        held
    }

    /// Judges the round if it is over: packets up to `acked` are resolved.
    pub(super) fn settle(&mut self, now: Timestamp, acked: PacketNumber) -> Option<Settled> {
        if self.round.as_ref().is_none_or(|round| acked < round.end) {
            return None;
        }
        let round = self.round.take()?;
        let end = acked + 1;
        let signature = self.window(round.first, end);
        let pattern = self.judge.pattern(&signature);
        let first = end - u64::from(signature.packets());
        let host_drops = self.drops.count.map(|_| round.covered);
        let evidence = Evidence { lost: round.lost, pattern, host_drops, lag: median(&mut self.lags) };
        self.lags.clear();
        if evidence.contradicts() {
            self.distrust = TRUST_AFTER;
        } else if pattern.is_some() {
            self.distrust = self.distrust.saturating_sub(1);
        }
        if host_drops.is_some() {
            self.learn(&round, end);
        }
        let judgement = evidence.judge();
        let spared = judgement.receiver_lost > 0 && !round.marked && !round.held.is_empty();
        let held = round.held.len() as u32;
        if self.reports.len() == REPORTS_MAX {
            self.reports.pop_front();
        }
        let verdict = match judgement.verdict {
            Verdict::Receiver if !spared => Verdict::Inconclusive,
            verdict => verdict,
        };
        self.reports.push_back(LossReport {
            at: now,
            first,
            network_lost: round.passed + if spared { 0 } else { held },
            receiver_lost: if spared { held } else { 0 },
            verdict,
            evidence,
            signature,
        });
        Some(Settled { spared, held: round.held })
    }

    /// The losses from `first` to before `end`, and as many packets before them as the pattern needs.
    fn window(&mut self, first: PacketNumber, end: PacketNumber) -> crate::loss_cause::Signature {
        self.forget_before(end.saturating_sub(WINDOW_LONGEST));
        let at_least = first.min(end.saturating_sub(WINDOW_PACKETS));
        let from = self.trail.start_of(WINDOW_LOST, end.saturating_sub(WINDOW_LONG)).min(at_least);
        let enough = u64::from(crate::loss_cause::mixture::LOST_MIN);
        let from = self.trail.start_of(enough, self.trail.first()).min(from);
        self.trail.window(from, end, self.burst.round() as u32)
    }

    /// Keeps the receiver's counts of a round, to train models with.
    fn learn(&mut self, round: &Round, end: PacketNumber) {
        let settled =
            lesson_cutter::Settled { end, lost: round.lost, covered: round.covered, marked: round.marked };
        let (trail, burst) = (&self.trail, self.burst.round() as u32);
        self.lessons.on_round(settled, |from, end| trail.window(from, end, burst));
    }

    fn forget_before(&mut self, number: PacketNumber) {
        if number > self.trail.first() {
            self.trail.finish(number, 1);
        }
    }

    /// Everything in flight below `next_number` was given up, and is in no pattern. The losses held.
    fn abandon(&mut self, next_number: PacketNumber) -> Vec<Lost> {
        self.trail = SignatureBuilder::new(next_number);
        self.lessons.begin(next_number);
        self.lags.clear();
        self.round.take().map_or(Vec::new(), |round| round.held)
    }
}

impl DropCredit {
    fn on_count(&mut self, count: u32) {
        let new = count.wrapping_sub(self.count.unwrap_or(0));
        // Half of the numbers are behind: an ack that was overtaken.
        if new <= u32::MAX / 2 {
            self.count = Some(count);
            self.credit += u64::from(new);
            self.fresh += u64::from(new);
        }
    }

    fn on_round_trip(&mut self) {
        self.credit = self.credit.min(self.fresh);
        self.fresh = 0;
    }

    fn take(&mut self, lost: usize) -> usize {
        let taken = self.credit.min(lost as u64);
        self.credit -= taken;
        taken as usize
    }
}

/// The median of thousandths, as a share; `None` of none.
fn median(lags: &mut [u16]) -> Option<f64> {
    lags.sort_unstable();
    lags.get(lags.len() / 2).map(|lag| f64::from(*lag) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_used_once_and_ends_after_two_round_trips() {
        let mut drops = DropCredit::default();
        drops.on_count(10);
        assert_eq!((drops.take(4), drops.take(100), drops.take(1)), (4, 6, 0));
        drops.on_count(30);
        drops.on_round_trip();
        assert_eq!(drops.take(5), 5, "what came in the last round trip still counts");
        drops.on_count(32);
        drops.on_round_trip();
        assert_eq!(drops.take(100), 2, "what is older does not");
    }

    #[test]
    fn overtaken_counts_are_ignored_and_the_count_wraps() {
        let mut drops = DropCredit::default();
        drops.on_count(100);
        drops.on_count(90);
        assert_eq!(drops.take(1000), 100);
        let mut drops = DropCredit { count: Some(u32::MAX - 1), ..DropCredit::default() };
        drops.on_count(3);
        assert_eq!(drops.take(1000), 5);
    }

    #[test]
    fn the_median_lag_is_a_share() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [900, 100, 250]), Some(0.25));
    }
}
