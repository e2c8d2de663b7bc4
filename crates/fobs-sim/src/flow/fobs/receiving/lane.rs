//! A receiver that is one lane of a session: what it verifies counts there.

use super::Receiving;
use crate::flow::fobs::LaneSeat;
use crate::net::Net;
use fobs_proto::ChunkId;
use std::collections::HashMap;

/// What a receiver knows of its session.
#[derive(Debug)]
pub(in crate::flow::fobs) struct ReceiverLane {
    seat: LaneSeat,
    /// Lengths of the chunks that are complete and not verified.
    complete: HashMap<ChunkId, u32>,
    /// Bytes that it was the first to deliver.
    useful: u64,
}

impl ReceiverLane {
    pub(in crate::flow::fobs) fn new(seat: LaneSeat) -> ReceiverLane {
        ReceiverLane { seat, complete: HashMap::new(), useful: 0 }
    }

    pub(in crate::flow::fobs) fn useful(&self) -> u64 {
        self.useful
    }
}

impl Receiving {
    /// A chunk of this length is complete.
    pub(in crate::flow::fobs) fn on_lane_complete(&mut self, chunk: ChunkId, len: u32) {
        if let Some(lane) = &mut self.lane {
            lane.complete.insert(chunk, len);
        }
    }

    /// A chunk is verified.
    pub(in crate::flow::fobs) fn on_lane_verified(&mut self, net: &mut Net, chunk: ChunkId) {
        let Some(lane) = &mut self.lane else { return };
        let LaneSeat { session, lane: place } = lane.seat;
        let len = lane.complete.remove(&chunk).unwrap_or(0);
        match net.sessions[session].on_verified(net.now, (place, chunk), len) {
            Ok(useful) => lane.useful += useful,
            Err((rule, what)) => net.breach(rule, what),
        }
        if net.sessions[session].is_complete() {
            net.wake_lanes(session);
        }
    }
}
