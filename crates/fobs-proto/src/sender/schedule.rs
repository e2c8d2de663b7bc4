//! Which packet leaves next (protocol 5.7). Knows no rate and no window.

use super::chunk::Chunks;
use crate::{ChunkId, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// In what order packets leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleKind {
    /// The papers' (`seeds/000` section 3.1.1): first what was never sent, then whole passes over everything unacknowledged, so
    /// that nothing is sent an n+1st time while anything unacknowledged was sent fewer than n times.
    Circular,
    /// What was declared lost, then what was never sent, then a bounded redundant tail.
    LossDriven,
}

/// Copies that the end of an object may cost: at least 8 packets, at most 1 in 200 of the object.
const TAIL_BUDGET_MIN: u64 = 8;
const TAIL_BUDGET_SHARE: u64 = 200;
/// Last packets of the object that are sent once more: one more than the packet threshold, so that the loss of any of them is
/// seen from the acks of the copies and not from a timer.
const TAIL_COPIES: u16 = 4;
/// Transmissions waiting for retransmission; more cannot be on their way (see `recovery::in_flight`).
const LOST_MAX: usize = 1 << 18;

/// A packet of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) chunk: ChunkId,
    pub(super) index: u16,
}

/// Where a candidate came from, to be taken from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Lost,
    New,
    Circle,
    Tail,
}

/// The schedule's state.
#[derive(Debug)]
pub(super) struct Schedule {
    kind: ScheduleKind,
    lost: VecDeque<(Slot, u8)>,
    /// No chunk below has packets that were never sent.
    new_from: ChunkId,
    circle: Slot,
    tail: VecDeque<(Slot, Timestamp)>,
    tail_begun: bool,
    /// Copies that may still be sent; set when the tail begins.
    tail_budget: Option<u64>,
}

impl Schedule {
    pub(super) fn new(kind: ScheduleKind) -> Schedule {
        Schedule {
            kind,
            lost: VecDeque::new(),
            new_from: 0,
            circle: Slot { chunk: 0, index: 0 },
            tail: VecDeque::new(),
            tail_begun: false,
            tail_budget: None,
        }
    }

    /// A packet has no transmission left on its way.
    pub(super) fn on_lost(&mut self, slot: Slot, attempt: u8) {
        if self.kind == ScheduleKind::LossDriven && self.lost.len() < LOST_MAX {
            self.lost.push_back((slot, attempt));
        }
    }

    /// A chunk must be sent anew.
    pub(super) fn on_start_over(&mut self, chunk: ChunkId) {
        self.new_from = self.new_from.min(chunk);
        self.tail_begun = false;
    }

    /// The next packet, if there is one to send now. Chunks from `limit` on have no credit.
    pub(super) fn peek(&mut self, chunks: &mut Chunks, limit: ChunkId, now: Timestamp) -> Option<(Slot, Origin)> {
        if let Some(slot) = self.peek_lost(chunks) {
            return Some((slot, Origin::Lost));
        }
        if let Some(slot) = self.peek_new(chunks, limit) {
            return Some((slot, Origin::New));
        }
        match self.kind {
            ScheduleKind::Circular => self.peek_circle(chunks).map(|slot| (slot, Origin::Circle)),
            ScheduleKind::LossDriven => self.peek_tail(chunks, now).map(|slot| (slot, Origin::Tail)),
        }
    }

    /// The candidate of the last `peek` leaves; `copy_at` is when its redundant copy may follow, if the tail wants one.
    pub(super) fn take(&mut self, slot: Slot, origin: Origin, copy_at: Timestamp) {
        match origin {
            Origin::Lost => {
                self.lost.pop_front();
                if self.tail_begun && self.tail_budget != Some(0) {
                    self.tail.push_back((slot, copy_at));
                }
            }
            Origin::New => {}
            Origin::Circle => self.circle = Slot { index: slot.index.saturating_add(1), ..slot },
            Origin::Tail => {
                self.tail.pop_front();
                self.tail_budget = self.tail_budget.map(|n| n.saturating_sub(1));
            }
        }
    }

    /// Everything of the object has been sent at least once: from here on the tail is redundant, within its budget.
    pub(super) fn begin_tail(&mut self, chunks: &Chunks, packets_needed: u64, copy_at: Timestamp) {
        if self.tail_begun || self.kind != ScheduleKind::LossDriven {
            return;
        }
        self.tail_begun = true;
        let Some(last) = chunks.end().checked_sub(1) else { return };
        let Some(layout) = chunks.get(last).and_then(|c| c.layout()) else { return };
        let packets = layout.geometry.packets() as u16;
        for index in packets.saturating_sub(TAIL_COPIES)..packets {
            self.tail.push_back((Slot { chunk: last, index }, copy_at));
        }
        self.tail_budget.get_or_insert((packets_needed / TAIL_BUDGET_SHARE).max(TAIL_BUDGET_MIN));
    }

    /// When the tail's next copy is due.
    pub(super) fn tail_deadline(&self) -> Option<Timestamp> {
        self.tail.front().map(|(_, at)| *at).filter(|_| self.tail_budget != Some(0))
    }

    fn peek_lost(&mut self, chunks: &Chunks) -> Option<Slot> {
        while let Some(&(slot, attempt)) = self.lost.front() {
            let live = chunks.get(slot.chunk).is_some_and(|c| {
                c.attempt() == attempt && c.layout().is_some_and(|l| !l.is_acked(slot.index))
            });
            if live {
                return Some(slot);
            }
            self.lost.pop_front();
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

    fn peek_circle(&mut self, chunks: &Chunks) -> Option<Slot> {
        let start = if self.circle.chunk < chunks.base() { Slot { chunk: chunks.base(), index: 0 } } else { self.circle };
        let span = chunks.end().saturating_sub(chunks.base());
        let from = start.chunk - chunks.base();
        // One whole turn, and the start's chunk once more from its beginning.
        for step in 0..=span {
            let chunk = chunks.base() + (from + step) % span.max(1);
            let index = if step == 0 { u32::from(start.index) } else { 0 };
            if let Some(index) = chunks.get(chunk).and_then(|c| c.layout()).and_then(|l| l.next_unacked_sent(index)) {
                return Some(Slot { chunk, index });
            }
        }
        None
    }

    fn peek_tail(&mut self, chunks: &Chunks, now: Timestamp) -> Option<Slot> {
        while let Some(&(slot, at)) = self.tail.front() {
            let live = chunks.get(slot.chunk).and_then(|c| c.layout()).is_some_and(|l| !l.is_acked(slot.index));
            if live {
                return (at <= now && self.tail_budget != Some(0)).then_some(slot);
            }
            self.tail.pop_front();
        }
        None
    }
}

/// How long after a packet its redundant copy leaves: far enough not to share its fate, near enough to spare a round trip.
pub(super) fn copy_delay(smoothed_rtt: Duration) -> Duration {
    smoothed_rtt / 8
}
