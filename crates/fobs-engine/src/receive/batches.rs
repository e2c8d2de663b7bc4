//! Batches of datagrams: packets into chunks, complete chunks on, acks back.

use super::Receiving;
use super::intake::Intake;
use fobs_model::error::Result;
use fobs_proto::wire::{ACK_LEN_MAX, ACK_LEN_SMALL, Ack, Header};
use fobs_sys::{Ecn, SendError};

/// Batches read between two looks at the mailbox.
pub(super) const BATCHES_PER_TURN: usize = 8;

impl Receiving {
    /// Reads batches, a bounded number of them; whether the socket is empty now.
    pub(super) fn take_batches(&mut self) -> Result<bool> {
        for _ in 0..BATCHES_PER_TURN {
            if self.take_batch()? == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads one batch; the number of its datagrams.
    fn take_batch(&mut self) -> Result<usize> {
        let Receiving { link, machine, arrivals, .. } = self;
        let mut intake = Intake { machine, arrivals, failure: None };
        let count = link.receive(&mut intake)?;
        if let Some(error) = intake.failure {
            return Err(error);
        }
        // One report for the batch: it arrived as one, and arrival stamps cannot tell more.
        if let Some(ack) = self.machine.poll_ack(self.link.clock().now()) {
            self.send_ack(&ack)?;
        }
        self.hand_over_complete()?;
        Ok(count)
    }

    /// Complete chunks go to the writer, or to where those of several lanes come together.
    pub(super) fn hand_over_complete(&mut self) -> Result<()> {
        while let Some((chunk, buffer, len)) = self.arrivals.pop_complete() {
            if self.is_of_lanes(chunk) {
                self.take_lane_chunk((0, chunk), buffer, len)?;
                continue;
            }
            self.handed = self.handed.max(chunk + 1);
            self.keepalives.on_complete(chunk, len);
            self.store.chunk(chunk, buffer, len);
        }
        Ok(())
    }

    /// By both ways: a repetition does no harm, and one of them may be blocked.
    pub(super) fn send_ack(&mut self, ack: &Ack) -> Result<()> {
        self.send_ack_by_streams(ack);
        let mut body = Vec::with_capacity(ACK_LEN_MAX);
        ack.encode_within(self.machine.ack_len_max(), &mut body);
        let mut sealed = self.link.seal_body(self.next_ack, Header::Ack, &body);
        self.next_ack += 1;
        match self.link.send(&mut sealed, Ecn::NotEct) {
            // A lost ack is repaired by the next one.
            Ok(()) | Err(SendError::WouldBlock | SendError::Refused) => Ok(()),
            Err(SendError::NoBuffers | SendError::TooLarge) => {
                if body.len() > ACK_LEN_SMALL {
                    self.machine.handle_ack_refused();
                }
                Ok(())
            }
            Err(SendError::Io(error)) => self.peer.refused_datagrams(&error, self.link.last_heard()),
        }
    }
}
