//! How a chunk of bytes is cut into packets (protocol 1.3).

/// File data of a full chunk, bytes (protocol 7.1).
pub const CHUNK_DATA_MAX: u32 = 4 << 20;
/// Records of a chunk at most, bytes before compression (protocol 7.1).
pub const RECORDS_MAX: u32 = 256 << 10;
/// Trailer of every chunk, bytes: two lengths, flags and a digest (protocol 7.1).
pub const TRAILER_LEN: u32 = 4 + 4 + 4 + 32;
/// Longest chunk on the wire, bytes (protocol 7.1).
pub const CHUNK_LEN_MAX: u32 = CHUNK_DATA_MAX + RECORDS_MAX + TRAILER_LEN;
/// Packets in one bitmap report (protocol 1.3). The papers' segment had 10,000; 4096 make a bitmap of 512
/// bytes, so that an ack with one stays well inside 1200 bytes.
pub const BLOCK_PACKETS: u32 = 4096;
/// Smallest payload of a packet, bytes: keeps `packet_index` within 16 bits for the longest chunk, and
/// headers cheap.
pub const PAYLOAD_MIN: u16 = 512;
/// Largest payload of a packet, bytes: UDP over IPv4 carries 65,507, less 28 of header and tag, rounded down.
pub const PAYLOAD_MAX: u16 = 65_000;

/// A chunk's length and packet size, and the arithmetic between index and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    len: u32,
    payload_size: u16,
}

impl Geometry {
    /// A chunk of `len` bytes in packets of `payload_size`; `None` if either is out of bounds.
    pub fn new(len: u32, payload_size: u16) -> Option<Geometry> {
        let fits = (1..=CHUNK_LEN_MAX).contains(&len) && (PAYLOAD_MIN..=PAYLOAD_MAX).contains(&payload_size);
        fits.then_some(Geometry { len, payload_size })
    }

    /// The most packets a chunk may have at a payload size.
    pub fn packets_max(payload_size: u16) -> u32 {
        CHUNK_LEN_MAX.div_ceil(u32::from(payload_size.max(1)))
    }

    /// Length of the chunk, bytes.
    pub fn len(self) -> u32 {
        self.len
    }

    /// Never: a chunk has at least one byte.
    pub fn is_empty(self) -> bool {
        false
    }

    /// Size of every packet but the last, bytes.
    pub fn payload_size(self) -> u16 {
        self.payload_size
    }

    /// How many packets.
    pub fn packets(self) -> u32 {
        self.len.div_ceil(u32::from(self.payload_size))
    }

    /// Where packet `index` begins, bytes from the chunk's start.
    pub fn offset(self, index: u16) -> u32 {
        u32::from(index) * u32::from(self.payload_size)
    }

    /// Length of packet `index`, bytes; 0 past the end.
    pub fn packet_len(self, index: u16) -> u16 {
        let left = self.len.saturating_sub(self.offset(index));
        left.min(u32::from(self.payload_size)) as u16
    }

    /// Whether `index` is the highest packet.
    pub fn is_last(self, index: u16) -> bool {
        u32::from(index) + 1 == self.packets()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_tile_the_chunk_exactly(len in 1..=CHUNK_LEN_MAX, payload in PAYLOAD_MIN..=PAYLOAD_MAX) {
            let g = Geometry::new(len, payload).unwrap();
            let mut at = 0u32;
            for index in 0..g.packets() {
                let index = index as u16;
                prop_assert_eq!(g.offset(index), at);
                let n = u32::from(g.packet_len(index));
                prop_assert!(n >= 1);
                prop_assert_eq!(g.is_last(index), at + n == len);
                prop_assert!(g.is_last(index) || n == u32::from(payload));
                at += n;
            }
            prop_assert_eq!(at, len);
            prop_assert!(g.packets() <= Geometry::packets_max(payload));
            prop_assert_eq!(g.packet_len(g.packets() as u16), 0);
        }
    }

    #[test]
    fn out_of_bounds_is_refused() {
        assert!(Geometry::new(0, 1444).is_none());
        assert!(Geometry::new(CHUNK_LEN_MAX + 1, 1444).is_none());
        assert!(Geometry::new(1, PAYLOAD_MIN - 1).is_none());
        assert!(Geometry::new(1, PAYLOAD_MAX + 1).is_none());
        assert!(Geometry::packets_max(PAYLOAD_MIN) <= u32::from(u16::MAX));
    }
}
