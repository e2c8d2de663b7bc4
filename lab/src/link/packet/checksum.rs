//! The Internet checksum (RFC 1071) and pseudo-header sums (RFC 9293 section 3.1, RFC 8200 section 8.1).

use super::IpVersion;

/// Ones' complement sum of big-endian words, not folded; an odd last byte is the high byte of a word.
pub fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |&byte| u64::from(byte) << 8);
    words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>() + last
}

/// Folds a sum to 16 bits.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Sum of the pseudo header of `packet`, with `bytes` of transport header and payload.
pub fn pseudo(packet: &[u8], version: IpVersion, protocol: u8, bytes: u32) -> u64 {
    let addresses = match version {
        IpVersion::V4 => packet.get(12..20),
        IpVersion::V6 => packet.get(8..40),
    };
    sum(addresses.unwrap_or_default()) + u64::from(protocol) + u64::from(bytes)
}
