//! The receiving end of the TCP model: what has arrived, and its acknowledgements.

use crate::packet::TcpAck;
use crate::time::{MS, Nanos};
use fobs_proto::object::RangeSet;
use std::collections::VecDeque;

/// Longest delay of an acknowledgement (Linux).
const DELAY: Nanos = 40 * MS;
/// Transmissions that each acknowledgement covers at least: several acknowledgements must be lost in a row to
/// be missed.
const SPAN: u64 = 64;
/// Ranges remembered; more gaps than that are forgotten from the bottom, as SACK blocks are.
const RANGES_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct TcpReceiver {
    /// Every place below has arrived; those above, by distance.
    next_place: u64,
    above: VecDeque<bool>,
    unique: u64,
    transmissions: RangeSet,
    unreported: u32,
    deadline: Option<Nanos>,
}

impl Default for TcpReceiver {
    fn default() -> Self {
        TcpReceiver {
            next_place: 0,
            above: VecDeque::new(),
            unique: 0,
            transmissions: RangeSet::new(RANGES_MAX),
            unreported: 0,
            deadline: None,
        }
    }
}

impl TcpReceiver {
    /// A segment arrives; whether to acknowledge at once. The sender keeps places within the receive window.
    pub(super) fn on_segment(&mut self, now: Nanos, place: u64, transmission: u64) -> bool {
        let in_order = self.transmissions.largest().map_or(0, |n| n + 1) == transmission;
        self.transmissions.insert(transmission);
        let whole = self.above.is_empty();
        if let Some(distance) = place.checked_sub(self.next_place) {
            let distance = distance as usize;
            if self.above.len() <= distance {
                self.above.resize(distance + 1, false);
            }
            self.unique += u64::from(!std::mem::replace(&mut self.above[distance], true));
            while self.above.front() == Some(&true) {
                self.above.pop_front();
                self.next_place += 1;
            }
        }
        self.unreported += 1;
        self.deadline.get_or_insert(now + DELAY);
        self.unreported >= 2 || !in_order || !whole
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    /// Segments that arrived, each place once.
    pub(super) fn unique(&self) -> u64 {
        self.unique
    }

    pub(super) fn ack(&mut self) -> TcpAck {
        self.unreported = 0;
        self.deadline = None;
        let ack = TcpAck { next_place: self.next_place, ranges: self.transmissions.descending().collect() };
        if let Some(largest) = self.transmissions.largest() {
            self.transmissions.remove_below(largest.saturating_sub(SPAN));
        }
        ack
    }
}
