use proptest::prelude::*;

use super::*;
use crate::link::packet::sample::{self, ACK, PSH_ACK, Sample, received};

const VERSIONS: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];
const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Udp];

fn keep(store: &mut Store, frame: &[u8]) -> FrameId {
    let layout = Layout::parse(frame).expect("a frame");
    store.room().expect("room")[..frame.len()].copy_from_slice(frame);
    let id = store.next_id();
    store.keep(frame.len(), layout, layout.count());
    id
}

fn written(store: &Store, train: &Train) -> Vec<u8> {
    let mut headers = [0; VNET_BYTES + HEADERS_MAX];
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let used = train.slices(store, &mut headers, &mut slices);
    slices[..used].iter().flat_map(|slice| slice.to_vec()).collect()
}

/// The frames written if all segments are added to trains in order, as they fit.
fn trains(merging: Merging, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut store = Store::new(8 << 20);
    let ids: Vec<FrameId> = frames.iter().map(|frame| keep(&mut store, frame)).collect();
    let segments = ids.iter().flat_map(|&frame| {
        let count = store.frame(frame).0.count();
        (0..count).map(move |index| Segment { frame, index })
    });
    let mut train = Train::new(merging);
    let mut out = Vec::new();
    for segment in segments {
        if !train.try_add(&store, segment) {
            out.push(written(&store, &train));
            train.clear();
            assert!(train.try_add(&store, segment), "an empty train takes any");
        }
    }
    out.push(written(&store, &train));
    out
}

/// What a receiver sees of frames; super-packets are cut one segment at a time.
fn seen(frames: &[Vec<u8>]) -> Vec<(u32, u8, Vec<u8>)> {
    trains(Merging::Nothing, frames).iter().map(|frame| received(frame)).collect()
}

#[test]
fn a_super_packet_is_cut_as_a_network_card_does() {
    for version in VERSIONS {
        let mut sample = Sample::new(version, Transport::Tcp, 4000, Some(1448));
        sample.flags = PSH_ACK | sample::CWR;
        let seen = seen(&[sample.frame()]);
        let sequences: Vec<u32> =
            seen.iter().map(|(sequence, ..)| sequence.wrapping_sub(sample.sequence)).collect();
        assert_eq!(sequences, [0, 1448, 2896]);
        let flags: Vec<u8> = seen.iter().map(|&(_, flags, _)| flags).collect();
        assert_eq!(flags, [ACK | sample::CWR, ACK, PSH_ACK]);
        assert_eq!(seen.iter().flat_map(|(.., payload)| payload.clone()).collect::<Vec<_>>(), sample.payload);
    }
}

#[test]
fn contiguous_segments_leave_unchanged() {
    for version in VERSIONS {
        for transport in TRANSPORTS {
            let frame = Sample::new(version, transport, 20_000, Some(1400)).frame();
            assert_eq!(trains(Merging::TcpAndUdp, std::slice::from_ref(&frame)), [frame]);
        }
    }
}

#[test]
fn consecutive_packets_merge_into_a_super_packet() {
    for version in VERSIONS {
        for transport in TRANSPORTS {
            let whole = Sample::new(version, transport, 5000, Some(1400));
            let single = |index: usize| Sample {
                payload: whole.payload[index * 1400..5000.min((index + 1) * 1400)].to_vec(),
                segment: None,
                sequence: whole.sequence.wrapping_add(index as u32 * 1400),
                ..whole.clone()
            };
            let singles: Vec<Vec<u8>> = (0..4).map(|index| single(index).frame()).collect();
            let merged = trains(Merging::TcpAndUdp, &singles);
            assert_eq!(merged, [whole.frame()], "{version:?} {transport:?}");
            let apart = trains(Merging::Nothing, &singles);
            assert_eq!(apart, singles);
        }
    }
}

#[test]
fn packets_that_differ_are_not_merged() {
    let base = Sample::new(IpVersion::V4, Transport::Tcp, 1000, None);
    let next = Sample { sequence: base.sequence.wrapping_add(1000), ..base.clone() };
    let count = |samples: &[Sample]| {
        trains(Merging::TcpAndUdp, &samples.iter().map(Sample::frame).collect::<Vec<_>>()).len()
    };
    assert_eq!(count(&[base.clone(), next.clone()]), 1);
    assert_eq!(count(&[base.clone(), base.clone()]), 2, "the same sequence number");
    assert_eq!(count(&[base.clone(), Sample { port: 5002, ..next.clone() }]), 2, "another flow");
    assert_eq!(count(&[base.clone(), Sample { flags: 0x12, ..next.clone() }]), 2, "SYN");
    assert_eq!(count(&[Sample { flags: PSH_ACK, ..base.clone() }, next.clone()]), 2, "behind PSH");
    assert_eq!(count(&[base.clone(), Sample { flags: ACK | sample::CWR, ..next.clone() }]), 2, "CWR");
    let longer = Sample { payload: vec![0; 1001], ..next.clone() };
    assert_eq!(count(&[base.clone(), longer]), 2, "only the last may differ, and be shorter");
    let shorter = Sample { payload: vec![0; 999], ..next.clone() };
    let after = Sample { sequence: next.sequence.wrapping_add(999), ..next.clone() };
    assert_eq!(count(&[base.clone(), shorter, after]), 2, "behind a shorter one");
    let empty = Sample { payload: Vec::new(), ..base.clone() };
    assert_eq!(count(&[empty.clone(), empty]), 2, "pure acks");
}

#[test]
fn the_longest_train_is_a_packet() {
    let udp: Vec<Vec<u8>> =
        (0..200).map(|_| Sample::new(IpVersion::V4, Transport::Udp, 1472, None).frame()).collect();
    let lengths: Vec<usize> = trains(Merging::TcpAndUdp, &udp).iter().map(Vec::len).collect();
    assert_eq!(lengths[0], VNET_BYTES + 28 + 44 * 1472, "65,535 bytes hold 44");
    let small: Vec<Vec<u8>> =
        (0..200).map(|_| Sample::new(IpVersion::V4, Transport::Udp, 10, None).frame()).collect();
    assert_eq!(trains(Merging::TcpAndUdp, &small)[0].len(), VNET_BYTES + 28 + 64 * 10);
}

#[test]
fn damage_flips_one_bit_and_breaks_the_checksum() {
    for version in VERSIONS {
        for transport in TRANSPORTS {
            let frame = Sample::new(version, transport, 4001, Some(1400)).frame();
            let layout = Layout::parse(&frame).expect("a super-packet");
            let mut clean = seen(std::slice::from_ref(&frame));
            for (index, (_, _, payload)) in (0u32..).zip(&mut clean) {
                let which = 12_345 + index;
                let mut out = Vec::new();
                damaged(&layout, &frame, index, which, &mut out);
                let bad = std::panic::catch_unwind(|| received(&out));
                assert!(bad.is_err(), "the checksum is wrong");
                // With the bit restored, the packet is correct.
                let at = out.len() - payload.len() + which as usize / 8 % payload.len();
                out[at] ^= 1 << (which % 8);
                assert_eq!(&received(&out).2, payload);
            }
        }
    }
}

proptest! {
    /// Cutting and merging does not change the packets that a receiver sees.
    #[test]
    fn merging_changes_nothing_for_the_receiver(
        v6 in any::<bool>(),
        udp in any::<bool>(),
        frames in proptest::collection::vec((1usize..9000, proptest::option::of(1u16..3000), 0u32..2), 1..20),
    ) {
        let version = VERSIONS[usize::from(v6)];
        let transport = TRANSPORTS[usize::from(udp)];
        let mut sequence = 0xffff_0000u32;
        let frames: Vec<Vec<u8>> = frames
            .into_iter()
            .map(|(bytes, segment, gap)| {
                // The kernel makes no super-packet of one segment, and none of more than 4096.
                let segment = segment.map(|size| size.max(3)).filter(|&size| usize::from(size) < bytes);
                let mut sample = Sample::new(version, transport, bytes, segment);
                sequence = sequence.wrapping_add(gap);
                sample.sequence = sequence;
                sequence = sequence.wrapping_add(bytes as u32);
                sample.frame()
            })
            .collect();
        let merged = trains(Merging::TcpAndUdp, &frames);
        prop_assert!(merged.len() <= frames.len() || transport == Transport::Udp);
        for frame in &merged {
            prop_assert!(Layout::parse(frame).is_ok());
        }
        prop_assert_eq!(seen(&merged), seen(&frames));
    }
}
