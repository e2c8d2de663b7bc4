//! What a receiving session does for its lanes: chunks to and from the desk, figures, ends.

use super::berth::{OfVerdict, ToLaneReceiver, of_verdict};
use super::desk::Deed;
use crate::measure::Audience;
use crate::receive::Receiving;
use fobs_model::error::{Error, Result};
use fobs_model::measured::Measured;
use fobs_model::message::Message;
use fobs_model::sample::ReceiverSample;
use fobs_proto::receiver::ChunkVerification;
use fobs_proto::{ChunkId, Timestamp};
use fobs_sys::PageBuffer;

impl Receiving {
    /// A chunk of a lane is complete, by the lane's number.
    ///
    /// # Errors
    /// `Protocol` for one that no lane can have.
    pub(in crate::receive) fn take_lane_chunk(
        &mut self,
        at: (usize, ChunkId),
        buffer: PageBuffer,
        len: usize,
    ) -> Result<()> {
        if let Some(quay) = &mut self.lanes {
            quay.desk.arrives(at, buffer, len)?;
        }
        self.do_deeds()
    }

    /// A chunk of the object was checked.
    pub(in crate::receive) fn take_lane_verdict(
        &mut self,
        chunk: ChunkId,
        verdict: ChunkVerification,
    ) -> Result<()> {
        if verdict == ChunkVerification::Verified {
            self.last_verified = self.link.clock().now();
        }
        if let Some(quay) = &mut self.lanes {
            quay.desk.handle_verdict(chunk, verdict);
        }
        self.do_deeds()
    }

    /// The next chunk of the object is stored.
    pub(in crate::receive) fn take_lane_stored(&mut self, chunk: ChunkId, buffer: PageBuffer) -> Result<()> {
        if let Some(quay) = &mut self.lanes {
            quay.desk.handle_stored(chunk, buffer);
            if quay.desk.is_complete() {
                self.store.finish();
            }
        }
        self.do_deeds()
    }

    /// A buffer of a chunk comes back that did not verify.
    pub(in crate::receive) fn take_lane_buffer(&mut self, buffer: PageBuffer) -> Result<()> {
        if let Some(quay) = &mut self.lanes {
            quay.desk.handle_returned(buffer);
        }
        self.do_deeds()
    }

    fn do_deeds(&mut self) -> Result<()> {
        while let Some(deed) = self.lanes.as_mut().and_then(|quay| quay.desk.poll()) {
            match deed {
                Deed::Check { chunk, buffer, len } => {
                    self.keepalives.on_complete(chunk, len);
                    self.store.chunk(chunk, buffer, len);
                }
                Deed::Tell { lane: 0, letter } => self.hear(letter)?,
                Deed::Tell { lane, letter } => {
                    if let Some(quay) = &self.lanes {
                        quay.tell(lane, letter);
                    }
                }
            }
        }
        Ok(())
    }

    /// What the desk says to the first lane.
    fn hear(&mut self, letter: ToLaneReceiver) -> Result<()> {
        match letter {
            ToLaneReceiver::Buffer(buffer) => self.arrivals.give_back(buffer),
            ToLaneReceiver::Free { place } => {
                if let Some(quay) = &mut self.lanes {
                    quay.berth.free(&mut self.machine, place);
                }
            }
            ToLaneReceiver::Verdict { place, verdict } => {
                let (now, ends) = (self.link.clock().now(), (&mut self.policy, &mut self.machine));
                if let OfVerdict::Rejected { attempt, hopeless } = of_verdict(now, ends, place, verdict) {
                    self.hopeless = hopeless.map(|tries| (place, tries)).or(self.hopeless);
                    return self.writer.post(&Message::LaneRejected { lane: 0, chunk: place, attempt });
                }
            }
            ToLaneReceiver::End | ToLaneReceiver::Room(_) => {}
        }
        Ok(())
    }

    /// A lane beside the first has ended: the sender gives its chunks to others.
    pub(in crate::receive) fn lane_ended(&self, lane: usize, error: &Error) {
        let Some(quay) = &self.lanes else { return };
        self.reporter.notice_here(crate::lanes::has_ended(quay.name(lane), error));
    }

    /// Tells the user of lanes that lead nowhere, and of what the others do about losses.
    pub(in crate::receive) fn look_after_lanes(&mut self, now: Timestamp) {
        let Some(quay) = &mut self.lanes else { return };
        for sentence in quay.unheard(now, self.link.last_heard()) {
            self.reporter.notice_here(sentence);
        }
        for remedy in quay.take_remedies() {
            self.reporter.here(Measured::Remedy(remedy), Audience::Both);
        }
    }

    /// Adds what the lanes beside the first have counted.
    pub(in crate::receive) fn add_lanes(&mut self, sample: &mut ReceiverSample) {
        let now = self.link.clock().now();
        self.lanes.iter_mut().for_each(|quay| quay.add_to(now, sample));
    }

    /// Data packets taken for the first time, by all lanes.
    pub(in crate::receive) fn accepted(&self) -> u64 {
        let others = self.lanes.iter().flat_map(|quay| quay.seen()).map(|seen| seen.stats.accepted);
        self.machine.stats().accepted + others.sum::<u64>()
    }

    /// Packets that this host dropped at the sockets of all lanes, and datagrams that were not the peer's.
    pub(in crate::receive) fn dropped_and_rejected(&mut self) -> (u64, u64) {
        let mut sum = (u64::from(self.machine.packets_dropped().unwrap_or(0)), self.link.rejected());
        for seen in self.lanes.iter().flat_map(|quay| quay.seen()) {
            sum.0 += u64::from(seen.dropped.unwrap_or(0));
            sum.1 += seen.rejected;
        }
        sum
    }
}
