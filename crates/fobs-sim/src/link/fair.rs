//! FQ-CoDel (RFC 8290): a queue for each flow, served in turns, each with a CoDel of its own. Flows never
//! share a queue here: with 1024 of them a collision is rare (section 4.1.1).

use super::discipline::{Admission, CoDel};
use crate::packet::{FlowId, Packet};
use crate::time::Nanos;
use std::collections::{BTreeMap, VecDeque};

/// Bytes that a queue may send in a turn: a full packet (RFC 8290 section 5.2.4).
const QUANTUM: i64 = 1514;

/// A queue and its turn.
#[derive(Debug, Default)]
struct Lane {
    packets: VecDeque<(Nanos, Packet)>,
    bytes: u64,
    credit: i64,
    /// Whether it stands in one of the two lists.
    listed: bool,
    codel: CoDel,
}

/// All queues of a link.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    lanes: BTreeMap<FlowId, Lane>,
    /// Flows that have just become active are served first (section 4.1.2).
    new: VecDeque<FlowId>,
    old: VecDeque<FlowId>,
}

impl FairQueue {
    pub(super) fn len(&self) -> usize {
        self.lanes.values().map(|lane| lane.packets.len()).sum()
    }

    pub(super) fn push(&mut self, now: Nanos, packet: Packet) {
        let flow = packet.flow;
        let lane = self.lanes.entry(flow).or_default();
        lane.bytes += u64::from(packet.len);
        lane.packets.push_back((now, packet));
        if !lane.listed {
            (lane.listed, lane.credit) = (true, QUANTUM);
            self.new.push_back(flow);
        }
    }

    /// Takes the head of the longest queue, which is dropped where there is no room (section 4.1.1).
    pub(super) fn take_fattest(&mut self) -> Option<Packet> {
        let lane = self.lanes.values_mut().max_by_key(|lane| lane.bytes)?;
        let (_, packet) = lane.packets.pop_front()?;
        lane.bytes -= u64::from(packet.len);
        Some(packet)
    }

    /// The next head in turn, and what its CoDel says of it: one that is dropped uses nothing of its turn.
    pub(super) fn pop(
        &mut self,
        now: Nanos,
        target: Nanos,
        interval: Nanos,
    ) -> Option<(Nanos, Packet, Admission)> {
        loop {
            let is_new = !self.new.is_empty();
            let flow = *if is_new { self.new.front() } else { self.old.front() }?;
            let lane = self.lanes.get_mut(&flow)?;
            if lane.credit > 0
                && let Some((since, packet)) = lane.packets.pop_front()
            {
                lane.bytes -= u64::from(packet.len);
                let verdict = lane.codel.take(now, now - since, lane.bytes, target, interval);
                return Some((since, packet, verdict));
            }
            if is_new {
                self.new.pop_front()
            } else {
                self.old.pop_front()
            };
            if !lane.packets.is_empty() {
                lane.credit += QUANTUM;
                self.old.push_back(flow);
            } else if is_new {
                // Or a flow of single packets would always be new (section 4.2).
                self.old.push_back(flow);
            } else {
                lane.listed = false;
            }
        }
    }

    /// A packet of this flow is sent.
    pub(super) fn charge(&mut self, flow: FlowId, len: u32) {
        if let Some(lane) = self.lanes.get_mut(&flow) {
            lane.credit -= i64::from(len);
        }
    }
}
