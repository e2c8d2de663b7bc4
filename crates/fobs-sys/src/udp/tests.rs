//! Tests over the kernel's loopback interface, IPv4 and, where available, IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use super::socket::{SEGMENTS_MAX, set_int};
use super::*;
use crate::clock::monotonic_ns;
use crate::wait::{Interest, Ready, Waker, wait};

/// Timeout, far above any loopback delay: it ends a test that has lost a datagram.
const PATIENCE: Duration = Duration::from_secs(20);
/// Seed of the payload bytes, printed on failure.
const SEED: u64 = 0x0b5e_55ed;

fn options(gro: bool) -> UdpOptions {
    UdpOptions { recv_buffer: 4 << 20, send_buffer: 4 << 20, gro }
}

fn bind(ip: IpAddr, gro: bool) -> UdpSocket {
    UdpSocket::bind(SocketAddr::new(ip, 0), &options(gro)).unwrap()
}

/// Loopback addresses of this host: 127.0.0.1, and ::1 where there is IPv6.
fn loopbacks() -> Vec<IpAddr> {
    let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
    match UdpSocket::bind(SocketAddr::new(v6, 0), &options(false)) {
        Ok(_) => vec![Ipv4Addr::LOCALHOST.into(), v6],
        Err(error) => {
            eprintln!("skipped for IPv6: {error}");
            vec![Ipv4Addr::LOCALHOST.into()]
        }
    }
}

/// `len` bytes that differ between streams.
fn payload(stream: u64, len: usize) -> Vec<u8> {
    let mut state = SEED ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Sends a whole burst and returns the number of calls.
fn send_all(socket: &UdpSocket, burst: Burst<'_>) -> usize {
    let datagrams = burst.data.len().div_ceil(burst.segment_len);
    let (mut sent, mut calls) = (0, 0);
    while sent < datagrams {
        let rest = Burst { data: &burst.data[sent * burst.segment_len..], ..burst };
        match socket.send(&rest) {
            Ok(0) => panic!("nothing sent of {} bytes and no error", rest.data.len()),
            Ok(count) => sent += count,
            Err(SendError::WouldBlock) => {
                let waker = Waker::new().unwrap();
                wait(socket, &waker, Some(PATIENCE), Interest::ReadableOrWritable).unwrap();
            }
            Err(error) => panic!("{error}: {error:?}"),
        }
        calls += 1;
    }
    assert_eq!(sent, datagrams);
    calls
}

/// An owned datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    from: SocketAddr,
    data: Vec<u8>,
    ecn: Ecn,
}

/// Receives at least `count` datagrams (the last batch may have more).
fn receive(socket: &UdpSocket, batch: &mut RecvBatch, count: usize) -> Vec<Seen> {
    let waker = Waker::new().unwrap();
    let mut seen = Vec::new();
    while seen.len() < count {
        let announced = socket.recv(batch).unwrap();
        if announced == 0 {
            let ready = wait(socket, &waker, Some(PATIENCE), Interest::Readable).unwrap();
            assert!(ready.readable, "{} of {count} datagrams arrived", seen.len());
        }
        let before = seen.len();
        batch.for_each(|datagram| {
            seen.push(Seen { from: datagram.from, data: datagram.data.to_vec(), ecn: datagram.ecn });
        });
        assert_eq!(seen.len() - before, announced);
    }
    seen
}

/// The datagrams of a burst as the receiver must see them.
fn expected(from: SocketAddr, burst: &Burst<'_>) -> Vec<Seen> {
    let datagrams = burst.data.chunks(burst.segment_len);
    datagrams.map(|data| Seen { from, data: data.to_vec(), ecn: burst.ecn }).collect()
}

/// How the datagrams of a burst are sent and received.
#[derive(Debug, Clone, Copy)]
struct Setup {
    segmented: bool,
    gro: bool,
}

const SETUPS: [Setup; 4] = [
    Setup { segmented: true, gro: true },
    Setup { segmented: true, gro: false },
    Setup { segmented: false, gro: true },
    Setup { segmented: false, gro: false },
];

#[test]
fn bursts_of_every_shape_arrive_unchanged() {
    // (bytes, bytes per datagram)
    let shapes = [
        (1, 1),
        (1200, 1200),
        (700, 1200),
        (64, 1),
        (64 * 1000, 1000),
        (63 * 1000 + 1, 1000),
        (65 * 500, 500),
        (1000 * 20 + 7, 20),
        (44 * 1472, 1472),
        (44 * 1472 + 900, 1472),
        (200 * 1472 + 1, 1472),
        (3 * 32_753, 32_753),
        (2 * 32_754, 32_754),
        (9000 * 30 + 5, 9000),
        // The largest over IPv6 on a loopback of 65,536 bytes.
        (2 * 65_488, 65_488),
        // The largest of IPv4; skipped for IPv6.
        (2 * 65_507, 65_507),
    ];
    for ip in loopbacks() {
        let shapes = if ip.is_ipv4() { &shapes[..] } else { &shapes[..shapes.len() - 1] };
        for setup in SETUPS {
            let (sender, receiver) = (bind(ip, false), bind(ip, setup.gro));
            assert_eq!(
                sender.segments_max(),
                SEGMENTS_MAX,
                "this kernel has no GSO: Linux 4.18 or later is needed"
            );
            if !setup.segmented {
                sender.disable_segmentation();
                assert_eq!(sender.segments_max(), 1);
            }
            let mut batch = RecvBatch::default();
            for (index, (len, segment_len)) in shapes.iter().copied().enumerate() {
                let data = payload(index as u64, len);
                let burst = Burst { to: receiver.local_addr(), data: &data, segment_len, ecn: Ecn::Ect0 };
                send_all(&sender, burst);
                let wanted = expected(sender.local_addr(), &burst);
                let seen = receive(&receiver, &mut batch, wanted.len());
                assert!(seen == wanted, "{ip}, {setup:?}, {len} bytes of {segment_len}, seed {SEED:#x}");
            }
            assert_eq!(receiver.recv(&mut batch).unwrap(), 0, "{ip}, {setup:?}: more came than was sent");
            assert_eq!(batch.datagrams().count(), 0);
            assert_eq!(receiver.socket_drops().unwrap(), 0);
            assert_eq!((batch.drops(), batch.truncated()), (None, 0));
            assert_eq!(sender.segments_max(), if setup.segmented { SEGMENTS_MAX } else { 1 });
        }
    }
}

#[test]
fn merged_datagrams_come_in_one_slot() {
    for ip in loopbacks() {
        let (sender, receiver) = (bind(ip, false), bind(ip, true));
        let data = payload(1, 40 * 1000 + 10);
        let burst = Burst { to: receiver.local_addr(), data: &data, segment_len: 1000, ecn: Ecn::NotEct };
        send_all(&sender, burst);
        // One slot only: all 41 fit if and only if the kernel merged them.
        let mut batch = RecvBatch::new(1);
        let waker = Waker::new().unwrap();
        assert!(wait(&receiver, &waker, Some(PATIENCE), Interest::Readable).unwrap().readable);
        assert_eq!(receiver.recv(&mut batch).unwrap(), 41, "{ip}");
        let lens: Vec<usize> = batch.datagrams().map(|datagram| datagram.data.len()).collect();
        assert_eq!(lens, [vec![1000; 40], vec![10]].concat());
    }
}

#[test]
fn every_ecn_mark_is_delivered() {
    for ip in loopbacks() {
        for setup in SETUPS {
            let (sender, receiver) = (bind(ip, false), bind(ip, setup.gro));
            if !setup.segmented {
                sender.disable_segmentation();
            }
            for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
                assert_eq!(Ecn::from_traffic_class(0xfc | ecn.to_bits()), ecn);
                let data = payload(2, 3000);
                let burst = Burst { to: receiver.local_addr(), data: &data, segment_len: 1000, ecn };
                send_all(&sender, burst);
                let seen = receive(&receiver, &mut RecvBatch::default(), 3);
                assert!(seen.iter().all(|seen| seen.ecn == ecn), "{ip}, {setup:?}, {ecn:?}: {seen:?}");
            }
        }
    }
}

#[test]
fn refused_gso_is_disabled_without_losing_datagrams() {
    let ip = Ipv4Addr::LOCALHOST.into();
    let (sender, receiver) = (bind(ip, false), bind(ip, false));
    // The kernel refuses to segment without checksums: EINVAL.
    set_int(sender.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    let data = payload(3, 130 * 1200 + 5);
    let burst = Burst { to: receiver.local_addr(), data: &data, segment_len: 1200, ecn: Ecn::Ect0 };
    assert_eq!(sender.segments_max(), SEGMENTS_MAX);
    send_all(&sender, burst);
    assert_eq!(sender.segments_max(), 1);
    let seen = receive(&receiver, &mut RecvBatch::default(), 131);
    assert!(seen == expected(sender.local_addr(), &burst), "seed {SEED:#x}");
}

#[test]
fn misuse_and_oversize_are_errors_and_keep_gso() {
    for ip in loopbacks() {
        let (sender, receiver) = (bind(ip, false), bind(ip, false));
        let to = receiver.local_addr();
        let data = payload(4, 3 * 66_000);
        let send = |to, data, segment_len| sender.send(&Burst { to, data, segment_len, ecn: Ecn::NotEct });
        assert_eq!(send(to, &[], 1200).unwrap(), 0);
        assert!(matches!(send(to, &data, 0), Err(SendError::Io(_))));
        for segment_len in [65_536, 66_000, usize::MAX] {
            let result = send(to, &data, segment_len);
            assert!(matches!(result, Err(SendError::TooLarge)), "{ip}, {segment_len}: {result:?}");
        }
        // Port 0 is not a destination: EINVAL, which a device without GSO returns, too.
        let nowhere = SocketAddr::new(ip, 0);
        assert!(matches!(send(nowhere, &data[..2400], 1200), Err(SendError::Io(_))), "{ip}");
        let other_family: IpAddr = match ip {
            IpAddr::V4(_) => Ipv6Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv4Addr::LOCALHOST.into(),
        };
        let result = send(SocketAddr::new(other_family, 9), &data[..2400], 1200);
        assert!(matches!(result, Err(SendError::Io(_) | SendError::Refused)), "{ip}: {result:?}");
        assert_eq!(sender.segments_max(), SEGMENTS_MAX);
        // No state remains: the socket works and is not permanently "ready".
        assert_eq!(send(to, &data[..1200], 1200).unwrap(), 1);
        assert_eq!(receive(&receiver, &mut RecvBatch::default(), 1)[0].data, data[..1200]);
        let ready = wait(&sender, &Waker::new().unwrap(), Some(Duration::ZERO), Interest::Readable).unwrap();
        assert_eq!(ready, Ready::default(), "{ip}");
    }
}

#[test]
fn icmp_errors_of_one_peer_do_not_affect_another() {
    for ip in loopbacks() {
        let (sender, receiver) = (bind(ip, false), bind(ip, false));
        // tcpmux, without a UDP server; a free port could be another test's by now.
        let gone = SocketAddr::new(ip, 1);
        let (mut batch, waker) = (RecvBatch::default(), Waker::new().unwrap());
        for round in 0..100 {
            let data = payload(round, 2 * 600);
            let to_gone = Burst { to: gone, data: &data[..600], segment_len: 600, ecn: Ecn::NotEct };
            // "Port unreachable" is pending after this, for the next send in even rounds, for recv in odd
            // ones.
            assert_eq!(sender.send(&to_gone).unwrap(), 1, "{ip}, round {round}");
            if round % 2 == 1 {
                assert_eq!(sender.recv(&mut batch).unwrap(), 0, "{ip}, round {round}");
            }
            let burst = Burst { to: receiver.local_addr(), data: &data, ..to_gone };
            assert_eq!(sender.send(&burst).unwrap(), 2, "{ip}, round {round}");
            let seen = receive(&receiver, &mut batch, 2);
            assert!(seen == expected(sender.local_addr(), &burst), "{ip}, round {round}, seed {SEED:#x}");
        }
        assert_eq!(sender.segments_max(), SEGMENTS_MAX, "{ip}");
        // Pending errors end the readiness that they cause.
        let to_gone = Burst { to: gone, data: b"x", segment_len: 1, ecn: Ecn::NotEct };
        for _ in 0..10 {
            sender.send(&to_gone).unwrap();
        }
        wait(&sender, &waker, Some(Duration::ZERO), Interest::Readable).unwrap();
        assert_eq!(sender.recv(&mut batch).unwrap(), 0);
        let ready = wait(&sender, &waker, Some(Duration::ZERO), Interest::Readable).unwrap();
        assert_eq!(ready, Ready::default(), "{ip}");
    }
}

#[test]
fn drops_equal_datagrams_sent_less_received() {
    const SENT: usize = 4000;
    for ip in loopbacks() {
        let small = UdpOptions { recv_buffer: 128 << 10, send_buffer: 4 << 20, gro: false };
        let receiver = UdpSocket::bind(SocketAddr::new(ip, 0), &small).unwrap();
        let sender = bind(ip, false);
        let data = payload(5, SENT * 1000);
        let burst = Burst { to: receiver.local_addr(), data: &data, segment_len: 1000, ecn: Ecn::NotEct };
        send_all(&sender, burst);
        // All datagrams are delivered or dropped once their sum is complete.
        let (mut batch, waker) = (RecvBatch::default(), Waker::new().unwrap());
        let mut received = 0;
        let mut drops = 0;
        let deadline_ns = monotonic_ns() + PATIENCE.as_nanos() as u64;
        while received + (drops as usize) < SENT && monotonic_ns() < deadline_ns {
            wait(&receiver, &waker, Some(Duration::from_millis(10)), Interest::Readable).unwrap();
            received += receiver.recv(&mut batch).unwrap();
            drops = receiver.socket_drops().unwrap();
        }
        assert!(receiver.counts_drops(), "{ip}: Linux does since 2.6.33");
        assert!(drops > 0, "{ip}: 4 MB fitted into {} bytes of buffer", receiver.recv_buffer());
        assert_eq!(received + drops as usize, SENT, "{ip}");
        // The next datagram carries the count of all drops before it.
        send_all(&sender, Burst { data: &data[..1000], ..burst });
        receive(&receiver, &mut batch, 1);
        assert_eq!(batch.drops(), Some(drops), "{ip}");
        assert_eq!(batch.truncated(), 0);
    }
}

#[test]
fn truncated_datagrams_are_dropped_and_counted() {
    let ip = Ipv4Addr::LOCALHOST.into();
    let (sender, receiver) = (bind(ip, false), bind(ip, false));
    sender.disable_segmentation();
    let mut batch = RecvBatch::with_slot_len(4, 1000);
    let data = payload(6, 2000);
    let send = |len| {
        let burst =
            Burst { to: receiver.local_addr(), data: &data[..len], segment_len: len, ecn: Ecn::NotEct };
        send_all(&sender, burst)
    };
    // A whole batch of truncated ones first: recv continues to usable ones.
    for len in [1001, 1500, 1999, 2000, 1000, 1001, 7] {
        send(len);
    }
    let lens: Vec<usize> = receive(&receiver, &mut batch, 2).iter().map(|seen| seen.data.len()).collect();
    assert_eq!(lens, [1000, 7]);
    assert_eq!(batch.truncated(), 5);
}

#[test]
fn an_empty_datagram_is_a_datagram() {
    for ip in loopbacks() {
        for gro in [true, false] {
            let receiver = bind(ip, gro);
            let sender = std::net::UdpSocket::bind(SocketAddr::new(ip, 0)).unwrap();
            sender.send_to(&[], receiver.local_addr()).unwrap();
            sender.send_to(b"after", receiver.local_addr()).unwrap();
            let seen = receive(&receiver, &mut RecvBatch::default(), 2);
            assert_eq!((seen[0].data.as_slice(), seen[1].data.as_slice()), (&b""[..], &b"after"[..]));
        }
    }
}

#[test]
fn arrival_stamps_lie_between_sending_and_receiving() {
    for ip in loopbacks() {
        for setup in SETUPS {
            let (sender, receiver) = (bind(ip, false), bind(ip, setup.gro));
            let (mut batch, waker) = (RecvBatch::default(), Waker::new().unwrap());
            let data = payload(7, 5000);
            let burst = Burst { to: receiver.local_addr(), data: &data, segment_len: 1000, ecn: Ecn::NotEct };
            let before_ns = monotonic_ns();
            send_all(&sender, burst);
            let mut count = 0;
            while count < 5 {
                assert!(wait(&receiver, &waker, Some(PATIENCE), Interest::Readable).unwrap().readable);
                count += receiver.recv(&mut batch).unwrap();
                let after_ns = monotonic_ns();
                for datagram in batch.datagrams() {
                    let arrived_ns = datagram.arrived_ns.expect("the kernel stamps what we ask it to stamp");
                    // 10 ms of tolerance for a realtime clock that is slewed or stepped during the test.
                    assert!(
                        arrived_ns + 10_000_000 >= before_ns && arrived_ns <= after_ns,
                        "{ip}, {setup:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn sockets_and_batches_cross_threads() {
    fn both<T: Send + Sync>() {}
    both::<UdpSocket>();
    both::<RecvBatch>();
    both::<Waker>();
    both::<SendError>();
}

#[test]
fn requested_buffers_are_granted() {
    let options = UdpOptions { recv_buffer: 100_000, send_buffer: 150_000, gro: false };
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &options).unwrap();
    // Below every default of net.core.*mem_max, so no privilege is needed.
    assert_eq!((socket.recv_buffer(), socket.send_buffer()), (200_000, 300_000));
    let greedy = UdpOptions { recv_buffer: usize::MAX, send_buffer: usize::MAX, gro: true };
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &greedy).unwrap();
    assert!(socket.recv_buffer() >= 200_000 && socket.send_buffer() >= 200_000, "{socket:?}");
}

#[test]
fn a_range_is_searched_upwards_for_a_free_port() {
    for ip in loopbacks() {
        // If another process holds a neighbouring port, try three other ports.
        let found = (0..100).find_map(|_| {
            let first = bind(ip, false);
            let low = first.local_addr().port();
            let range = low..=low.checked_add(2)?;
            let others = [(); 2].map(|()| UdpSocket::bind_in_range(ip, range.clone(), &options(false)).ok());
            let ports = others.each_ref().map(|other| other.as_ref().map(|other| other.local_addr()));
            let wanted = [low + 1, low + 2].map(|port| Some(SocketAddr::new(ip, port)));
            (ports == wanted).then_some((first, others, range))
        });
        let (_first, _others, range) = found.expect("the second and third of three UDP ports in a row");
        let error = UdpSocket::bind_in_range(ip, range.clone(), &options(false)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
        let ports = format!("{}-{}", range.start(), range.end());
        assert!(error.to_string().contains(&ports), "{error}");
    }
}

#[test]
fn impossible_addresses_are_refused_with_a_reason() {
    let ip = Ipv4Addr::LOCALHOST.into();
    #[expect(clippy::reversed_empty_ranges, reason = "that is what a person may type")]
    let empty = UdpSocket::bind_in_range(ip, 5000..=4999, &options(false)).unwrap_err();
    assert_eq!(empty.kind(), std::io::ErrorKind::InvalidInput, "{empty}");
    // TEST-NET-3 (RFC 5737): not an address of this host.
    let foreign: SocketAddr = "203.0.113.7:0".parse().unwrap();
    let error = UdpSocket::bind(foreign, &options(false)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrNotAvailable);
    assert!(error.to_string().contains("203.0.113.7"), "{error}");
    let taken = bind(ip, false);
    let error = UdpSocket::bind(taken.local_addr(), &options(false)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn an_ipv6_socket_leaves_the_ipv4_port_free() {
    let Ok(v6) = UdpSocket::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), &options(false)) else {
        eprintln!("skipped: no IPv6 here");
        return;
    };
    let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, v6.local_addr().port()));
    match UdpSocket::bind(v4, &options(false)) {
        Ok(v4) => assert_eq!(v4.local_addr().port(), v6.local_addr().port()),
        // Another process may hold the port; the IPv4 bind then fails without our socket, too.
        Err(error) => assert!(std::net::UdpSocket::bind(v4).is_err(), "{error}"),
    }
}

#[test]
fn an_interface_that_there_is_not_is_an_error_and_the_socket_stays() {
    let socket = bind(Ipv4Addr::LOCALHOST.into(), false);
    assert!(socket.bind_to_interface("no-such-if").is_err());
    // An old kernel wants a privilege for that.
    if socket.bind_to_interface("lo").is_ok() {
        let burst = Burst { to: socket.local_addr(), data: b"x", segment_len: 1, ecn: Ecn::NotEct };
        assert_eq!(send_all(&socket, burst), 1);
    }
}
