//! A record of what FOBS flows send and store, packet by packet, for tests that check an order of events.

use crate::packet::{Cargo, Packet};
use crate::time::Nanos;
use fobs_proto::ChunkId;
use fobs_proto::wire::Header;

/// An event of a FOBS flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When it happened.
    pub at: Nanos,
    /// The flow, by its place in the configuration.
    pub flow: usize,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A host sent a packet.
    Sent {
        /// What it is.
        header: Header,
        /// Its number.
        number: u64,
        /// Its length, bytes, with IP and UDP headers.
        len: u32,
    },
    /// The receiver stored a packet's data.
    Stored {
        /// The chunk it belongs to.
        chunk: ChunkId,
        /// Its place in the chunk.
        packet_index: u16,
    },
}

impl Entry {
    /// The entry of a packet that leaves its host; `None` for packets of other kinds of flow.
    pub(crate) fn sent(at: Nanos, packet: &Packet) -> Option<Entry> {
        let (number, header) = match &packet.cargo {
            Cargo::Fobs { number, header, .. } => (*number, Header::decode(header).ok()?.0),
            Cargo::FobsAck { number, .. } => (*number, Header::Ack),
            Cargo::Tcp { .. } | Cargo::TcpAck(_) | Cargo::Filler => return None,
        };
        let event = Event::Sent { header, number, len: packet.len };
        Some(Entry { at, flow: usize::from(packet.flow), event })
    }
}
