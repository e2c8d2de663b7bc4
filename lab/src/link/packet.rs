//! Frames of a TUN device: a `virtio_net_hdr` and an IP packet, often a super-packet that stands for many
//! (TSO, USO). [`Layout`] describes the parts of a frame and the lengths of its MTU-sized segments; [`store`]
//! keeps frames until they leave, [`train`] writes segments as packets and super-packets again.
//!
//! Formats: virtio 1.2 section 5.1.6 (native byte order on a TUN device), RFC 791, 8200, 9293, 768.

pub mod checksum;
mod headers;
pub mod store;
pub mod train;

pub use self::headers::{GsoKind, VNET_BYTES, VnetHeader};
use super::counters::Protocol;

/// Maximum length of a frame, bytes: the header and the longest IP packet.
pub const FRAME_MAX: usize = VNET_BYTES + 65_535;
/// Maximum length of the IP and TCP headers of a segment, bytes; super-packets have no longer ones.
pub const HEADERS_MAX: usize = 256;
/// Maximum number of segments of a super-packet: more than 64 KiB contain at the smallest usual segment size.
const SEGMENTS_MAX: u32 = 4096;

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ICMP6: u8 = 58;

/// Why a frame cannot be emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(&'static str);

/// The parts of a frame. Offsets count from the beginning of the IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub version: IpVersion,
    pub protocol: Protocol,
    pub source: Station,
    pub destination: Station,
    /// Source and destination port of TCP or UDP; `None` where the packet shows none.
    pub ports: Option<(u16, u16)>,
    /// Bytes of the IP packet.
    pub total: u32,
    pub form: Form,
}

/// How a packet may be cut and merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// TCP or UDP with a checksum left to be filled in: it can be cut and merged.
    Segments(Segments),
    /// Any other packet: forwarded unchanged.
    Opaque,
}

/// A packet of one or more segments of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    pub transport: Transport,
    /// Offset of the TCP or UDP header.
    pub transport_at: u16,
    /// Offset of the payload.
    pub payload_at: u16,
    /// Payload bytes of each segment but the last, which may be shorter; of a single segment, all of the
    /// payload.
    pub size: u32,
    pub count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Udp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    V4,
    V6,
}

/// Host of an address of the emulated network: the third and fourth byte of 10.77.x.y, or the last four of
/// fd77::x:y; `None` for any other address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station(pub Option<(u8, u8)>);

impl Layout {
    /// Parses a frame: `virtio_net_hdr`, then the packet.
    ///
    /// # Errors
    ///
    /// If it is not an IP packet, or an inconsistent super-packet. Does not panic on any bytes.
    pub fn parse(frame: &[u8]) -> Result<Layout, Malformed> {
        let (vnet, packet) = VnetHeader::split(frame).ok_or(Malformed("shorter than its header"))?;
        let ip = headers::ip(packet).ok_or(Malformed("no IP packet"))?;
        let form = match vnet.gso_kind()? {
            None if !vnet.needs_checksum() || ip.fragment => Form::Opaque,
            None => single(&vnet, packet, &ip),
            Some(kind) => Form::Segments(cut(&vnet, kind, packet, &ip)?),
        };
        Ok(Layout {
            version: ip.version,
            protocol: protocol(ip.protocol),
            source: ip.source,
            destination: ip.destination,
            ports: headers::ports(packet, &ip),
            total: packet.len() as u32,
            form,
        })
    }

    /// Number of packets on the wire.
    pub fn count(&self) -> u32 {
        match &self.form {
            Form::Segments(segments) => segments.count,
            Form::Opaque => 1,
        }
    }

    /// Length of the `index`-th segment's IP packet on the wire, bytes.
    pub fn wire_bytes(&self, index: u32) -> u32 {
        match &self.form {
            Form::Segments(segments) => {
                let payload = segments.payload(self.total, index);
                u32::from(segments.payload_at) + (payload.end - payload.start)
            }
            Form::Opaque => self.total,
        }
    }
}

impl Segments {
    /// Range of the `index`-th segment's payload in the IP packet.
    pub fn payload(&self, total: u32, index: u32) -> std::ops::Range<u32> {
        let at = u32::from(self.payload_at);
        let start = (at + index * self.size).min(total);
        start..(start + self.size).min(total)
    }
}

/// Form of a packet that is no super-packet: mergeable if it is plain TCP or UDP.
fn single(vnet: &VnetHeader, packet: &[u8], ip: &headers::Ip) -> Form {
    let transport = match ip.protocol {
        PROTOCOL_TCP => Transport::Tcp,
        PROTOCOL_UDP => Transport::Udp,
        _ => return Form::Opaque,
    };
    let payload_at = headers::payload_at(packet, transport, ip.payload_at);
    match payload_at {
        Some(payload_at) if vnet.checksum_start() == ip.payload_at && payload_at <= HEADERS_MAX => {
            Form::Segments(Segments {
                transport,
                transport_at: ip.payload_at as u16,
                payload_at: payload_at as u16,
                size: (packet.len() - payload_at) as u32,
                count: 1,
            })
        }
        _ => Form::Opaque,
    }
}

fn cut(vnet: &VnetHeader, kind: GsoKind, packet: &[u8], ip: &headers::Ip) -> Result<Segments, Malformed> {
    let transport = match kind {
        GsoKind::Tcp4 | GsoKind::Tcp6 => Transport::Tcp,
        GsoKind::Udp => Transport::Udp,
    };
    // The kernel gives the offset of the transport header; IPv6 extension headers lie before it.
    let transport_at = vnet.checksum_start();
    if !vnet.needs_checksum() || transport_at < ip.payload_at {
        return Err(Malformed("a super-packet without its checksum's place"));
    }
    let payload_at = headers::payload_at(packet, transport, transport_at)
        .filter(|&at| at <= HEADERS_MAX && at < packet.len())
        .ok_or(Malformed("a super-packet without payload"))?;
    let (payload, size) = ((packet.len() - payload_at) as u32, u32::from(vnet.gso_size()));
    if size == 0 || payload.div_ceil(size) > SEGMENTS_MAX {
        return Err(Malformed("a super-packet with a segment size that makes no sense"));
    }
    Ok(Segments {
        transport,
        transport_at: transport_at as u16,
        payload_at: payload_at as u16,
        size: size.min(payload),
        count: payload.div_ceil(size),
    })
}

fn protocol(number: u8) -> Protocol {
    match number {
        PROTOCOL_TCP => Protocol::Tcp,
        PROTOCOL_UDP => Protocol::Udp,
        PROTOCOL_ICMP | PROTOCOL_ICMP6 => Protocol::Icmp,
        _ => Protocol::Other,
    }
}

#[cfg(test)]
pub mod sample;
#[cfg(test)]
mod tests;
