//! A link whose socket is emptied by a lane behaves as one that empties it itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use fobs_proto::Timestamp;
use fobs_proto::session::Side;
use fobs_proto::wire::Header;
use fobs_sys::{Ecn, Interest, UdpSocket, Waker};

use super::support::{CIPHER, SECRET, VALIDATION, keys};
use crate::link::{Incoming, IncomingBody};
use crate::remedy::Mendable;
use crate::{Clock, Link, LinkSetup, udp_options};
use fobs_channel::secure::datagram::Direction;
use fobs_channel::secure::schedule::{DatagramKeys, KeySchedule, SessionKeys, SessionSecret};
use fobs_model::error::ErrorKind;

/// Both ends, and where they are.
fn links() -> ((Link, SocketAddr), (Link, SocketAddr)) {
    links_with(keys().datagrams)
}

/// The same, with these keys for the receiver of data.
fn links_with(of_receiver: DatagramKeys) -> ((Link, SocketAddr), (Link, SocketAddr)) {
    let [ours, theirs] = [(); 2]
        .map(|()| UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &udp_options(None)).unwrap());
    let (here, there) = (ours.local_addr(), theirs.local_addr());
    let link = |socket, keys, direction, candidates: Vec<SocketAddr>| {
        Link::new(LinkSetup {
            socket,
            waker: Waker::new().unwrap(),
            clock: Clock::start(),
            keys,
            direction,
            side: if candidates.is_empty() { Side::Server } else { Side::Client },
            candidates,
            named: Vec::new(),
            validation: VALIDATION,
        })
    };
    let sender = link(ours, keys().datagrams, Direction::Sender, vec![there]);
    ((sender, here), (link(theirs, of_receiver, Direction::Receiver, Vec::new()), there))
}

/// Sends packets with the numbers as their bodies, each twice.
fn send(link: &mut Link, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let mut sealed = link.seal_body(number, Header::Probe, &number.to_le_bytes());
        let mut again = sealed;
        link.send(&mut sealed, Ecn::Ect0).unwrap();
        link.send(&mut again, Ecn::Ect0).unwrap();
    }
}

/// Takes until `count` datagrams have come, whatever they are worth.
fn take(link: &mut Link, count: usize, numbers: &mut Vec<u64>) {
    let (end, mut came) = (Instant::now() + Duration::from_secs(30), 0);
    while came < count {
        assert!(Instant::now() < end, "{came} of {count} came");
        came += link
            .receive(&mut |now: Timestamp, packet: Incoming<'_>| {
                assert!(packet.meta.arrived <= now);
                let IncomingBody::Here(body) = packet.body else { panic!("there was no place") };
                assert_eq!(body, packet.meta.number.to_le_bytes());
                numbers.push(packet.meta.number);
            })
            .unwrap();
        link.wait(Duration::from_millis(10), Interest::Readable).unwrap();
    }
}

#[test]
fn a_lane_that_comes_later_changes_nothing_but_who_reads() {
    let ((mut ours, sender), (mut theirs, receiver)) = links();
    let mut numbers = Vec::new();
    send(&mut ours, 0..100);
    take(&mut theirs, 200, &mut numbers);
    // Datagrams in the socket when the lane starts are not lost.
    send(&mut ours, 100..200);
    theirs.add_lane().unwrap();
    theirs.add_lane().unwrap();
    send(&mut ours, 200..300);
    let stranger = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    stranger.send_to(b"not a packet of ours at all", receiver).unwrap();
    take(&mut theirs, 401, &mut numbers);
    assert_eq!(numbers, (0..300).collect::<Vec<u64>>());
    assert_eq!(theirs.rejected(), 301, "300 came twice, and one was a stranger's");
    assert_eq!(theirs.peer(), Some(sender), "a stranger does not move it");
}

/// Sends `count` datagrams that look like packets, with numbers that were not used.
fn forge(socket: &std::net::UdpSocket, to: SocketAddr, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let mut datagram = [7; 60];
        Header::Probe.encode(number, &mut datagram);
        socket.send_to(&datagram, to).unwrap();
    }
}

#[test]
fn forgeries_end_a_session_at_their_limit_and_not_before() {
    let limited = SessionKeys::limited(SessionSecret::new(SECRET), KeySchedule::Second, CIPHER, 50);
    let ((mut ours, _), (mut theirs, receiver)) = links_with(limited.datagrams);
    let stranger = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut numbers = Vec::new();
    forge(&stranger, receiver, 1000..1049);
    take(&mut theirs, 49, &mut numbers);
    // Genuine packets, sent twice, and what is no packet at all cost nothing.
    send(&mut ours, 0..100);
    take(&mut theirs, 200, &mut numbers);
    stranger.send_to(b"not a packet of ours at all", receiver).unwrap();
    take(&mut theirs, 1, &mut numbers);
    assert_eq!(numbers, (0..100).collect::<Vec<u64>>());
    forge(&stranger, receiver, 1000..1001);
    let end = Instant::now() + Duration::from_secs(30);
    let error = loop {
        assert!(Instant::now() < end, "the session goes on");
        match theirs.receive(&mut |_: Timestamp, _: Incoming<'_>| panic!("a forgery was taken")) {
            Ok(_) => theirs.wait(Duration::from_millis(10), Interest::Readable).unwrap(),
            Err(error) => break error,
        }
    };
    // Of the connection: a client comes again, with new keys.
    assert_eq!(error.kind, ErrorKind::Connect);
    assert!(error.message.starts_with("50 packets with the numbers of this session"), "{error}");
    assert!(error.message.contains(&receiver.to_string()), "{error}");
}
