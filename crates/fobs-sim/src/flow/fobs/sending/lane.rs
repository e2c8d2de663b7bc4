//! A sender that is one lane of a session: its chunks come from the schedule that all lanes share.

use super::Sending;
use crate::flow::fobs::LaneSeat;
use crate::net::Net;
use crate::object::Cut;
use fobs_proto::ChunkId;
use fobs_proto::session::{ChunkRead, WITHDRAWN_LEN};
use std::collections::VecDeque;

/// What a sender knows of its session.
#[derive(Debug)]
pub(in crate::flow::fobs) struct SenderLane {
    seat: LaneSeat,
    /// Chunks of the object at its reader, in order.
    reading: VecDeque<ChunkId>,
}

impl SenderLane {
    pub(in crate::flow::fobs) fn new(seat: LaneSeat) -> SenderLane {
        SenderLane { seat, reading: VecDeque::new() }
    }
}

impl Sending {
    /// Withdraws what other lanes were first with, and takes chunks while there is room.
    pub(in crate::flow::fobs) fn take_tasks(&mut self, net: &mut Net, cut: &mut Cut) {
        let Some(mut lane) = self.lane.take() else { return };
        let LaneSeat { session, lane: place } = lane.seat;
        while let Some(chunk) = net.sessions[session].withdrawal(place) {
            if self.machine.withdraw(chunk, WITHDRAWN_LEN) {
                cut.withdraw(chunk, WITHDRAWN_LEN);
            }
        }
        while self.policy.has_room(&self.machine)
            && let Some((chunk, read)) = net.sessions[session].next(net.now, place, &self.machine)
        {
            self.policy.handle_granted();
            self.reading.give(read);
            lane.reading.push_back(chunk);
        }
        self.lane = Some(lane);
    }

    /// The receiver has verified the oldest chunk.
    pub(in crate::flow::fobs) fn on_lane_freed(&mut self, net: &mut Net) {
        let Some(LaneSeat { session, lane }) = self.lane.as_ref().map(|lane| lane.seat) else { return };
        if net.sessions[session].on_freed(lane) {
            // There is room for another chunk, and there may be a copy to withdraw.
            net.wake_lanes(session);
        }
    }

    /// A chunk is read and has this number on the lane.
    pub(in crate::flow::fobs) fn on_lane_read(
        &mut self,
        net: &mut Net,
        cut: &mut Cut,
        number: ChunkId,
        read: ChunkRead,
    ) {
        let Some(lane) = &mut self.lane else { return };
        cut.push(read);
        let Some(chunk) = lane.reading.pop_front() else { return };
        let LaneSeat { session, lane: place } = lane.seat;
        net.sessions[session].on_read((place, number), chunk, read.len);
    }

    pub(in crate::flow::fobs) fn observe_lane(&mut self, net: &mut Net, seat: LaneSeat) {
        net.sessions[seat.session].observe(net.now, seat.lane, &self.machine);
    }

    pub(in crate::flow::fobs) fn check_lane_end(&self, net: &mut Net) {
        self.audit.check_end(net, &self.machine.stats());
    }
}
