//! Which losses the controller answers for (protocol 5.10): the live part of `loss_cause/`.
//!
//! Losses that may be the receiver's are held until the round in which they were found is over, then judged together
//! and handed to the controller as the network's or as the receiver's. With the receiver's counters only what they
//! cover is held; without them everything is, because only the whole pattern tells. What the controller hears late
//! it hears at most one round trip late.
//!
//! The counters are the receiver's word. It is taken only while the pattern of losses does not deny it; after that
//! nothing is held until [`TRUST_AFTER`] patterns in a row did not.

use super::Sender;
use super::drain::{Count, DrainLimit};
use super::lessons::{self, Lessons};
use crate::congestion::{LossCause, LossEpisode, LossEvidence, LossResponse};
use crate::loss_cause::report::{Lesson, LossReport};
use crate::loss_cause::signature::Recorded;
use crate::loss_cause::witness::Evidence;
use crate::loss_cause::{Judge, SignatureBuilder, Verdict};
use crate::recovery::{Lost, SentKind};
use crate::wire::Ack;
use crate::{PacketNumber, Rate, Timestamp};
use std::collections::VecDeque;

/// Packets that a pattern covers at least: the models know windows of 10,000 and of 70,000 packets.
const WINDOW_PACKETS: u64 = 10_000;
/// Lost packets that it covers if so many are found in [`WINDOW_LONG`] packets.
const WINDOW_LOST: u64 = 32;
/// Packets that it may reach back.
const WINDOW_LONG: u64 = 70_000;
/// And as far where fewer than eight were lost, which says nothing (`loss_cause::mixture::LOST_MIN`).
const WINDOW_LONGEST: u64 = 1 << 20;
/// Lost packets that are held at most, 1 MB; what is beyond is the network's.
const HELD_MAX: usize = 1 << 15;
/// Reports that wait to be taken; the oldest goes first.
const REPORTS_MAX: usize = 64;
/// Lags of a round that are kept for their median.
const LAGS_MAX: usize = 64;
/// Patterns with at least eight losses that must not deny the receiver's word before it is taken again.
const TRUST_AFTER: u32 = 8;
/// Weight of the newest burst in the mean, which the features are corrected for.
const BURST_SHARE: f64 = 1.0 / 16.0;

/// The account of losses.
#[derive(Debug)]
pub(super) struct Attribution {
    judge: Judge,
    trail: SignatureBuilder,
    ledger: Ledger,
    lags: Vec<u16>,
    round: Option<Round>,
    /// Patterns that must pass before the receiver is believed.
    distrust: u32,
    drain: DrainLimit,
    burst: f64,
    reports: VecDeque<LossReport>,
    lessons: Lessons,
}

/// What the receiver has counted and what of it is not used up.
#[derive(Debug, Default)]
struct Ledger {
    /// Its newest count; `None` if it does not count.
    count: Option<u32>,
    credit: u64,
    /// The part of the credit that came in this round trip. Older credit ends with the next.
    fresh: u64,
}

/// Losses found within a round trip.
#[derive(Debug)]
struct Round {
    /// Its first loss.
    first: PacketNumber,
    /// It is over when this packet or a later one is acknowledged.
    end: PacketNumber,
    held: Vec<Lost>,
    /// Packets lost, all of them; and what the ledger covered.
    lost: u32,
    covered: u32,
    /// Data packets that the controller has been told of.
    told: u32,
    /// Marks came with it: the network is full, whatever else happened.
    marked: bool,
}

/// What came of a round.
struct Settled {
    spared: bool,
    held: Vec<Lost>,
}

impl Attribution {
    pub(super) fn new(judge: Judge) -> Attribution {
        Attribution {
            judge,
            trail: SignatureBuilder::new(0),
            ledger: Ledger::default(),
            lags: Vec::new(),
            round: None,
            distrust: 0,
            drain: DrainLimit::default(),
            burst: 1.0,
            reports: VecDeque::new(),
            lessons: Lessons::default(),
        }
    }

    /// The limit that the receiver's losses ask for.
    pub(super) fn drain_rate(&self) -> Option<Rate> {
        self.drain.rate()
    }

    pub(super) fn on_burst(&mut self, packets: usize) {
        self.burst += BURST_SHARE * (packets as f64 - self.burst);
    }

    /// The receiver's testimony; before the losses of the same ack are looked for.
    pub(super) fn on_report(&mut self, ack: &Ack) {
        if !self.judge.hears_receiver() {
            return;
        }
        if let Some(dropped) = ack.host.dropped {
            self.ledger.on_count(dropped);
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
    pub(super) fn on_found(&mut self, number: PacketNumber) {
        self.trail.found(number);
        if let Some(round) = &mut self.round
            && let Ok(index) = round.held.binary_search_by_key(&number, |lost| lost.number)
        {
            round.held.remove(index);
            round.lost = round.lost.saturating_sub(1);
        }
    }

    /// These packets were declared lost; `data` of them are missed. Which of those are held; the rest must be told now.
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
        let blind = self.ledger.count.is_none();
        let covered = if blind { lost.len() } else { self.ledger.take(lost.len()) };
        let round = self.round.get_or_insert_with(|| Round {
            first: first.number,
            end: next_number,
            held: Vec::new(),
            lost: 0,
            covered: 0,
            told: 0,
            marked: false,
        });
        round.first = round.first.min(first.number);
        round.lost = round.lost.saturating_add(lost.len() as u32);
        round.covered = round.covered.saturating_add(covered as u32);
        let may_hold = if self.distrust > 0 { 0 } else { HELD_MAX - round.held.len() };
        let held = covered.min(data.len()).min(may_hold);
        round.held.extend_from_slice(&data[..held]);
        round.told = round.told.saturating_add((data.len() - held) as u32);
        held
    }

    /// Judges the round if it is over: packets up to `acked` are resolved.
    fn settle(&mut self, now: Timestamp, acked: PacketNumber) -> Option<Settled> {
        if self.round.as_ref().is_none_or(|round| acked < round.end) {
            return None;
        }
        let round = self.round.take()?;
        let end = acked + 1;
        let signature = self.window(round.first, end);
        let pattern = self.judge.pattern(&signature);
        let first = end - u64::from(signature.packets());
        let host_drops = self.ledger.count.map(|_| round.covered);
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
            network_lost: round.told + if spared { 0 } else { held },
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

    /// What the receiver's counters say of a round, for whoever trains models.
    fn learn(&mut self, round: &Round, end: PacketNumber) {
        let settled =
            lessons::Settled { end, lost: round.lost, covered: round.covered, marked: round.marked };
        let (trail, burst) = (&self.trail, self.burst.round() as u32);
        self.lessons.on_round(settled, |from, end| trail.window(from, end, burst));
    }

    fn forget_before(&mut self, number: PacketNumber) {
        if number > self.trail.first() {
            self.trail.finish(number, 1);
        }
    }

    /// Everything on its way was given up, up to `next_number`: no pattern has it. What was held.
    fn abandon(&mut self, next_number: PacketNumber) -> Vec<Lost> {
        self.trail = SignatureBuilder::new(next_number);
        self.lessons.begin(next_number);
        self.lags.clear();
        self.round.take().map_or(Vec::new(), |round| round.held)
    }
}

impl Ledger {
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

/// In the sender: between loss detection and the controller.
impl Sender {
    /// What was judged of the newest losses, oldest first; at most 64 wait.
    pub fn poll_loss_report(&mut self) -> Option<LossReport> {
        self.attribution.reports.pop_front()
    }

    /// A window whose cause the receiver's counters told, oldest first; at most 64 wait.
    pub fn poll_lesson(&mut self) -> Option<Lesson> {
        self.attribution.lessons.take()
    }

    /// The rate to which losses at the receiver hold the sender; `None` if they do not.
    pub fn drain_rate(&self) -> Option<Rate> {
        self.attribution.drain_rate()
    }

    /// Tells the controller of lost data packets, or holds those that may be the receiver's. `lost` has all packets that were
    /// declared lost, `data` those whose data is missed.
    pub(super) fn attribute(&mut self, now: Timestamp, lost: &[Lost], data: &[Lost], evidence: LossEvidence) {
        let mut held = 0;
        if !self.attribution.judge.is_off() {
            match evidence {
                LossEvidence::Acks => {
                    held = self.attribution.hold(lost, data, self.in_flight.next_number());
                }
                LossEvidence::Silence => {
                    let released = self.attribution.abandon(self.in_flight.next_number());
                    self.tell_losses(now, &released, evidence, LossCause::Inconclusive);
                }
            }
        }
        self.tell_losses(now, &data[held..], evidence, LossCause::Inconclusive);
    }

    /// Judges what was held, if the round is over.
    pub(super) fn settle_losses(&mut self, now: Timestamp) {
        let Some(acked) = self.in_flight.largest_acked() else { return };
        let Some(settled) = self.attribution.settle(now, acked) else { return };
        if !settled.spared {
            return self.tell_losses(now, &settled.held, LossEvidence::Acks, LossCause::Inconclusive);
        }
        self.tell_losses(now, &settled.held, LossEvidence::Acks, LossCause::Receiver);
        for lost in &settled.held {
            if let SentKind::Data { chunk, index, attempt } = lost.sent.kind {
                // The outcome of a chunk is the path's: it is not told of what the path did not do.
                self.chunks.on_late(chunk, index, attempt);
            }
        }
        self.stats.packets_spared += settled.held.len() as u64;
    }

    /// A round trip has passed.
    pub(super) fn attribute_round(&mut self, now: Timestamp) {
        self.attribution.ledger.on_round_trip();
        if self.controller.loss_response() != LossResponse::Slows {
            return;
        }
        let (Some(rate), Some(wanted)) =
            (self.pacing_rate().or(self.delivered), self.controller.pacing_rate().or(self.delivered))
        else {
            return;
        };
        let count = Count { sent: self.stats.packets_sent, spared: self.stats.packets_spared };
        self.attribution.drain.on_round_trip(now, self.rtt.smoothed(), count, rate, wanted);
    }

    fn tell_losses(&mut self, now: Timestamp, lost: &[Lost], evidence: LossEvidence, cause: LossCause) {
        let (Some(first), Some(last)) =
            (lost.iter().map(|l| l.sent.at).min(), lost.iter().map(|l| l.sent.at).max())
        else {
            return;
        };
        self.controller.on_loss(&LossEpisode {
            now,
            packets: lost.len() as u64,
            bytes: lost.iter().map(|l| u64::from(l.sent.len)).sum(),
            bytes_in_flight: self.in_flight.bytes(),
            sent: (first, last),
            evidence,
            cause,
        });
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
        let mut ledger = Ledger::default();
        ledger.on_count(10);
        assert_eq!((ledger.take(4), ledger.take(100), ledger.take(1)), (4, 6, 0));
        ledger.on_count(30);
        ledger.on_round_trip();
        assert_eq!(ledger.take(5), 5, "what came in the last round trip still counts");
        ledger.on_count(32);
        ledger.on_round_trip();
        assert_eq!(ledger.take(100), 2, "what is older does not");
    }

    #[test]
    fn overtaken_counts_are_ignored_and_the_count_wraps() {
        let mut ledger = Ledger::default();
        ledger.on_count(100);
        ledger.on_count(90);
        assert_eq!(ledger.take(1000), 100);
        let mut ledger = Ledger { count: Some(u32::MAX - 1), ..Ledger::default() };
        ledger.on_count(3);
        assert_eq!(ledger.take(1000), 5);
    }

    #[test]
    fn the_median_lag_is_a_share() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [900, 100, 250]), Some(0.25));
    }
}
