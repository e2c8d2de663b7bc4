//! What travels: descriptors of packets. Payload bytes do not exist.

use fobs_proto::wire::DATA_HEADER_LEN;

/// A flow of the world.
pub(crate) type FlowId = u16;

/// Bytes of IPv4 and UDP headers.
pub(crate) const UDP_IP_OVERHEAD: u32 = 28;

/// Direction along the flow's route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the flow's sending host.
    Data,
    /// Back to it.
    Acks,
}

/// Congestion marks (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ecn {
    NotCapable,
    Capable,
    Marked,
}

/// A packet somewhere between two hosts.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) flow: FlowId,
    pub(crate) way: Way,
    /// Links passed.
    pub(crate) hop: u8,
    pub(crate) ecn: Ecn,
    /// Bits were flipped: the host's checksum or AEAD will refuse it.
    pub(crate) damaged: bool,
    /// Bytes with IP headers.
    pub(crate) len: u32,
    pub(crate) cargo: Cargo,
}

/// What a packet carries.
#[derive(Debug, Clone)]
pub(crate) enum Cargo {
    /// A datagram of a FOBS sender: its session, whose keys it has; the header as bytes, and which range of
    /// its chunk follows.
    Fobs { session: u32, number: u64, header: [u8; DATA_HEADER_LEN], offset: u32, body: u16 },
    /// A datagram of a FOBS receiver: its session, header and body as bytes.
    FobsAck { session: u32, number: u64, bytes: Vec<u8> },
    /// A TCP segment: its place in the stream, and the number of this transmission.
    Tcp { place: u64, transmission: u64 },
    /// A TCP acknowledgement.
    TcpAck(Box<TcpAck>),
    /// Competing traffic without acknowledgements.
    Filler,
}

/// A TCP acknowledgement: transmissions instead of places: the model sees what SACK, time stamps and RACK
/// (RFC 8985) together show a real sender.
#[derive(Debug, Clone)]
pub(crate) struct TcpAck {
    /// Every place below has arrived.
    pub(crate) next_place: u64,
    /// Transmissions that arrived lately, inclusive, from the highest down.
    pub(crate) ranges: Vec<(u64, u64)>,
}
