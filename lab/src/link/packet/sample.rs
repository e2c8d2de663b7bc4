//! Frames for tests, as the kernel passes them to a TUN device, and a naive check of written frames.

use super::checksum::{fold, pseudo, sum};
use super::headers::{GsoKind, VNET_BYTES, VnetHeader};
use super::{IpVersion, PROTOCOL_TCP, PROTOCOL_UDP, Transport};

pub const PSH_ACK: u8 = 0x18;
pub const ACK: u8 = 0x10;
pub const CWR: u8 = 0x80;

/// Description of a frame.
#[derive(Debug, Clone)]
pub struct Sample {
    pub version: IpVersion,
    pub transport: Transport,
    pub payload: Vec<u8>,
    /// Payload bytes of a segment; `None` for a plain packet.
    pub segment: Option<u16>,
    pub sequence: u32,
    pub flags: u8,
    pub port: u16,
}

impl Sample {
    pub fn new(version: IpVersion, transport: Transport, bytes: usize, segment: Option<u16>) -> Sample {
        let payload = (0..bytes).map(|index| (index * 7 + index / 256) as u8).collect();
        Sample { version, transport, payload, segment, sequence: 0xffff_f000, flags: ACK, port: 5001 }
    }

    /// From 10.77.0.1 to 10.77.1.1, or the same in IPv6; TCP carries a timestamp option.
    pub fn frame(&self) -> Vec<u8> {
        let (protocol, header): (u8, Vec<u8>) = match self.transport {
            Transport::Udp => (PROTOCOL_UDP, self.udp()),
            Transport::Tcp => (PROTOCOL_TCP, self.tcp()),
        };
        let mut packet = self.ip(protocol, header.len() + self.payload.len());
        let at = packet.len();
        packet.extend(&header);
        let payload_at = packet.len();
        packet.extend(&self.payload);
        let partial = fold(pseudo(&packet, self.version, protocol, (packet.len() - at) as u32));
        let place = at + if self.transport == Transport::Tcp { 16 } else { 6 };
        packet[place..place + 2].copy_from_slice(&partial.to_be_bytes());
        let mut vnet = VnetHeader::partial_checksum(self.transport, at as u16, payload_at as u16);
        if let Some(size) = self.segment {
            let kind = match (self.transport, self.version) {
                (Transport::Udp, _) => GsoKind::Udp,
                (Transport::Tcp, IpVersion::V4) => GsoKind::Tcp4,
                (Transport::Tcp, IpVersion::V6) => GsoKind::Tcp6,
            };
            vnet = vnet.with_segments(kind, size, self.flags & CWR != 0);
        }
        [&vnet.bytes()[..], &packet].concat()
    }

    fn ip(&self, protocol: u8, payload: usize) -> Vec<u8> {
        match self.version {
            IpVersion::V4 => {
                let mut header =
                    vec![0x45, 0, 0, 0, 0x12, 0xfe, 0x40, 0, 64, protocol, 0, 0, 10, 77, 0, 1, 10, 77, 1, 1];
                header[2..4].copy_from_slice(&((payload + 20) as u16).to_be_bytes());
                let check = !fold(sum(&header));
                header[10..12].copy_from_slice(&check.to_be_bytes());
                header
            }
            IpVersion::V6 => {
                let mut header = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
                header[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
                for side in [0, 1] {
                    header.extend([0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, side, 0, 1]);
                }
                header
            }
        }
    }

    fn udp(&self) -> Vec<u8> {
        let length = (self.payload.len() + 8) as u16;
        [40_000u16.to_be_bytes(), self.port.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat()
    }

    fn tcp(&self) -> Vec<u8> {
        let mut header = [40_000u16.to_be_bytes(), self.port.to_be_bytes()].concat();
        header.extend(self.sequence.to_be_bytes());
        header.extend([0, 0, 0, 9, 0x80, self.flags, 1, 0, 0, 0, 0, 0]);
        header.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        header
    }
}

/// Contents of a frame that is no super-packet: sequence number (0 for UDP), flags and payload. Panics if
/// lengths or checksums are wrong. A partial checksum must be the pseudo header's.
pub fn received(frame: &[u8]) -> (u32, u8, Vec<u8>) {
    let (version, transport, at, payload_at) = opened(frame);
    let packet = &frame[VNET_BYTES..];
    let (vnet, _) = VnetHeader::split(frame).expect("header");
    assert_eq!(vnet.gso_kind(), Ok(None));
    let protocol = if transport == Transport::Tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
    let pseudo = pseudo(packet, version, protocol, (packet.len() - at) as u32);
    let place = at + if transport == Transport::Tcp { 16 } else { 6 };
    if vnet.needs_checksum() {
        assert_eq!(packet[place..place + 2], fold(pseudo).to_be_bytes(), "partial checksum");
        assert_eq!(vnet.checksum_start(), at);
    } else {
        assert_eq!(fold(pseudo + sum(&packet[at..])), 0xffff, "complete checksum");
    }
    match transport {
        Transport::Udp => {
            assert_eq!(usize::from(u16::from_be_bytes([packet[at + 4], packet[at + 5]])), packet.len() - at);
            (0, 0, packet[payload_at..].to_vec())
        }
        Transport::Tcp => {
            let sequence = u32::from_be_bytes(packet[at + 4..at + 8].try_into().expect("four bytes"));
            (sequence, packet[at + 13], packet[payload_at..].to_vec())
        }
    }
}

/// Version, transport, offsets of transport header and payload; checks IP's length and checksum.
fn opened(frame: &[u8]) -> (IpVersion, Transport, usize, usize) {
    let packet = &frame[VNET_BYTES..];
    let (version, at, protocol) = match packet[0] >> 4 {
        4 => {
            assert_eq!(fold(sum(&packet[..20])), 0xffff, "IP header checksum");
            assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
            (IpVersion::V4, 20, packet[9])
        }
        _ => {
            assert_eq!(usize::from(u16::from_be_bytes([packet[4], packet[5]])) + 40, packet.len());
            (IpVersion::V6, 40, packet[6])
        }
    };
    match protocol {
        PROTOCOL_TCP => (version, Transport::Tcp, at, at + usize::from(packet[at + 12] >> 4) * 4),
        _ => (version, Transport::Udp, at, at + 8),
    }
}
