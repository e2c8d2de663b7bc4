//! The ack body (protocol 6).

use super::{ATTEMPT_MAX, WireError, varint};
use crate::{ChunkId, PacketNumber};

/// Most ranges in one ack.
pub const RANGES_MAX: usize = 512;
/// Most block bitmaps in one ack.
pub const BITMAPS_MAX: usize = 4;
/// Longest ack body, bytes: a 1200-byte datagram less header and tag, so that acks fit every path.
pub const ACK_LEN_MAX: usize = 1200 - super::PLAIN_HEADER_LEN - super::AEAD_TAG_LEN;
/// Longest body of an ack that fits where even that does not pass.
pub const ACK_LEN_SMALL: usize = 548 - super::PLAIN_HEADER_LEN - super::AEAD_TAG_LEN;
/// Bytes of a [`HostReport`] with a count, after everything else.
const HOST_LEN: usize = 6;
/// And of one that has a lag alone.
const LAG_LEN: usize = 2;
/// On the wire: no lag.
const NO_LAG: u16 = u16::MAX;
const BITMAP_BYTES_MAX: usize = crate::object::BLOCK_PACKETS as usize / 8;

/// The receiver's report: newest arrivals, its clock, counters and credit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ack {
    /// Largest packet number received; `None` before the first packet.
    pub largest: Option<PacketNumber>,
    /// Time between the arrival of `largest` and this ack, µs.
    pub ack_delay_us: u32,
    /// Receiver's clock at the arrival of the newest packet, µs.
    pub receive_time_us: u64,
    /// Packets authenticated so far.
    pub received_packets: u64,
    /// Datagram bytes authenticated so far.
    pub received_bytes: u64,
    /// Datagrams that came with ECT(0).
    pub ect0: u32,
    /// Datagrams that came with CE.
    pub ce: u32,
    /// Drops at the socket as the kernel counts them, merged datagrams once.
    pub socket_drops: u32,
    /// First chunk that has no room (credit).
    pub chunk_limit: ChunkId,
    /// All chunks below are verified.
    pub verified_below: ChunkId,
    /// Chunks received and waiting for the disk.
    pub backlog: u16,
    /// Inclusive ranges of packet numbers, from the highest down; the first ends at `largest`.
    pub ranges: Vec<(PacketNumber, PacketNumber)>,
    /// Whole-block bitmaps of incomplete blocks.
    pub bitmaps: Vec<BlockBitmap>,
    /// What the receiving host reports of its own losses.
    pub host: HostReport,
}

/// The receiving host's own losses (protocol 6.4). The sender cannot check them, so their effect is bounded
/// (5.10).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostReport {
    /// Packets dropped at the socket so far, modulo 2^32; `None` where the kernel does not count, and from
    /// versions without this field.
    pub dropped: Option<u32>,
    /// How late packets before the newest gap were read at worst, thousandths of the time in which the
    /// socket's buffer fills; `None` if there was no gap since the last ack. At most 65,534.
    pub lag: Option<u16>,
}

/// Which packets of a block have arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockBitmap {
    /// Chunk of the object.
    pub chunk: ChunkId,
    /// Attempt that the bits are about.
    pub attempt: u8,
    /// Block of the chunk.
    pub block: u8,
    /// Packet `i` of the block: bit `i mod 8` of byte `i / 8`.
    pub bits: Vec<u8>,
}

impl Ack {
    /// Appends the body to `out`, at most [`ACK_LEN_MAX`] bytes: the lowest ranges and the last bitmaps are
    /// left out where they do not fit.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_within(ACK_LEN_MAX, out);
    }

    /// Likewise, at most `room` bytes, which are [`ACK_LEN_SMALL`] or more.
    pub fn encode_within(&self, room: usize, out: &mut Vec<u8>) {
        let room = room.clamp(ACK_LEN_SMALL, ACK_LEN_MAX);
        let start = out.len();
        out.extend_from_slice(&self.largest.map_or(u64::MAX, |n| n).to_le_bytes());
        out.extend_from_slice(&self.ack_delay_us.to_le_bytes());
        out.extend_from_slice(&self.receive_time_us.to_le_bytes());
        out.extend_from_slice(&self.received_packets.to_le_bytes());
        out.extend_from_slice(&self.received_bytes.to_le_bytes());
        for n in [self.ect0, self.ce, self.socket_drops, self.chunk_limit, self.verified_below] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(&self.backlog.to_le_bytes());
        let count_at = out.len();
        out.extend_from_slice(&[0; 2]);
        let mut count = 0u16;
        let mut lowest = None;
        for &(low, high) in self.ranges.iter().take(RANGES_MAX) {
            // The longest range takes 20 bytes; one more byte is the bitmap count, and the host's report is
            // last.
            if out.len() - start + 21 + HOST_LEN > room {
                break;
            }
            if let Some(lowest) = lowest {
                varint::write(lowest - high - 2, out);
            }
            varint::write(high - low, out);
            lowest = Some(low);
            count += 1;
        }
        out[count_at..count_at + 2].copy_from_slice(&count.to_le_bytes());
        let count_at = out.len();
        out.push(0);
        for bitmap in self.bitmaps.iter().take(BITMAPS_MAX) {
            if out.len() - start + 8 + bitmap.bits.len() + HOST_LEN > room {
                break;
            }
            out.extend_from_slice(&bitmap.chunk.to_le_bytes());
            out.push(bitmap.attempt);
            out.push(bitmap.block);
            out.extend_from_slice(&(bitmap.bits.len() as u16).to_le_bytes());
            out.extend_from_slice(&bitmap.bits);
            out[count_at] += 1;
        }
        let HostReport { dropped, lag } = self.host;
        let lag = lag.map(|lag| lag.min(NO_LAG - 1));
        match (dropped, lag) {
            (Some(dropped), lag) => {
                out.extend_from_slice(&dropped.to_le_bytes());
                out.extend_from_slice(&lag.unwrap_or(NO_LAG).to_le_bytes());
            }
            (None, Some(lag)) => out.extend_from_slice(&lag.to_le_bytes()),
            (None, None) => {}
        }
        debug_assert!(out.len() - start <= room);
    }

    /// Reads a body. Ranges come back descending, disjoint and not touching; any other input is refused.
    pub fn decode(mut input: &[u8]) -> Result<Ack, WireError> {
        let input = &mut input;
        let largest = u64::from_le_bytes(take(input)?);
        let mut ack = Ack {
            largest: (largest != u64::MAX).then_some(largest),
            ack_delay_us: u32::from_le_bytes(take(input)?),
            receive_time_us: u64::from_le_bytes(take(input)?),
            received_packets: u64::from_le_bytes(take(input)?),
            received_bytes: u64::from_le_bytes(take(input)?),
            ect0: u32::from_le_bytes(take(input)?),
            ce: u32::from_le_bytes(take(input)?),
            socket_drops: u32::from_le_bytes(take(input)?),
            chunk_limit: u32::from_le_bytes(take(input)?),
            verified_below: u32::from_le_bytes(take(input)?),
            backlog: u16::from_le_bytes(take(input)?),
            ranges: Vec::new(),
            bitmaps: Vec::new(),
            host: HostReport::default(),
        };
        let count = usize::from(u16::from_le_bytes(take(input)?));
        if count > RANGES_MAX || (count > 0) != ack.largest.is_some() {
            return Err(WireError::OutOfBounds);
        }
        let mut high = largest;
        for i in 0..count {
            if i > 0 {
                let gap = varint::read(input)?;
                let below = ack.ranges[i - 1].0;
                high = below.checked_sub(gap).and_then(|n| n.checked_sub(2)).ok_or(WireError::OutOfBounds)?;
            }
            let low = high.checked_sub(varint::read(input)?).ok_or(WireError::OutOfBounds)?;
            ack.ranges.push((low, high));
        }
        let [bitmaps] = take(input)?;
        if usize::from(bitmaps) > BITMAPS_MAX {
            return Err(WireError::OutOfBounds);
        }
        for _ in 0..bitmaps {
            let chunk = u32::from_le_bytes(take(input)?);
            let [attempt, block] = take(input)?;
            let len = usize::from(u16::from_le_bytes(take(input)?));
            if len > BITMAP_BYTES_MAX || attempt > ATTEMPT_MAX {
                return Err(WireError::OutOfBounds);
            }
            let (bits, rest) = input.split_at_checked(len).ok_or(WireError::Truncated)?;
            *input = rest;
            ack.bitmaps.push(BlockBitmap { chunk, attempt, block, bits: bits.to_vec() });
        }
        // An older receiver ends here; bytes that follow both are a newer one's business.
        if input.len() >= HOST_LEN {
            ack.host.dropped = Some(u32::from_le_bytes(take(input)?));
        }
        if ack.host.dropped.is_some() || input.len() == LAG_LEN {
            let lag = u16::from_le_bytes(take(input)?);
            ack.host.lag = (lag != NO_LAG).then_some(lag);
        }
        Ok(ack)
    }
}

fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], WireError> {
    let (bytes, rest) = input.split_first_chunk::<N>().ok_or(WireError::Truncated)?;
    *input = rest;
    Ok(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ack() -> impl Strategy<Value = Ack> {
        let numbers = prop::collection::btree_set(0u64..3_000, 0..400);
        let bitmap =
            (any::<u32>(), 0..=ATTEMPT_MAX, any::<u8>(), prop::collection::vec(any::<u8>(), 0..=200));
        let host = (prop::option::of(any::<u32>()), prop::option::of(0..NO_LAG))
            .prop_map(|(dropped, lag)| HostReport { dropped, lag });
        let bitmaps = prop::collection::vec(bitmap, 0..3);
        (numbers, any::<[u64; 3]>(), any::<[u32; 5]>(), any::<u16>(), bitmaps, host).prop_map(
            |(numbers, longs, ints, backlog, bitmaps, host)| {
                let mut set = crate::object::RangeSet::new(RANGES_MAX);
                for n in numbers {
                    set.insert(n);
                }
                Ack {
                    largest: set.largest(),
                    ack_delay_us: ints[0],
                    receive_time_us: longs[0],
                    received_packets: longs[1],
                    received_bytes: longs[2],
                    ect0: ints[1],
                    ce: ints[2],
                    socket_drops: ints[3],
                    chunk_limit: ints[4],
                    verified_below: ints[0],
                    backlog,
                    ranges: set.descending().collect(),
                    bitmaps: bitmaps
                        .into_iter()
                        .map(|(chunk, attempt, block, bits)| BlockBitmap { chunk, attempt, block, bits })
                        .collect(),
                    host,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn acks_round_trip_up_to_what_fits(ack in ack(), room in prop::sample::select(&[ACK_LEN_SMALL, ACK_LEN_MAX])) {
            let mut bytes = Vec::new();
            ack.encode_within(room, &mut bytes);
            prop_assert!(bytes.len() <= room);
            let decoded = Ack::decode(&bytes).unwrap();
            prop_assert_eq!(&decoded.ranges[..], &ack.ranges[..decoded.ranges.len()]);
            prop_assert_eq!(&decoded.bitmaps[..], &ack.bitmaps[..decoded.bitmaps.len()]);
            prop_assert!(ack.ranges.is_empty() || !decoded.ranges.is_empty());
            let (ranges, bitmaps) = (decoded.ranges.clone(), decoded.bitmaps.clone());
            prop_assert_eq!(decoded, Ack { ranges, bitmaps, ..ack });
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(ack) = Ack::decode(&bytes) {
                prop_assert!(ack.ranges.iter().all(|(low, high)| low <= high));
                prop_assert!(ack.ranges.windows(2).all(|w| w[1].1 + 1 < w[0].0));
            }
        }

        #[test]
        fn damaged_acks_are_safe(ack in ack(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            ack.encode(&mut bytes);
            let i = at.index(bytes.len());
            bytes[i] = byte;
            bytes.truncate(cut.index(bytes.len()) + 1);
            let _ = Ack::decode(&bytes);
        }
    }
}
