//! The burst that leaves: sealed once, sent in as many parts as the socket takes it.

use crate::failure::{PeerName, chunk_not_held};
use crate::link::{Link, Sealed};
use fobs_model::error::Result;
use fobs_proto::sender::{PacketOut, Refusal, Sender, Transmit};
use fobs_proto::{ChunkId, Timestamp};
use fobs_sys::{Ecn, SendError};
use std::ops::Range;
use std::time::Duration;

/// Bursts between two looks at the mailbox and the socket.
const BURSTS_PER_TURN: usize = 8;

/// How long to wait after the local queue refused packets.
const REFUSED_WAIT: Duration = Duration::from_micros(500);

/// What became of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    /// It is out, or refused for good.
    Out,
    /// The socket has no room for the rest of it.
    Full,
}

/// Why no further burst leaves now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Others are to be looked after first.
    Busy,
    /// The machine has none, as of this time.
    Wait(Timestamp, Transmit),
    /// The local queue refused packets; it is asked again then.
    Refused(Timestamp),
    /// The socket has no room.
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

    /// Sends bursts until the machine or the socket wants to wait, a bounded number of them; `chunk_bytes`
    /// gives a range of a chunk.
    pub(super) fn bursts<'a>(
        &mut self,
        machine: &mut Sender,
        link: &mut Link,
        peer: &mut PeerName,
        chunk_bytes: impl Fn(ChunkId, Range<usize>) -> Option<&'a [u8]>,
    ) -> Result<Turn> {
        for _ in 0..BURSTS_PER_TURN {
            if self.pending.is_none() {
                let now = link.clock().now();
                if now < self.refused_until {
                    return Ok(Turn::Refused(self.refused_until));
                }
                let transmit = machine.poll_transmit(now, &mut self.packets);
                if transmit != Transmit::Burst {
                    return Ok(Turn::Wait(now, transmit));
                }
                let sealed = link.seal(&self.packets, &chunk_bytes);
                self.pending = Some(sealed.ok_or_else(chunk_not_held)?);
            }
            if self.put_out(machine, link, peer)? == Put::Full {
                return Ok(Turn::Full);
            }
        }
        Ok(Turn::Busy)
    }

    /// Sends the pending burst.
    fn put_out(&mut self, machine: &mut Sender, link: &mut Link, peer: &mut PeerName) -> Result<Put> {
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
                peer.refused_datagrams(&error, link.last_heard())?;
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
