//! Packet headers (protocol 4).

use super::WireError;
use crate::object::{CHUNK_LEN_MAX, PAYLOAD_MAX, PAYLOAD_MIN};
use crate::{ChunkId, PacketNumber};

/// Header of acks and probes, bytes.
pub const PLAIN_HEADER_LEN: usize = 4;
/// Header of data, bytes.
pub const DATA_HEADER_LEN: usize = 12;
/// Bytes that both AEADs add to every packet.
pub const AEAD_TAG_LEN: usize = 16;
/// Bytes of a data packet beside its payload: a 1500-byte path then carries no smaller a share of payload
/// than TCP with timestamps does.
pub const DATA_OVERHEAD: usize = DATA_HEADER_LEN + AEAD_TAG_LEN;
/// Random bytes of a challenge, so that only who receives it knows them: twice as many as in RFC 9000 section
/// 8.2.1.
pub const CHALLENGE_LEN: usize = 16;
/// Highest `attempt` (two bits, protocol 4.2).
pub const ATTEMPT_MAX: u8 = 3;
/// How far below the largest number received a packet is still accepted, packets (protocol 3.5). At 10 Gbit/s
/// of 1472-byte packets that is 150 ms of reordering, far beyond what paths do; it costs 16 KiB.
pub const REPLAY_WINDOW: u64 = 131_072;

const TYPE_DATA: u8 = 0;
const TYPE_ACK: u8 = 1;
const TYPE_PROBE: u8 = 2;
const TYPE_CHALLENGE: u8 = 3;
const TYPE_RESPONSE: u8 = 4;
const FLAG_LAST: u8 = 0b0_0001;
const FLAG_FINAL: u8 = 0b0_0010;
const FLAGS_DEFINED: u8 = 0b0_1111;
const ATTEMPT_SHIFT: u32 = 2;
const NUMBER_BITS: u32 = 24;

/// The cleartext part of a packet; its number is truncated to 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// A piece of a chunk.
    Data(DataHeader),
    /// A report of the receiver.
    Ack,
    /// Requests an ack; padded to the size it probes.
    Probe,
    /// Requests a [`Response`](Header::Response) from the address it is sent to; its body is
    /// [`CHALLENGE_LEN`] random bytes.
    Challenge,
    /// Answers a challenge with the same bytes.
    Response,
}

/// Where a data packet belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHeader {
    /// Chunk of the object.
    pub chunk: ChunkId,
    /// Packet of the chunk.
    pub packet_index: u16,
    /// Size of every packet of this chunk but the last, bytes.
    pub payload_size: u16,
    /// How often the chunk was laid out anew, 0 to 3.
    pub attempt: u8,
    /// Highest packet of its chunk.
    pub last: bool,
    /// The chunk is the last of the object.
    pub final_chunk: bool,
}

impl Header {
    /// Length on the wire, bytes.
    pub fn len(&self) -> usize {
        match self {
            Header::Data(_) => DATA_HEADER_LEN,
            _ => PLAIN_HEADER_LEN,
        }
    }

    /// Never: every header has bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the header at the front of `out`, which holds at least [`len`](Self::len) bytes; the length
    /// written.
    pub fn encode(&self, number: PacketNumber, out: &mut [u8]) -> usize {
        let (kind, flags) = match self {
            Header::Data(d) => {
                let mut flags = (d.attempt & ATTEMPT_MAX) << ATTEMPT_SHIFT;
                flags |= if d.last { FLAG_LAST } else { 0 };
                flags |= if d.final_chunk { FLAG_FINAL } else { 0 };
                (TYPE_DATA, flags)
            }
            Header::Ack => (TYPE_ACK, 0),
            Header::Probe => (TYPE_PROBE, 0),
            Header::Challenge => (TYPE_CHALLENGE, 0),
            Header::Response => (TYPE_RESPONSE, 0),
        };
        out[0] = kind << 5 | flags;
        out[1..4].copy_from_slice(&(number as u32).to_be_bytes()[1..]);
        if let Header::Data(d) = self {
            out[4..8].copy_from_slice(&d.chunk.to_be_bytes());
            out[8..10].copy_from_slice(&d.packet_index.to_be_bytes());
            out[10..12].copy_from_slice(&d.payload_size.to_be_bytes());
        }
        self.len()
    }

    /// Reads a header and the truncated packet number.
    pub fn decode(input: &[u8]) -> Result<(Header, u32), WireError> {
        let [first, number @ ..] = input.first_chunk::<PLAIN_HEADER_LEN>().ok_or(WireError::Truncated)?;
        let number = u32::from_be_bytes([0, number[0], number[1], number[2]]);
        let flags = first & 0x1f;
        let header = match first >> 5 {
            TYPE_DATA => Header::Data(decode_data(flags, input)?),
            TYPE_ACK if flags == 0 => Header::Ack,
            TYPE_PROBE if flags == 0 => Header::Probe,
            TYPE_CHALLENGE if flags == 0 => Header::Challenge,
            TYPE_RESPONSE if flags == 0 => Header::Response,
            _ => return Err(WireError::Unknown),
        };
        Ok((header, number))
    }
}

fn decode_data(flags: u8, input: &[u8]) -> Result<DataHeader, WireError> {
    if flags & !FLAGS_DEFINED != 0 {
        return Err(WireError::Unknown);
    }
    let bytes = input.first_chunk::<DATA_HEADER_LEN>().ok_or(WireError::Truncated)?;
    let header = DataHeader {
        chunk: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        packet_index: u16::from_be_bytes([bytes[8], bytes[9]]),
        payload_size: u16::from_be_bytes([bytes[10], bytes[11]]),
        attempt: flags >> ATTEMPT_SHIFT & ATTEMPT_MAX,
        last: flags & FLAG_LAST != 0,
        final_chunk: flags & FLAG_FINAL != 0,
    };
    let inside = u32::from(header.packet_index) * u32::from(header.payload_size) < CHUNK_LEN_MAX;
    if !(PAYLOAD_MIN..=PAYLOAD_MAX).contains(&header.payload_size) || !inside {
        return Err(WireError::OutOfBounds);
    }
    Ok(header)
}

/// The full packet number whose low 24 bits are `truncated`, nearest to `expected` (RFC 9000 appendix A.3).
pub fn decode_packet_number(truncated: u32, expected: PacketNumber) -> PacketNumber {
    const WINDOW: u64 = 1 << NUMBER_BITS;
    let candidate = expected & !(WINDOW - 1) | u64::from(truncated) & (WINDOW - 1);
    if candidate + WINDOW / 2 <= expected {
        candidate + WINDOW
    } else if candidate > expected + WINDOW / 2 && candidate >= WINDOW {
        candidate - WINDOW
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data_header() -> impl Strategy<Value = DataHeader> {
        (any::<u32>(), any::<u16>(), PAYLOAD_MIN..=PAYLOAD_MAX, 0..=ATTEMPT_MAX, any::<bool>(), any::<bool>())
            .prop_map(|(chunk, index, payload_size, attempt, last, final_chunk)| DataHeader {
                chunk,
                packet_index: (u32::from(index) % CHUNK_LEN_MAX.div_ceil(u32::from(payload_size))) as u16,
                payload_size,
                attempt,
                last,
                final_chunk,
            })
    }

    proptest! {
        #[test]
        fn data_headers_round_trip(header in data_header(), number in 0u64..1 << 62) {
            let mut bytes = [0u8; DATA_HEADER_LEN];
            prop_assert_eq!(Header::Data(header).encode(number, &mut bytes), DATA_HEADER_LEN);
            let (decoded, truncated) = Header::decode(&bytes).unwrap();
            prop_assert_eq!(decoded, Header::Data(header));
            prop_assert_eq!(u64::from(truncated), number & 0xff_ffff);
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok((header, number)) = Header::decode(&bytes) {
                let mut again = [0u8; DATA_HEADER_LEN];
                let n = header.encode(u64::from(number), &mut again);
                prop_assert_eq!(&again[..n], &bytes[..n]);
            }
        }

        #[test]
        fn numbers_come_back_within_half_a_window(expected in 0u64..1 << 61, off in -(1i64 << 23) + 1..1i64 << 23) {
            let Some(number) = expected.checked_add_signed(off) else { return Ok(()) };
            prop_assert_eq!(decode_packet_number((number & 0xff_ffff) as u32, expected), number);
        }
    }

    #[test]
    fn plain_headers_round_trip_and_undefined_ones_are_refused() {
        for header in [Header::Ack, Header::Probe, Header::Challenge, Header::Response] {
            let mut bytes = [0u8; 4];
            assert_eq!(header.encode(0x0102_0304, &mut bytes), 4);
            assert_eq!(Header::decode(&bytes), Ok((header, 0x02_0304)));
            assert_eq!(Header::decode(&bytes[..3]), Err(WireError::Truncated));
            bytes[0] |= 1;
            assert_eq!(Header::decode(&bytes), Err(WireError::Unknown));
        }
        assert_eq!(Header::decode(&[5 << 5, 0, 0, 0]), Err(WireError::Unknown));
    }
}
