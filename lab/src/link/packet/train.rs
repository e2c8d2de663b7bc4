//! Segments that leave together as one packet or super-packet, like a network card's receive offload (GRO).
//!
//! Consecutive segments of a super-packet stay together. Packets of one flow are merged under the rules of
//! the kernel's GRO: equal headers, consecutive sequence numbers, equal sizes but for the last, nothing after
//! PSH or FIN. Only packets with a partial checksum are merged, so no payload is summed except to damage a
//! packet.

use std::io::IoSlice;

use super::checksum;
use super::headers::{GsoKind, VNET_BYTES, VnetHeader};
use super::store::{FrameId, Store};
use super::{Form, HEADERS_MAX, IpVersion, Layout, PROTOCOL_TCP, PROTOCOL_UDP, Segments, Transport};

/// Maximum number of parts of a train, each from one frame. 64 KiB are 45 full packets.
const PARTS_MAX: usize = 64;
/// Maximum number of slices of a train: headers, and the payload of each part.
pub const SLICES_MAX: usize = PARTS_MAX + 1;
/// Maximum number of segments of a UDP super-packet (UDP_MAX_SEGMENTS of Linux up to 6.8; 128 since).
const UDP_SEGMENTS_MAX: u32 = 64;
/// Length of the longest IP packet, bytes.
const TOTAL_MAX: u32 = 65_535;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const URG: u8 = 0x20;
const CWR: u8 = 0x80;

/// Super-packets that the devices accept in one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Merging {
    Nothing,
    Tcp,
    TcpAndUdp,
}

/// One segment of a frame in a [`Store`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub frame: FrameId,
    pub index: u32,
}

/// Segments that leave together. Empty after [`Train::clear`].
#[derive(Debug)]
pub struct Train {
    merging: Merging,
    parts: Vec<Part>,
    shape: Option<Shape>,
}

/// Consecutive segments of one frame.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub frame: FrameId,
    pub first: u32,
    pub count: u32,
}

/// Properties that the next segment must have; a train without a shape takes no more.
#[derive(Debug, Clone, Copy)]
struct Shape {
    transport: Transport,
    /// Payload of each segment so far, bytes.
    size: u32,
    /// Length of headers and payload, bytes.
    total: u32,
    count: u32,
    /// No other frame may follow a PSH, FIN or CWR.
    other_frames: bool,
}

/// Headers written anew for a train.
pub type Headers = [u8; VNET_BYTES + HEADERS_MAX];

impl Train {
    pub fn new(merging: Merging) -> Train {
        Train { merging, parts: Vec::with_capacity(PARTS_MAX), shape: None }
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Number of segments.
    pub fn count(&self) -> u32 {
        self.parts.iter().map(|part| part.count).sum()
    }

    pub fn clear(&mut self) {
        self.parts.clear();
        self.shape = None;
    }

    /// Merges less from now on: a device refused a super-packet that it had announced to accept.
    pub fn downgrade(&mut self, transport: Transport) {
        let left = match transport {
            Transport::Tcp => Merging::Nothing,
            Transport::Udp => Merging::Tcp,
        };
        self.merging = self.merging.min(left);
    }

    /// Transport of the segments, if TCP or UDP.
    pub fn transport(&self, store: &Store) -> Option<Transport> {
        match store.frame(self.parts.first()?.frame).0.form {
            Form::Segments(segments) => Some(segments.transport),
            Form::Opaque => None,
        }
    }

    /// Appends the segment if it may leave together with the train; an empty train takes any.
    pub fn try_add(&mut self, store: &Store, segment: Segment) -> bool {
        let (layout, frame) = store.frame(segment.frame);
        let Some(last) = self.parts.last().copied() else {
            self.parts.push(Part { frame: segment.frame, first: segment.index, count: 1 });
            self.shape = self.first_shape(layout, frame, segment.index);
            return true;
        };
        let (Some(shape), Form::Segments(segments)) = (self.shape, layout.form) else { return false };
        let bytes = wire_payload(&segments, layout, segment.index);
        let fits = bytes <= shape.size
            && bytes > 0
            && shape.total + bytes <= TOTAL_MAX
            && (shape.transport == Transport::Tcp || shape.count < UDP_SEGMENTS_MAX);
        if !fits {
            return false;
        }
        if last.frame == segment.frame {
            if segment.index != last.first + last.count {
                return false;
            }
            if let Some(last) = self.parts.last_mut() {
                last.count += 1;
            }
        } else {
            let before = store.frame(last.frame);
            let before_index = last.first + last.count - 1;
            if !shape.other_frames
                || self.parts.len() == PARTS_MAX
                || !follows(before, before_index, (layout, frame), &segments, segment.index)
            {
                return false;
            }
            self.parts.push(Part { frame: segment.frame, first: segment.index, count: 1 });
        }
        let ends = ends(&segments, &frame[VNET_BYTES..], segment.index);
        self.shape = (bytes == shape.size).then_some(Shape {
            total: shape.total + bytes,
            count: shape.count + 1,
            other_frames: shape.other_frames && !ends,
            ..shape
        });
        true
    }

    fn first_shape(&self, layout: &Layout, frame: &[u8], index: u32) -> Option<Shape> {
        let Form::Segments(segments) = layout.form else { return None };
        let mergeable = match segments.transport {
            Transport::Tcp => self.merging >= Merging::Tcp,
            Transport::Udp => self.merging >= Merging::TcpAndUdp,
        };
        let size = wire_payload(&segments, layout, index);
        (mergeable && size > 0).then_some(Shape {
            transport: segments.transport,
            size,
            total: u32::from(segments.payload_at) + size,
            count: 1,
            other_frames: !ends(&segments, &frame[VNET_BYTES..], index),
        })
    }

    /// The slices to write to a device: the first of `slices`, and their number.
    pub fn slices<'a>(
        &self,
        store: &'a Store,
        headers: &'a mut Headers,
        slices: &mut [IoSlice<'a>; SLICES_MAX],
    ) -> usize {
        let (Some(first), Some(last)) = (self.parts.first(), self.parts.last()) else { return 0 };
        let (layout, frame) = store.frame(first.frame);
        let segments = match layout.form {
            // The whole frame, or one that cannot be cut: as read.
            Form::Segments(segments) if self.parts.len() > 1 || first.count < segments.count => segments,
            _ => {
                slices[0] = IoSlice::new(frame);
                return 1;
            }
        };
        let payload: u32 = self.payloads(store).map(|payload| payload.len() as u32).sum();
        let packet = &frame[VNET_BYTES..];
        let at = usize::from(segments.payload_at);
        headers[VNET_BYTES..VNET_BYTES + at].copy_from_slice(&packet[..at]);
        let renewed = Renewed {
            layout,
            segments: &segments,
            index: first.first,
            payload,
            last_flags: last_flags(store, last),
        };
        let cwr = renewed.patch(&mut headers[VNET_BYTES..VNET_BYTES + at]);
        let mut vnet =
            VnetHeader::partial_checksum(segments.transport, segments.transport_at, segments.payload_at);
        if self.count() > 1 {
            let size = wire_payload(&segments, layout, first.first);
            vnet = vnet.with_segments(kind(layout.version, segments.transport), size as u16, cwr);
        }
        headers[..VNET_BYTES].copy_from_slice(&vnet.bytes());
        slices[0] = IoSlice::new(&headers[..VNET_BYTES + at]);
        let mut used = 1;
        for (place, payload) in slices[1..].iter_mut().zip(self.payloads(store)) {
            *place = IoSlice::new(payload);
            used += 1;
        }
        used
    }

    fn payloads<'a>(&self, store: &'a Store) -> impl Iterator<Item = &'a [u8]> {
        self.parts.iter().map(move |part| {
            let (layout, frame) = store.frame(part.frame);
            match layout.form {
                Form::Opaque => &frame[frame.len()..],
                Form::Segments(segments) => {
                    let start = segments.payload(layout.total, part.first).start as usize;
                    let end = segments.payload(layout.total, part.first + part.count - 1).end as usize;
                    &frame[VNET_BYTES + start..VNET_BYTES + end]
                }
            }
        })
    }
}

/// Writes one segment with its checksum filled in and one bit of it flipped, so that the receiving kernel
/// detects a bad packet. The bit lies in the payload, or after the IP header if there is no payload.
pub fn damaged(layout: &Layout, frame: &[u8], index: u32, which: u32, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&VnetHeader::default().bytes());
    let packet = &frame[VNET_BYTES..];
    let soft = match layout.form {
        Form::Opaque => {
            out.extend_from_slice(packet);
            match layout.version {
                IpVersion::V4 => usize::from(packet[0] & 0x0f) * 4,
                IpVersion::V6 => 40,
            }
        }
        Form::Segments(segments) => {
            let at = usize::from(segments.payload_at);
            let payload = segments.payload(layout.total, index);
            out.extend_from_slice(&packet[..at]);
            let last_flags = if index + 1 == segments.count { flags(&segments, packet) } else { 0 };
            let bytes = payload.end - payload.start;
            let renewed = Renewed { layout, segments: &segments, index, payload: bytes, last_flags };
            renewed.patch(&mut out[VNET_BYTES..]);
            out.extend_from_slice(&packet[payload.start as usize..payload.end as usize]);
            complete_checksum(&segments, &mut out[VNET_BYTES..]);
            if bytes == 0 { usize::from(segments.transport_at) } else { at }
        }
    };
    let soft = &mut out[VNET_BYTES + soft..];
    if !soft.is_empty() {
        soft[which as usize / 8 % soft.len()] ^= 1 << (which % 8);
    }
}

/// Completes a checksum that the kernel left partial.
fn complete_checksum(segments: &Segments, packet: &mut [u8]) {
    let at = usize::from(segments.transport_at);
    // The field holds the pseudo header's sum, which is part of the sum.
    let sum = !checksum::fold(checksum::sum(&packet[at..]));
    let place = checksum_at(segments);
    // In UDP 0 means "no checksum" (RFC 768); write the other representation of zero.
    let sum = if sum == 0 && segments.transport == Transport::Udp { 0xffff } else { sum };
    packet[place..place + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The headers of a train's first segment, adapted to the train.
struct Renewed<'a> {
    layout: &'a Layout,
    segments: &'a Segments,
    /// Index of the first segment in its frame.
    index: u32,
    /// Payload bytes of all segments.
    payload: u32,
    /// TCP flags of the last frame if its last segment is in the train; else 0.
    last_flags: u8,
}

impl Renewed<'_> {
    /// Writes IP and transport headers; returns whether the first segment carries CWR.
    fn patch(&self, headers: &mut [u8]) -> bool {
        let total = u32::from(self.segments.payload_at) + self.payload;
        let at = usize::from(self.segments.transport_at);
        match self.layout.version {
            IpVersion::V4 => {
                headers[2..4].copy_from_slice(&(total as u16).to_be_bytes());
                let id = u16::from_be_bytes([headers[4], headers[5]]).wrapping_add(self.index as u16);
                headers[4..6].copy_from_slice(&id.to_be_bytes());
                headers[10..12].fill(0);
                let options_end = usize::from(headers[0] & 0x0f) * 4;
                let sum = !checksum::fold(checksum::sum(&headers[..options_end]));
                headers[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            IpVersion::V6 => headers[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes()),
        }
        let transport_bytes = total - at as u32;
        let (protocol, cwr) = match self.segments.transport {
            Transport::Udp => {
                headers[at + 4..at + 6].copy_from_slice(&(transport_bytes as u16).to_be_bytes());
                (PROTOCOL_UDP, false)
            }
            Transport::Tcp => (PROTOCOL_TCP, self.patch_tcp(&mut headers[at..])),
        };
        let pseudo = checksum::pseudo(headers, self.layout.version, protocol, transport_bytes);
        let place = checksum_at(self.segments);
        headers[place..place + 2].copy_from_slice(&checksum::fold(pseudo).to_be_bytes());
        cwr
    }

    fn patch_tcp(&self, tcp: &mut [u8]) -> bool {
        let sequence = sequence(tcp).wrapping_add(self.index.wrapping_mul(self.segments.size));
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        // CWR belongs to the first segment of a super-packet, PSH and FIN to the last.
        let cwr = if self.index == 0 { tcp[13] & CWR } else { 0 };
        tcp[13] = tcp[13] & !(CWR | PSH | FIN) | cwr | self.last_flags & (PSH | FIN);
        cwr != 0
    }
}

fn checksum_at(segments: &Segments) -> usize {
    let within = match segments.transport {
        Transport::Tcp => 16,
        Transport::Udp => 6,
    };
    usize::from(segments.transport_at) + within
}

fn sequence(tcp: &[u8]) -> u32 {
    u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]])
}

fn flags(segments: &Segments, packet: &[u8]) -> u8 {
    match segments.transport {
        Transport::Tcp => packet[usize::from(segments.transport_at) + 13],
        Transport::Udp => 0,
    }
}

fn last_flags(store: &Store, last: &Part) -> u8 {
    let (layout, frame) = store.frame(last.frame);
    match layout.form {
        Form::Segments(segments) if last.first + last.count == segments.count => {
            flags(&segments, &frame[VNET_BYTES..])
        }
        _ => 0,
    }
}

/// Whether no other frame may follow this segment.
fn ends(segments: &Segments, packet: &[u8], index: u32) -> bool {
    let flags = flags(segments, packet);
    let of_last = if index + 1 == segments.count { flags & (PSH | FIN) } else { 0 };
    of_last != 0 || flags & (SYN | RST | URG | CWR) != 0
}

fn wire_payload(segments: &Segments, layout: &Layout, index: u32) -> u32 {
    let payload = segments.payload(layout.total, index);
    payload.end - payload.start
}

fn kind(version: IpVersion, transport: Transport) -> GsoKind {
    match (transport, version) {
        (Transport::Udp, _) => GsoKind::Udp,
        (Transport::Tcp, IpVersion::V4) => GsoKind::Tcp4,
        (Transport::Tcp, IpVersion::V6) => GsoKind::Tcp6,
    }
}

/// Whether segment `index` of a frame continues segment `before_index` of the frame before it.
fn follows(
    (before_layout, before): (&Layout, &[u8]),
    before_index: u32,
    (layout, frame): (&Layout, &[u8]),
    segments: &Segments,
    index: u32,
) -> bool {
    let Form::Segments(before_segments) = before_layout.form else { return false };
    let (before, packet) = (&before[VNET_BYTES..], &frame[VNET_BYTES..]);
    let same = |range: std::ops::Range<usize>| before[range.clone()] == packet[range];
    let at = usize::from(segments.transport_at);
    let same_place = before_layout.version == layout.version
        && before_segments.transport == segments.transport
        && before_segments.transport_at == segments.transport_at
        && before_segments.payload_at == segments.payload_at;
    // Excluding lengths, identification and header checksum.
    let same_ip = || match layout.version {
        IpVersion::V4 => same(0..2) && same(6..10) && same(12..at),
        IpVersion::V6 => same(0..4) && same(6..at),
    };
    let same_transport = || match segments.transport {
        Transport::Udp => same(at..at + 4),
        Transport::Tcp => {
            let own = flags(segments, packet);
            let first_sequence = sequence(&before[at..]).wrapping_add(before_index * before_segments.size);
            let expected =
                first_sequence.wrapping_add(wire_payload(&before_segments, before_layout, before_index));
            let actual = sequence(&packet[at..]).wrapping_add(index * segments.size);
            expected == actual
                && own & (SYN | RST | URG | CWR) == 0
                && (own ^ flags(&before_segments, before)) & !(PSH | FIN) == 0
                && same(at..at + 4)
                && same(at + 8..at + 13)
                && same(at + 14..at + 16)
                && same(at + 18..usize::from(segments.payload_at))
        }
    };
    same_place && same_ip() && same_transport()
}

#[cfg(test)]
mod tests;
