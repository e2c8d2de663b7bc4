//! Packets as a sender describes them to its driver.

use crate::wire::{AEAD_TAG_LEN, AckRatio, Header};
use crate::{ChunkId, PacketNumber, Timestamp};

/// One packet to gather, seal and send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketOut {
    /// Its number.
    pub number: PacketNumber,
    /// Its header.
    pub header: Header,
    /// The body behind the header.
    pub body: Body,
}

/// The body of a packet, before sealing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// A range of a chunk.
    Chunk {
        /// Chunk of the object.
        chunk: ChunkId,
        /// Bytes from its start.
        offset: u32,
        /// Bytes.
        len: u16,
    },
    /// Of a probe: what it asks of the acks in the first byte, then zeros.
    Probe {
        /// Bytes.
        len: u16,
        /// How rare acks should be.
        ack_ratio: AckRatio,
    },
}

impl PacketOut {
    /// Length of the datagram, bytes.
    pub fn datagram_len(&self) -> usize {
        let body = match self.body {
            Body::Chunk { len, .. } | Body::Probe { len, .. } => usize::from(len),
        };
        self.header.len() + body + AEAD_TAG_LEN
    }
}

/// A sender's answer to [`poll_transmit`](super::Sender::poll_transmit).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transmit {
    /// Send the burst: datagrams of equal length, the last one perhaps shorter.
    Burst,
    /// Nothing before this moment, unless something is handled.
    WaitUntil(Timestamp),
    /// Nothing until something is handled or the timeout passes.
    Wait,
}
