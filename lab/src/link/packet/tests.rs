use proptest::prelude::*;

use super::sample::Sample;
use super::*;

#[test]
fn a_super_packet_is_as_many_packets_as_its_payload_needs() {
    for (version, headers) in [(IpVersion::V4, 52), (IpVersion::V6, 72)] {
        let frame = Sample::new(version, Transport::Tcp, 10_000, Some(1448)).frame();
        let layout = Layout::parse(&frame).expect("a super-packet");
        assert_eq!((layout.version, layout.protocol, layout.count()), (version, Protocol::Tcp, 7));
        assert!(layout.ports.is_some());
        assert_eq!(layout.source, Station(Some((0, 1))));
        assert_eq!(layout.destination, Station(Some((1, 1))));
        assert_eq!(layout.wire_bytes(0), headers + 1448);
        assert_eq!(layout.wire_bytes(6), headers + 10_000 - 6 * 1448);
    }
    let frame = Sample::new(IpVersion::V4, Transport::Udp, 2944, Some(1472)).frame();
    let layout = Layout::parse(&frame).expect("a super-packet");
    assert_eq!((layout.protocol, layout.count(), layout.wire_bytes(1)), (Protocol::Udp, 2, 1500));
}

#[test]
fn frames_that_cannot_be_cut_are_unchanged() {
    // An echo request: its checksum is complete.
    let mut ping = vec![0; VNET_BYTES];
    ping.extend([
        0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 1, 0, 0, 10, 77, 0, 1, 10, 77, 1, 2, 8, 0, 0, 0, 0, 0, 0, 0,
    ]);
    let layout = Layout::parse(&ping).expect("IP");
    assert_eq!((layout.protocol, layout.form, layout.count()), (Protocol::Icmp, Form::Opaque, 1));
    assert_eq!((layout.destination, layout.wire_bytes(0)), (Station(Some((1, 2))), 28));
    // A fragment of a datagram has no UDP header.
    let mut fragment = Sample::new(IpVersion::V4, Transport::Udp, 100, None).frame();
    fragment[VNET_BYTES + 6] = 0x20;
    assert_eq!(Layout::parse(&fragment).expect("IP").form, Form::Opaque);
}

#[test]
fn inconsistent_frames_are_refused() {
    let good = Sample::new(IpVersion::V4, Transport::Tcp, 3000, Some(1448)).frame();
    let spoiled = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        Layout::parse(&frame)
    };
    assert!(Layout::parse(&good[..9]).is_err() && Layout::parse(&good[..40]).is_err());
    assert!(spoiled(VNET_BYTES, 0x75).is_err(), "no such version");
    assert!(spoiled(VNET_BYTES, 0x44).is_err(), "a header of 16 bytes");
    assert!(spoiled(0, 0).is_err(), "no place of the checksum");
    assert!(spoiled(1, 3).is_err(), "UFO was not asked for");
    assert!(spoiled(5, 0).is_ok() && Layout::parse(&[&good[..4], &[0, 0], &good[6..]].concat()).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), gso in 0u8..7) {
        let _ = Layout::parse(&bytes);
        // More often bytes that look like a packet.
        if bytes.len() > 70 {
            bytes[0] = 1;
            bytes[1] = gso;
            bytes[VNET_BYTES] = 0x45;
            let total = (bytes.len() - VNET_BYTES) as u16;
            bytes[VNET_BYTES + 2..VNET_BYTES + 4].copy_from_slice(&total.to_be_bytes());
            bytes[VNET_BYTES + 6..VNET_BYTES + 8].fill(0);
            bytes[6..8].copy_from_slice(&20u16.to_ne_bytes());
            if let Ok(layout) = Layout::parse(&bytes) {
                let wire: u32 = (0..layout.count()).map(|index| layout.wire_bytes(index)).sum();
                prop_assert!(wire >= layout.total);
            }
        }
    }
}
