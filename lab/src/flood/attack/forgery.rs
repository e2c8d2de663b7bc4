//! What an attacker makes of a captured datagram. Bytes only: no socket, no clock.

/// Lengths of the headers, bytes: IPv4 without options (RFC 791), UDP (RFC 768).
pub const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
/// Where the payload of UDP begins.
pub const PAYLOAD: usize = IPV4_HEADER + UDP_HEADER;
/// The TTL of forged packets, which tells them from genuine ones: real hosts start at 64.
pub const TTL_MARK: u8 = 63;
/// Header of a data packet of FOBS, bytes (protocol 4.2), and where the low byte of its number is (4.1).
const DATA_HEADER: usize = 12;
const NUMBER_LOW: usize = PAYLOAD + 3;
/// UDP's number among the protocols over IPv4.
const UDP: u8 = 17;

/// What is done to a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Sent again as it is, later and out of order: a replay, and a duplicate.
    Replayed,
    /// One bit of it differs: of the header, the number, the body or the tag.
    Flipped,
    /// It ends early, anywhere.
    Truncated,
    /// The same bytes, from another address and port.
    Elsewhere,
    /// A genuine header with a number near the newest, and a body of noise: costs the receiver a decryption.
    MadeUp,
    /// Noise from the first byte.
    Noise,
}

impl Kind {
    /// All of them: an attacker uses each as often.
    pub const ALL: [Kind; 6] =
        [Kind::Replayed, Kind::Flipped, Kind::Truncated, Kind::Elsewhere, Kind::MadeUp, Kind::Noise];
}

/// Numbers from a seed (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % (end as u64).max(1)) as usize
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let noise = self.next().to_le_bytes();
            piece.copy_from_slice(&noise[..piece.len()]);
        }
    }
}

/// Whether this is a whole UDP datagram over IPv4 that no attacker made.
pub fn is_genuine(packet: &[u8]) -> bool {
    packet.len() > PAYLOAD
        && packet[0] == 0x45
        && packet[9] == UDP
        && packet[8] != TTL_MARK
        && usize::from(u16::from_be_bytes([packet[2], packet[3]])) == packet.len()
}

/// Makes `out` the forged packet of this kind from a genuine one. The UDP checksum is left out, as IPv4
/// allows; that of IPv4 is the sending kernel's to fill in.
pub fn forge(kind: Kind, genuine: &[u8], random: &mut Random, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(genuine);
    let payload = out.len() - PAYLOAD;
    match kind {
        Kind::Replayed => {}
        Kind::Flipped => out[PAYLOAD + random.below(payload)] ^= 1 << random.below(8),
        Kind::Truncated => out.truncate(PAYLOAD + random.below(payload)),
        Kind::Elsewhere => {
            let [host, port @ ..] = [random.next() as u8, random.next() as u8, random.next() as u8];
            out[IPV4_HEADER - 5] ^= host | 1;
            out[IPV4_HEADER] = port[0] | 0x80;
            out[IPV4_HEADER + 1] = port[1];
        }
        Kind::MadeUp => {
            out[NUMBER_LOW.min(PAYLOAD + payload - 1)] ^= random.next() as u8;
            random.fill(&mut out[PAYLOAD + payload.min(DATA_HEADER)..]);
        }
        Kind::Noise => random.fill(&mut out[PAYLOAD..]),
    }
    let (total, datagram) = (out.len() as u16, (out.len() - IPV4_HEADER) as u16);
    out[2..4].copy_from_slice(&total.to_be_bytes());
    out[8] = TTL_MARK;
    // The IPv4 checksum, the length of the datagram, and its checksum.
    out[10..12].fill(0);
    out[IPV4_HEADER + 4..IPV4_HEADER + 6].copy_from_slice(&datagram.to_be_bytes());
    out[IPV4_HEADER + 6..PAYLOAD].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A genuine packet from 10.0.0.1:1000 to 10.0.0.2:2000 with `payload` bytes.
    fn genuine(payload: usize) -> Vec<u8> {
        let total = (PAYLOAD + payload) as u16;
        let mut packet = vec![0x45, 0, 0, 0, 7, 7, 0x40, 0, 64, UDP, 1, 2, 10, 0, 0, 1, 10, 0, 0, 2];
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet.extend([0x03, 0xe8, 0x07, 0xd0, 0, 0, 3, 4]);
        packet.extend((0..payload).map(|at| at as u8));
        packet
    }

    #[test]
    fn each_kind_changes_what_it_says_and_is_marked() {
        let mut random = Random(1);
        let mut out = Vec::new();
        for len in [1, 3, 12, 28, 1472] {
            let packet = genuine(len);
            assert!(is_genuine(&packet));
            for _ in 0..50 {
                for kind in Kind::ALL {
                    forge(kind, &packet, &mut random, &mut out);
                    assert_eq!((out[8], is_genuine(&out)), (TTL_MARK, false), "{kind:?} of {len}");
                    assert_eq!(usize::from(u16::from_be_bytes([out[2], out[3]])), out.len());
                    assert_eq!(usize::from(u16::from_be_bytes([out[24], out[25]])), out.len() - IPV4_HEADER);
                    let (same_source, same_payload) =
                        (out[12..16] == packet[12..16], out[PAYLOAD..] == packet[PAYLOAD..]);
                    let expected = match kind {
                        Kind::Replayed => (true, true),
                        Kind::Elsewhere => (false, true),
                        // Few bytes of noise may be the bytes that were there.
                        Kind::Noise | Kind::MadeUp if len < 28 => (true, same_payload),
                        Kind::Flipped | Kind::Truncated | Kind::MadeUp | Kind::Noise => (true, false),
                    };
                    assert_eq!((same_source, same_payload), expected, "{kind:?} of {len}");
                    assert_eq!(out.len() < packet.len(), kind == Kind::Truncated, "{kind:?} of {len}");
                }
            }
        }
    }

    #[test]
    fn other_protocols_and_torn_packets_are_not_captured() {
        let packet = genuine(100);
        let with = |at: usize, byte: u8| {
            let mut packet = packet.clone();
            packet[at] = byte;
            packet
        };
        for other in [with(9, 6), with(0, 0x46), with(8, TTL_MARK), packet[..60].to_vec(), Vec::new()] {
            assert!(!is_genuine(&other), "{other:?}");
        }
    }
}
