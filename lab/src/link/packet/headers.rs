//! Parsing of headers; does not panic on any bytes.

use super::{IpVersion, Malformed, Station, Transport};

/// Size of `struct virtio_net_hdr`, the short form that TUN devices use by default, bytes.
pub const VNET_BYTES: usize = 10;

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// The first segment carries CWR (RFC 3168).
const GSO_ECN: u8 = 0x80;

const IPV4_HEADER_MIN: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER_MIN: usize = 20;
const UDP_HEADER: usize = 8;

/// Kind of a super-packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GsoKind {
    Tcp4,
    Tcp6,
    Udp,
}

/// `struct virtio_net_hdr` in native byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VnetHeader {
    flags: u8,
    gso_type: u8,
    header_bytes: u16,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl VnetHeader {
    /// The header and the rest of the frame; `None` if it is too short.
    pub fn split(frame: &[u8]) -> Option<(VnetHeader, &[u8])> {
        let (head, packet) = frame.split_first_chunk::<VNET_BYTES>()?;
        let word = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
        let header = VnetHeader {
            flags: head[0],
            gso_type: head[1],
            header_bytes: word(2),
            gso_size: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        };
        Some((header, packet))
    }

    /// A header for a packet whose checksum the receiving kernel need not verify, as it was never on a wire.
    pub fn partial_checksum(transport: Transport, transport_at: u16, payload_at: u16) -> VnetHeader {
        let checksum_offset = match transport {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        };
        VnetHeader {
            flags: NEEDS_CSUM,
            header_bytes: payload_at,
            checksum_start: transport_at,
            checksum_offset,
            ..VnetHeader::default()
        }
    }

    /// The same for a super-packet.
    pub fn with_segments(self, kind: GsoKind, size: u16, first_has_cwr: bool) -> VnetHeader {
        let gso_type = match kind {
            GsoKind::Tcp4 => GSO_TCPV4,
            GsoKind::Tcp6 => GSO_TCPV6,
            GsoKind::Udp => GSO_UDP_L4,
        };
        let ecn = if first_has_cwr { GSO_ECN } else { 0 };
        VnetHeader { gso_type: gso_type | ecn, gso_size: size, ..self }
    }

    pub fn bytes(self) -> [u8; VNET_BYTES] {
        let mut bytes = [0; VNET_BYTES];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        let words = [self.header_bytes, self.gso_size, self.checksum_start, self.checksum_offset];
        for (place, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// `None` for a packet that is not a super-packet.
    pub fn gso_kind(&self) -> Result<Option<GsoKind>, Malformed> {
        match self.gso_type & !GSO_ECN {
            GSO_NONE => Ok(None),
            GSO_TCPV4 => Ok(Some(GsoKind::Tcp4)),
            GSO_TCPV6 => Ok(Some(GsoKind::Tcp6)),
            GSO_UDP_L4 => Ok(Some(GsoKind::Udp)),
            _ => Err(Malformed("a kind of super-packet that was not asked for")),
        }
    }

    pub fn needs_checksum(&self) -> bool {
        self.flags & NEEDS_CSUM != 0
    }

    pub fn checksum_start(&self) -> usize {
        usize::from(self.checksum_start)
    }

    pub fn gso_size(&self) -> u16 {
        self.gso_size
    }
}

/// Fields of an IP header.
pub struct Ip {
    pub version: IpVersion,
    /// Protocol of the payload; of IPv6, the first extension header if there is one.
    pub protocol: u8,
    /// Offset of the payload.
    pub payload_at: usize,
    /// Whether it is a fragment.
    pub fragment: bool,
    pub source: Station,
    pub destination: Station,
}

/// `None` if it is not an IP packet, or its length is inconsistent.
pub fn ip(packet: &[u8]) -> Option<Ip> {
    match packet.first()? >> 4 {
        4 => ipv4(packet),
        6 => ipv6(packet),
        _ => None,
    }
}

fn ipv4(packet: &[u8]) -> Option<Ip> {
    let header = packet.first_chunk::<IPV4_HEADER_MIN>()?;
    let payload_at = usize::from(header[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if payload_at < IPV4_HEADER_MIN || payload_at > packet.len() || total != packet.len() {
        return None;
    }
    // The flag "more fragments", or an offset.
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let station = |at: usize| match header[at..at + 4] {
        [10, 77, side, host] => Station(Some((side, host))),
        _ => Station(None),
    };
    Some(Ip {
        version: IpVersion::V4,
        protocol: header[9],
        payload_at,
        fragment,
        source: station(12),
        destination: station(16),
    })
}

fn ipv6(packet: &[u8]) -> Option<Ip> {
    let header = packet.first_chunk::<IPV6_HEADER>()?;
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if payload + IPV6_HEADER != packet.len() {
        return None;
    }
    let station = |at: usize| match header[at..at + 16] {
        [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, side, 0, host] => Station(Some((side, host))),
        _ => Station(None),
    };
    Some(Ip {
        version: IpVersion::V6,
        protocol: header[6],
        payload_at: IPV6_HEADER,
        fragment: false,
        source: station(8),
        destination: station(24),
    })
}

/// Source and destination port of TCP or UDP; `None` in any other packet, or a fragment.
pub fn ports(packet: &[u8], ip: &Ip) -> Option<(u16, u16)> {
    if ip.fragment || !matches!(ip.protocol, super::PROTOCOL_TCP | super::PROTOCOL_UDP) {
        return None;
    }
    let [a, b, c, d] = *packet.get(ip.payload_at..)?.first_chunk::<4>()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Offset of the payload of TCP or UDP; `None` if the header does not fit.
pub fn payload_at(packet: &[u8], transport: Transport, transport_at: usize) -> Option<usize> {
    let header = packet.get(transport_at..)?;
    let bytes = match transport {
        Transport::Udp => UDP_HEADER,
        Transport::Tcp => usize::from(header.get(12)? >> 4) * 4,
    };
    let least = match transport {
        Transport::Udp => UDP_HEADER,
        Transport::Tcp => TCP_HEADER_MIN,
    };
    (bytes >= least && bytes <= header.len()).then_some(transport_at + bytes)
}
