//! A link whose socket is emptied by a lane behaves as one that empties it itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use fobs_proto::Timestamp;
use fobs_proto::wire::Header;
use fobs_sys::{Ecn, Interest, UdpSocket, Waker};

use super::support::{CIPHER, SECRET, VALIDATION};
use crate::engine::link::{Incoming, IncomingBody};
use crate::engine::remedy::Mendable;
use crate::engine::{Clock, Link, LinkSetup};
use crate::secure::datagram::{Direction, SessionSecret};
use crate::session::udp_options;

/// Both ends, and where they are.
fn links() -> ((Link, SocketAddr), (Link, SocketAddr)) {
    let [ours, theirs] = [(); 2]
        .map(|()| UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &udp_options(None)).unwrap());
    let (here, there) = (ours.local_addr(), theirs.local_addr());
    let link = |socket, direction, candidates| {
        Link::new(LinkSetup {
            socket,
            waker: Waker::new().unwrap(),
            clock: Clock::start(),
            secret: SessionSecret::new(SECRET),
            cipher: CIPHER,
            direction,
            candidates,
            validation: VALIDATION,
        })
    };
    let sender = link(ours, Direction::Sender, vec![there]);
    ((sender, here), (link(theirs, Direction::Receiver, Vec::new()), there))
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
