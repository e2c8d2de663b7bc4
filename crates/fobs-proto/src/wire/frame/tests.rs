use super::*;
use crate::wire::HostReport;
use proptest::prelude::*;

/// A header, and how many bytes its frame has.
fn framed() -> impl Strategy<Value = (FrameHeader, usize)> {
    let bits = (any::<bool>(), any::<bool>(), 0..=ATTEMPT_MAX);
    (any::<u32>(), any::<u16>(), PAYLOAD_MIN..=PAYLOAD_MAX, any::<u16>(), any::<u16>(), bits).prop_map(
        |(chunk, index, payload_size, packets, short, (last, final_chunk, attempt))| {
            let most = CHUNK_LEN_MAX.div_ceil(u32::from(payload_size)) as u16;
            let packet_index = index % most;
            let room = (FRAME_DATA_MAX / usize::from(payload_size)).min(usize::from(most - packet_index));
            let packets = 1 + packets % room as u16;
            let short = if last { usize::from(short % payload_size) } else { 0 };
            let first = DataHeader { chunk, packet_index, payload_size, attempt, last, final_chunk };
            (FrameHeader { first, packets }, usize::from(packets) * usize::from(payload_size) - short)
        },
    )
}

proptest! {
    #[test]
    fn data_frames_round_trip((header, len) in framed()) {
        let mut bytes = vec![7u8; FRAME_HEADER_LEN + len];
        prop_assert_eq!(header.encode(&mut bytes), FRAME_HEADER_LEN);
        prop_assert!(bytes.len() <= FRAME_LEN_MAX);
        prop_assert_eq!(Frame::decode(&bytes), Ok(Frame::Data(header, &bytes[FRAME_HEADER_LEN..])));
        bytes.push(0);
        prop_assert_eq!(
            Frame::decode(&bytes).is_err(),
            header.check(len + 1).is_err(),
            "a byte more is refused unless the last packet has room for it"
        );
    }

    #[test]
    fn packets_tile_the_frame((header, len) in framed()) {
        let mut at = 0;
        for (place, (packet, range)) in header.packets(len).enumerate() {
            prop_assert_eq!(range.start, at);
            prop_assert!(!range.is_empty());
            at = range.end;
            let is_end = place + 1 == usize::from(header.packets);
            prop_assert_eq!(usize::from(packet.packet_index), usize::from(header.first.packet_index) + place);
            prop_assert_eq!(packet.last, header.first.last && is_end);
            prop_assert!(packet.last || range.len() == usize::from(packet.payload_size));
            prop_assert_eq!(packet.final_chunk, header.first.final_chunk);
        }
        prop_assert_eq!(at, len);
        prop_assert_eq!(header.packets(len).count(), usize::from(header.packets));
    }

    #[test]
    fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        match Frame::decode(&bytes) {
            Ok(Frame::Data(header, data)) => {
                prop_assert_eq!(header.packets(data.len()).map(|(_, range)| range.len()).sum::<usize>(), data.len());
                let mut again = [0; FRAME_HEADER_LEN];
                header.encode(&mut again);
                prop_assert_eq!(&again[..], &bytes[..FRAME_HEADER_LEN]);
            }
            Ok(Frame::Report(report)) => {
                let mut again = Vec::new();
                report.encode(&mut again);
                prop_assert_eq!(&again[..REPORT_HEADER_LEN], &bytes[..REPORT_HEADER_LEN]);
            }
            Err(_) => {}
        }
    }

    /// Headers near the bounds, with any length of data.
    #[test]
    fn edge_headers_are_safe(index: u16, payload: u16, packets: u16, flags in 0u8..32, len in 0usize..70_000) {
        let mut bytes = vec![0; FRAME_HEADER_LEN + len];
        bytes[1] = flags;
        bytes[6..8].copy_from_slice(&index.to_be_bytes());
        bytes[8..10].copy_from_slice(&payload.to_be_bytes());
        bytes[10..12].copy_from_slice(&packets.to_be_bytes());
        if let Ok(Frame::Data(header, data)) = Frame::decode(&bytes) {
            prop_assert!(data.len() <= FRAME_DATA_MAX);
            for (packet, range) in header.packets(data.len()) {
                let begin = u32::from(packet.packet_index) * u32::from(packet.payload_size);
                prop_assert!(begin < CHUNK_LEN_MAX && !range.is_empty());
            }
        }
    }
}

#[test]
fn a_cut_record_is_refused_at_every_byte() {
    let first = DataHeader {
        chunk: 7,
        packet_index: 3,
        payload_size: 512,
        attempt: 1,
        last: false,
        final_chunk: true,
    };
    let header = FrameHeader { first, packets: 2 };
    let mut bytes = vec![9; FRAME_HEADER_LEN + 1024];
    header.encode(&mut bytes);
    for len in 0..bytes.len() {
        assert!(Frame::decode(&bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(Frame::decode(&bytes).is_ok());
}

#[test]
fn reports_round_trip_with_and_without_an_ack() {
    let ack = Ack {
        largest: Some(9),
        ranges: vec![(4, 9)],
        chunk_limit: 12,
        verified_below: 3,
        host: HostReport { dropped: Some(1), lag: None },
        ..Ack::default()
    };
    for ack in [None, Some(Ack::default()), Some(ack)] {
        let report = FrameReport { delivered: 1 << 40, ack };
        let mut bytes = Vec::new();
        report.encode(&mut bytes);
        assert!(bytes.len() <= FRAME_LEN_MAX);
        assert_eq!(Frame::decode(&bytes), Ok(Frame::Report(report)));
    }
    assert_eq!(Frame::decode(&[1, 0, 0]), Err(WireError::Truncated));
    assert_eq!(Frame::decode(&[2]), Err(WireError::Unknown));
    assert_eq!(Frame::decode(&[]), Err(WireError::Truncated));
}

#[test]
fn headers_beyond_the_longest_chunk_are_refused() {
    let first = DataHeader {
        chunk: 0,
        packet_index: (CHUNK_LEN_MAX / 512) as u16,
        payload_size: 512,
        attempt: 0,
        last: true,
        final_chunk: false,
    };
    let decode = |header: FrameHeader| {
        let mut bytes = [0; FRAME_HEADER_LEN];
        header.encode(&mut bytes);
        FrameHeader::decode(&bytes)
    };
    assert!(decode(FrameHeader { first, packets: 1 }).is_ok());
    assert_eq!(decode(FrameHeader { first, packets: 2 }), Err(WireError::OutOfBounds));
    assert_eq!(decode(FrameHeader { first, packets: 0 }), Err(WireError::OutOfBounds));
    let start = DataHeader { packet_index: 0, ..first };
    assert!(decode(FrameHeader { first: start, packets: 128 }).is_ok());
    assert_eq!(decode(FrameHeader { first: start, packets: 129 }), Err(WireError::OutOfBounds));
    assert_eq!(decode(FrameHeader { first: start, packets: u16::MAX }), Err(WireError::OutOfBounds));
}
