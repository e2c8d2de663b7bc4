//! Which packet leaves next (protocol 5.7). Knows no rate and no window.

use super::carrier::Carrier;
use super::chunk::Chunks;
use crate::order::ScheduleKind;
use crate::{ChunkId, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// Copies that the end of an object may cost: at least 8 packets, at most 1 in 100 of the object.
const TAIL_BUDGET_MIN: u64 = 8;
const TAIL_BUDGET_SHARE: u64 = 100;
/// Last packets of the object that are sent once more: one more than the packet threshold, so that the loss
/// of any of them is seen from the acks of the copies and not from a timer.
const TAIL_COPIES: usize = 4;
/// Transmissions waiting for retransmission. 2^18 datagrams can be in flight (`recovery::in_flight`); frames
/// carry at most the packets of the chunks held, 350,000 of the smallest, each given back twice at most.
const AGAIN_MAX: usize = 1 << 20;

/// A packet of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) chunk: ChunkId,
    pub(super) index: u16,
}

/// The queue that a candidate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Lost,
    /// Sent again by the probe timeout, without being declared lost.
    Repeat,
    New,
    Circle,
    Tail,
}

/// A packet to send again unless it was acknowledged or sent since.
#[derive(Debug, Clone, Copy)]
struct Again {
    slot: Slot,
    attempt: u8,
    /// The transmission that this replaces.
    carrier: Carrier,
    origin: Origin,
}

impl Again {
    fn is_live(&self, chunks: &Chunks) -> bool {
        chunks.needs_again(self.slot.chunk, self.slot.index, self.attempt, self.carrier)
    }
}

/// The end of the object, as the schedule needs to know it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tail {
    pub(super) packets_needed: u64,
    pub(super) packets_in_flight: usize,
    /// Packets were lost before.
    pub(super) lossy: bool,
    /// When the first copy may follow.
    pub(super) copy_at: Timestamp,
}

/// The schedule's state.
#[derive(Debug)]
pub(super) struct Schedule {
    kind: ScheduleKind,
    again: VecDeque<Again>,
    /// No chunk below has packets that were never sent.
    new_from: ChunkId,
    /// The chunk that the circular pass is in.
    circle: Option<ChunkId>,
    tail: VecDeque<(Slot, Timestamp)>,
    tail_begun: bool,
    /// Copies that may still be sent; set when the tail begins.
    tail_budget: Option<u64>,
}

impl Schedule {
    pub(super) fn new(kind: ScheduleKind) -> Schedule {
        Schedule {
            kind,
            again: VecDeque::new(),
            new_from: 0,
            circle: None,
            tail: VecDeque::new(),
            tail_begun: false,
            tail_budget: None,
        }
    }

    /// The last transmission of a packet, `carrier`, was lost ([`Origin::Lost`]) or may have been
    /// ([`Origin::Repeat`]).
    pub(super) fn on_again(&mut self, slot: Slot, attempt: u8, carrier: Carrier, origin: Origin) {
        if self.kind == ScheduleKind::LossDriven {
            self.hand_over(slot, attempt, carrier, origin);
        }
    }

    /// As [`on_again`](Self::on_again), where no pass of a circular schedule would repeat the packet: the way
    /// that carried it is given up.
    pub(super) fn hand_over(&mut self, slot: Slot, attempt: u8, carrier: Carrier, origin: Origin) {
        if self.again.len() < AGAIN_MAX {
            self.again.push_back(Again { slot, attempt, carrier, origin });
        }
    }

    /// The next packet for a frame: one given back, or a new one. Copies of packets in flight are for
    /// datagrams only.
    pub(super) fn peek_for_frame(&mut self, chunks: &Chunks, limit: ChunkId) -> Option<(Slot, Origin)> {
        if let Some(again) = self.peek_again(chunks) {
            return Some((again.slot, again.origin));
        }
        self.peek_new(chunks, limit).map(|slot| (slot, Origin::New))
    }

    /// The candidate of the last [`peek_for_frame`](Self::peek_for_frame) goes into a frame.
    pub(super) fn take_for_frame(&mut self, origin: Origin) {
        if origin != Origin::New {
            self.again.pop_front();
        }
    }

    /// A chunk must be sent anew.
    pub(super) fn on_start_over(&mut self, chunk: ChunkId) {
        self.new_from = self.new_from.min(chunk);
        self.tail_begun = false;
        // Its packets are others now.
        self.tail.retain(|(slot, _)| slot.chunk != chunk);
    }

    /// The next packet, if there is one to send now. Chunks from `limit` on have no credit.
    pub(super) fn peek(
        &mut self,
        chunks: &mut Chunks,
        limit: ChunkId,
        now: Timestamp,
    ) -> Option<(Slot, Origin)> {
        if let Some(again) = self.peek_again(chunks) {
            return Some((again.slot, again.origin));
        }
        if let Some(slot) = self.peek_new(chunks, limit) {
            return Some((slot, Origin::New));
        }
        match self.kind {
            ScheduleKind::Circular => self.peek_circle(chunks).map(|slot| (slot, Origin::Circle)),
            ScheduleKind::LossDriven => self.peek_tail(chunks, now).map(|slot| (slot, Origin::Tail)),
        }
    }

    /// The candidate of the last `peek` leaves; `copy_at` is when its redundant copy may follow, if the tail
    /// has one.
    pub(super) fn take(&mut self, chunks: &mut Chunks, slot: Slot, origin: Origin, copy_at: Timestamp) {
        match origin {
            Origin::Lost | Origin::Repeat => {
                self.again.pop_front();
                if self.tail_begun && self.tail_budget != Some(0) {
                    self.tail.push_back((slot, copy_at));
                }
            }
            // Its chunk has had fewer passes than the one that the circle is in.
            Origin::New => self.circle = None,
            Origin::Circle => chunks.on_circled(slot.chunk, slot.index),
            Origin::Tail => {
                self.tail.pop_front();
                self.tail_budget = self.tail_budget.map(|n| n.saturating_sub(1));
            }
        }
    }

    /// Everything of the object has been sent at least once. From here on time is idle, and copies within the
    /// budget buy round trips: of the last packets on a path without losses, of the newest half of the
    /// packets in flight on one with losses. Those copies follow their originals by half a round trip; the
    /// older half will be acknowledged by then.
    pub(super) fn begin_tail(&mut self, tail: &Tail, newest: impl FnOnce(usize) -> Vec<Slot>) {
        if self.tail_begun || self.kind != ScheduleKind::LossDriven {
            return;
        }
        self.tail_begun = true;
        let budget =
            *self.tail_budget.get_or_insert((tail.packets_needed / TAIL_BUDGET_SHARE).max(TAIL_BUDGET_MIN));
        // A quarter of the budget is kept for packets declared lost later.
        let half = if tail.lossy { tail.packets_in_flight / 2 } else { 0 };
        let copies = half.min(budget as usize * 3 / 4).max(TAIL_COPIES);
        self.tail = newest(copies).into_iter().map(|slot| (slot, tail.copy_at)).collect();
    }

    /// Whether everything of the object was sent and the tail has begun.
    pub(super) fn tail_begun(&self) -> bool {
        self.tail_begun || self.kind != ScheduleKind::LossDriven
    }

    /// When the tail's next copy is due.
    pub(super) fn tail_deadline(&self) -> Option<Timestamp> {
        self.tail.front().map(|(_, at)| *at).filter(|_| self.tail_budget != Some(0))
    }

    fn peek_again(&mut self, chunks: &Chunks) -> Option<Again> {
        while let Some(&again) = self.again.front() {
            if again.is_live(chunks) {
                return Some(again);
            }
            self.again.pop_front();
        }
        None
    }

    fn peek_new(&mut self, chunks: &Chunks, limit: ChunkId) -> Option<Slot> {
        self.new_from = self.new_from.max(chunks.base());
        while self.new_from < chunks.end().min(limit) {
            match chunks.get(self.new_from)?.layout() {
                None => return Some(Slot { chunk: self.new_from, index: 0 }),
                Some(layout) => {
                    if let Some(index) = layout.next_new() {
                        return Some(Slot { chunk: self.new_from, index });
                    }
                }
            }
            self.new_from += 1;
        }
        None
    }

    fn peek_circle(&mut self, chunks: &mut Chunks) -> Option<Slot> {
        // A pass that ends here leaves something for the next one, or another chunk has it: two turns find
        // it.
        for _ in 0..=2 * chunks.count() {
            let chunk = match self.circle {
                Some(chunk) => chunk,
                None => chunks.least_passed()?,
            };
            self.circle = Some(chunk);
            if let Some(index) = chunks.circle(chunk) {
                return Some(Slot { chunk, index });
            }
            self.circle = None;
        }
        None
    }

    fn peek_tail(&mut self, chunks: &Chunks, now: Timestamp) -> Option<Slot> {
        while let Some(&(slot, at)) = self.tail.front() {
            let live =
                chunks.get(slot.chunk).and_then(|c| c.layout()).is_some_and(|l| !l.is_acked(slot.index));
            if live {
                return (at <= now && self.tail_budget != Some(0)).then_some(slot);
            }
            self.tail.pop_front();
        }
        None
    }
}

/// How long after a packet its redundant copy leaves: far enough not to share its fate, near enough to spare
/// a round trip.
pub(super) fn copy_delay(smoothed_rtt: Duration) -> Duration {
    smoothed_rtt / 8
}
