//! What a stream carries: one AEAD record for each frame (protocol 10). The plaintext of a record is a kind,
//! a header and a payload; its length on the wire and its sealing are the driver's.

use super::{ACK_LEN_MAX, AEAD_TAG_LEN, ATTEMPT_MAX, Ack, DataHeader, WireError};
use crate::object::{CHUNK_LEN_MAX, PAYLOAD_MAX, PAYLOAD_MIN};
use std::ops::Range;

/// Most data of one frame, bytes: large enough that a record's 32 bytes and two system calls are nothing
/// beside it, small enough that at 10 Mbit/s a stream is free again after 52 ms and that a frame lost with
/// its stream is quickly sent again.
pub const FRAME_DATA_MAX: usize = 64 << 10;
/// A data frame's kind and header, bytes.
pub const FRAME_HEADER_LEN: usize = 12;
/// Bytes of a data record beside its data: length, kind and header, authentication tag (protocol 10.2).
pub const FRAME_OVERHEAD: usize = 4 + FRAME_HEADER_LEN + AEAD_TAG_LEN;
/// A report's kind and count, bytes.
const REPORT_HEADER_LEN: usize = 9;
/// Longest plaintext of a record, bytes.
pub const FRAME_LEN_MAX: usize = FRAME_HEADER_LEN + FRAME_DATA_MAX;

const _: () = assert!(REPORT_HEADER_LEN + ACK_LEN_MAX <= FRAME_LEN_MAX, "a report fits where data fits");
const _: () = assert!(PAYLOAD_MAX as usize <= FRAME_DATA_MAX, "a frame holds a packet of any size");

const FLAG_LAST: u8 = 0b0001;
const FLAG_FINAL: u8 = 0b0010;
const ATTEMPT_SHIFT: u32 = 2;
const FLAGS_DEFINED: u8 = 0b1111;

/// The content of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// Consecutive packets of one chunk.
    Data,
    /// What the receiver has taken.
    Report,
}

impl FrameKind {
    /// Its byte on the wire.
    pub fn byte(self) -> u8 {
        match self {
            FrameKind::Data => 0,
            FrameKind::Report => 1,
        }
    }

    /// The kind of this byte.
    pub fn from_byte(byte: u8) -> Result<FrameKind, WireError> {
        match byte {
            0 => Ok(FrameKind::Data),
            1 => Ok(FrameKind::Report),
            _ => Err(WireError::Unknown),
        }
    }
}

/// The plaintext of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Packets, and their data.
    Data(FrameHeader, &'a [u8]),
    /// What the receiver has taken.
    Report(FrameReport),
}

impl Frame<'_> {
    /// Reads a record. The data of a frame that is returned fits its header.
    pub fn decode(input: &[u8]) -> Result<Frame<'_>, WireError> {
        let (&kind, rest) = input.split_first().ok_or(WireError::Truncated)?;
        match FrameKind::from_byte(kind)? {
            FrameKind::Data => {
                let header = FrameHeader::decode(input)?;
                let data = input.get(FRAME_HEADER_LEN..).ok_or(WireError::Truncated)?;
                header.check(data.len())?;
                Ok(Frame::Data(header, data))
            }
            FrameKind::Report => FrameReport::decode(rest).map(Frame::Report),
        }
    }
}

/// Which packets a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Header of the first packet; but `last` says that the frame's last packet is the highest of its chunk.
    pub first: DataHeader,
    /// Consecutive packets, at least one.
    pub packets: u16,
}

impl FrameHeader {
    /// Writes kind and header at the front of `out`, which holds at least [`FRAME_HEADER_LEN`] bytes; the
    /// length written.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let first = &self.first;
        let mut flags = (first.attempt & ATTEMPT_MAX) << ATTEMPT_SHIFT;
        flags |= if first.last { FLAG_LAST } else { 0 };
        flags |= if first.final_chunk { FLAG_FINAL } else { 0 };
        out[0] = FrameKind::Data.byte();
        out[1] = flags;
        out[2..6].copy_from_slice(&first.chunk.to_be_bytes());
        out[6..8].copy_from_slice(&first.packet_index.to_be_bytes());
        out[8..10].copy_from_slice(&first.payload_size.to_be_bytes());
        out[10..12].copy_from_slice(&self.packets.to_be_bytes());
        FRAME_HEADER_LEN
    }

    /// Reads kind and header.
    pub fn decode(input: &[u8]) -> Result<FrameHeader, WireError> {
        let bytes = input.first_chunk::<FRAME_HEADER_LEN>().ok_or(WireError::Truncated)?;
        let flags = bytes[1];
        if bytes[0] != FrameKind::Data.byte() || flags & !FLAGS_DEFINED != 0 {
            return Err(WireError::Unknown);
        }
        let header = FrameHeader {
            first: DataHeader {
                chunk: u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]),
                packet_index: u16::from_be_bytes([bytes[6], bytes[7]]),
                payload_size: u16::from_be_bytes([bytes[8], bytes[9]]),
                attempt: flags >> ATTEMPT_SHIFT & ATTEMPT_MAX,
                last: flags & FLAG_LAST != 0,
                final_chunk: flags & FLAG_FINAL != 0,
            },
            packets: u16::from_be_bytes([bytes[10], bytes[11]]),
        };
        let payload = u32::from(header.first.payload_size);
        // The last packet begins within the longest chunk, and all but a part of it within the longest frame.
        let highest = u32::from(header.first.packet_index) + u32::from(header.packets).saturating_sub(1);
        let before_last = (usize::from(header.packets).saturating_sub(1)).saturating_mul(payload as usize);
        let inside = highest.checked_mul(payload).is_some_and(|offset| offset < CHUNK_LEN_MAX);
        if header.packets == 0
            || !(PAYLOAD_MIN..=PAYLOAD_MAX).contains(&header.first.payload_size)
            || !inside
            || before_last >= FRAME_DATA_MAX
        {
            return Err(WireError::OutOfBounds);
        }
        Ok(header)
    }

    /// Whether a frame of this header may have `len` bytes of data: full packets, and a shorter one at most
    /// at the end of the chunk.
    pub fn check(&self, len: usize) -> Result<(), WireError> {
        let payload = usize::from(self.first.payload_size);
        let full = usize::from(self.packets).saturating_mul(payload);
        let least = if self.first.last { full.saturating_sub(payload) + 1 } else { full };
        let within = (least..=full).contains(&len) && len <= FRAME_DATA_MAX;
        if within { Ok(()) } else { Err(WireError::OutOfBounds) }
    }

    /// The packets of a frame with `len` bytes of data: the header of each, and where its data lies.
    pub fn packets(&self, len: usize) -> impl Iterator<Item = (DataHeader, Range<usize>)> + use<> {
        let FrameHeader { first, packets } = *self;
        let payload = usize::from(first.payload_size);
        (0..packets).map(move |place| {
            let begin = (usize::from(place) * payload).min(len);
            let header = DataHeader {
                packet_index: first.packet_index.saturating_add(place),
                last: first.last && place + 1 == packets,
                ..first
            };
            (header, begin..(begin + payload).min(len))
        })
    }
}

/// What the receiver has taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrameReport {
    /// Data records of this stream that the receiver has taken since the stream began, in their order.
    pub delivered: u64,
    /// Its newest ack.
    pub ack: Option<Ack>,
}

impl FrameReport {
    /// Appends kind, count and ack.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FrameKind::Report.byte());
        out.extend_from_slice(&self.delivered.to_le_bytes());
        if let Some(ack) = &self.ack {
            ack.encode(out);
        }
    }

    /// Reads what follows the kind.
    fn decode(input: &[u8]) -> Result<FrameReport, WireError> {
        let (delivered, ack) = input.split_first_chunk::<8>().ok_or(WireError::Truncated)?;
        let ack = if ack.is_empty() { None } else { Some(Ack::decode(ack)?) };
        Ok(FrameReport { delivered: u64::from_le_bytes(*delivered), ack })
    }
}

#[cfg(test)]
mod tests;
