//! The burst that leaves: sealed once, sent in as many parts as the socket takes it.

use super::held::HeldChunks;
use crate::failure::{PeerName, chunk_not_held};
use crate::link::{Link, Sealed};
use fobs_model::error::Result;
use fobs_proto::Timestamp;
use fobs_proto::sender::{PacketOut, Refusal, Sender, Transmit};
use fobs_sys::{Ecn, SendError};
use std::time::Duration;

/// How long to wait after the local queue refused packets.
const REFUSED_WAIT: Duration = Duration::from_micros(500);

/// What became of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// It is out, or refused for good.
    Out,
    /// The socket has no room for the rest of it.
    Full,
}

/// The newest burst, and what of it has not left.
pub(super) struct Outbox {
    packets: Vec<PacketOut>,
    pending: Option<Sealed>,
    refused_until: Timestamp,
}

impl Outbox {
    pub(super) fn new() -> Outbox {
        Outbox { packets: Vec::new(), pending: None, refused_until: Timestamp::ZERO }
    }

    /// Whether a burst waits for room in the socket.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// When the local queue is asked again, if it refused packets lately.
    pub(super) fn refused_until(&self, now: Timestamp) -> Option<Timestamp> {
        (now < self.refused_until).then_some(self.refused_until)
    }

    /// Asks the machine for the next burst and seals it.
    pub(super) fn fill(
        &mut self,
        now: Timestamp,
        machine: &mut Sender,
        link: &mut Link,
        held: &HeldChunks,
    ) -> Result<Transmit> {
        let transmit = machine.poll_transmit(now, &mut self.packets);
        if transmit == Transmit::Burst {
            let sealed = link.seal(&self.packets, |chunk, range| held.bytes(chunk, range));
            self.pending = Some(sealed.ok_or_else(chunk_not_held)?);
        }
        Ok(transmit)
    }

    /// Sends the pending burst.
    pub(super) fn put_out(
        &mut self,
        machine: &mut Sender,
        link: &mut Link,
        peer: &mut PeerName,
    ) -> Result<Put> {
        let Some(mut sealed) = self.pending.take() else { return Ok(Put::Out) };
        let refused = match link.send(&mut sealed, Ecn::Ect0) {
            Ok(()) => return Ok(Put::Out),
            Err(SendError::WouldBlock) => {
                self.pending = Some(sealed);
                return Ok(Put::Full);
            }
            // The path reports a dead port or route: the silence that follows decides.
            Err(SendError::Refused) => return Ok(Put::Out),
            Err(SendError::TooLarge) => Refusal::Size,
            Err(SendError::NoBuffers) => Refusal::Room,
            Err(SendError::Io(error)) => {
                peer.refused_datagrams(&error)?;
                // The silence that follows decides, as where the path reports a dead port.
                return Ok(Put::Out);
            }
        };
        let now = link.clock().now();
        for packet in self.packets.iter().rev().take(sealed.datagrams()) {
            machine.handle_refused(now, packet.number, refused);
        }
        if refused == Refusal::Room {
            self.refused_until = now + REFUSED_WAIT;
        }
        Ok(Put::Out)
    }
}
