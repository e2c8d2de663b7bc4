//! Datagrams: the header, and the body of an ack.

use fobs_proto::object::CHUNK_LEN_MAX;
use fobs_proto::wire::{
    ACK_LEN_MAX, Ack, BITMAPS_MAX, DATA_HEADER_LEN, Header, RANGES_MAX, decode_packet_number,
};

/// A datagram: what is read of its header is what was written, and lies inside a chunk.
pub(super) fn datagram(input: &[u8]) {
    let Ok((header, truncated)) = Header::decode(input) else { return };
    let mut again = [0; DATA_HEADER_LEN];
    let len = header.encode(u64::from(truncated), &mut again);
    assert_eq!(again[..len], input[..len]);
    if let Header::Data(data) = header {
        assert!(u32::from(data.packet_index) * u32::from(data.payload_size) < CHUNK_LEN_MAX);
    }
    for expected in [0, 1 << 23, 1 << 24, (1 << 62) - 1] {
        let number = decode_packet_number(truncated, expected);
        assert_eq!(number & 0xff_ffff, u64::from(truncated));
        assert!(number.abs_diff(expected) <= 1 << 24);
    }
    ack(&input[len..]);
}

/// The body of an ack: bounded, its ranges in order, and the same when it is written again.
pub(super) fn ack(input: &[u8]) {
    let Ok(ack) = Ack::decode(input) else { return };
    assert!(ack.ranges.len() <= RANGES_MAX && ack.bitmaps.len() <= BITMAPS_MAX);
    assert!(ack.ranges.iter().all(|(low, high)| low <= high));
    assert!(ack.ranges.windows(2).all(|pair| pair[1].1 + 1 < pair[0].0));
    assert_eq!(ack.largest, ack.ranges.first().map(|(_, high)| *high));
    let mut bytes = Vec::new();
    ack.encode(&mut bytes);
    assert!(bytes.len() <= ACK_LEN_MAX);
    let again = Ack::decode(&bytes).expect("our own acks can be read");
    assert_eq!(again.ranges[..], ack.ranges[..again.ranges.len()]);
    assert_eq!(again.bitmaps[..], ack.bitmaps[..again.bitmaps.len()]);
    let (ranges, bitmaps) = (again.ranges.clone(), again.bitmaps.clone());
    assert_eq!(again, Ack { ranges, bitmaps, ..ack });
}
