//! Sessions that get lanes in their middle: some carry data, one leads nowhere, one dies, one is refused.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket as PlainSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::relay::Relay;
use super::support::*;
use crate::{CHUNKS_MAX, LaneConfig, LateLanes, lanes_window, sender_config, udp_options};
use fobs_channel::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};
use fobs_model::error::ErrorKind;
use fobs_model::message::{Message, Sending};
use fobs_proto::session::GrowthRule;

/// From one lane to the next.
const STRETCH: Duration = Duration::from_millis(50);
/// A rate at which a file of [`FILE_BYTES`] takes two seconds: lanes are added in its middle.
const LIMIT_BPS: u64 = 96_000_000;
const FILE_BYTES: usize = 24 << 20;

/// Both ends' parts of lanes that may be added.
pub fn late_lanes(
    client: End,
    (count, ports): (u8, (u16, u16)),
    sending: &Sending,
) -> (Option<(LateLanes, LaneConfig)>, Option<LateLanes>) {
    let of = |end: End| {
        let is_client = end == client;
        let secret = SessionSecret::new(SECRET);
        let keys = SessionKeys::with_lanes(secret, KeySchedule::Second, CIPHER, usize::from(count) + 1).lanes;
        (count > 0).then(|| LateLanes {
            keys: keys.into(),
            options: udp_options(None),
            ports: (!is_client).then_some(ports),
            window: lanes_window(CHUNKS_MAX),
            rule: is_client.then_some(GrowthRule::Always { stretch: STRETCH, lanes: count + 1 }),
        })
    };
    let (sending, credit) = (sending.clone(), if client == End::Sender { CHUNKS_MAX } else { 0 });
    let config: LaneConfig = Box::new(move || sender_config(&sending, None, credit, CHUNKS_MAX));
    (of(End::Sender).map(|late| (late, config)), of(End::Receiver))
}

/// Rewrites the ports at which a server adds lanes.
fn at_port(mut port: impl FnMut(u16) -> Option<u16> + Send + 'static) -> Messages {
    Box::new(move |_, message| match message {
        Message::LaneAdded { lane, port: Some(added), from } => {
            let (port, from) = match port(added) {
                Some(port) => (Some(port), from),
                None => (None, None),
            };
            vec![Message::LaneAdded { lane, port, from }]
        }
        other => vec![other],
    })
}

fn at_client(client: End, session: &Session) -> &Reported {
    match client {
        End::Sender => &session.at_sender,
        End::Receiver => &session.at_receiver,
    }
}

#[test]
fn a_lane_that_is_added_carries_its_part() {
    for client in End::BOTH {
        let world = World::with_file("file", FILE_BYTES);
        let count = Arc::<AtomicUsize>::default();
        let (relays, counted) = (Arc::<Mutex<Vec<Relay>>>::default(), count.clone());
        let kept = relays.clone();
        let messages = at_port(move |port| {
            let count = counted.clone();
            let decide: Datagrams = Box::new(move |from, datagram| {
                count.fetch_add(usize::from(from == End::Sender), Ordering::Relaxed);
                vec![Out::Peer(datagram.to_vec())]
            });
            let relay = Relay::start(client, SocketAddr::from((Ipv4Addr::LOCALHOST, port)), decide);
            let at = relay.address.port();
            kept.lock().unwrap().push(relay);
            Some(at)
        });
        let session = Session::start(Spec {
            client,
            late: 1,
            limit_bps: Some(LIMIT_BPS),
            messages: Some(messages),
            ..world.spec()
        });
        let (sent, received) = session.join();
        let (sent, received) = (sent.unwrap(), received.unwrap());
        world.expect_copied();
        assert_eq!(sent.complete, received.complete);
        let (count, lanes) = (count.load(Ordering::Relaxed), sent.finished.lanes);
        // A chunk at the least, however busy the machine is.
        assert!(count > 500, "{client:?}: it carried {count} datagrams: {lanes:?}");
        assert!(lanes.iter().any(|lane| lane.starts_with("lane 1 (the lane added at ")), "{lanes:?}");
        drop(relays);
    }
}

#[test]
fn lanes_are_added_one_after_another() {
    for client in End::BOTH {
        let world = World::with_file("file", FILE_BYTES);
        // Slow until all of them are there.
        let limit_bps = Some(LIMIT_BPS / 12);
        let session = Session::start(Spec { client, late: 3, limit_bps, ..world.spec() });
        let at = at_client(client, &session).clone();
        wait_until("the lanes are added", || at.lanes().last() == Some(&4));
        session.steering.set_rate(None);
        let (sent, received) = session.join();
        assert_eq!(sent.unwrap().complete, received.unwrap().complete, "{client:?}");
        world.expect_copied();
        assert_eq!(at.lanes(), [2, 3, 4], "{client:?}");
    }
}

#[test]
fn many_files_come_by_lanes_that_were_added() {
    for client in End::BOTH {
        let world = World::new();
        for file in 0..400 {
            world.write(&format!("d{}/f{file}", file % 7), &content(file * 197, file as u64));
        }
        let limit_bps = Some(LIMIT_BPS);
        let session = Session::start(Spec { client, late: 2, limit_bps, ..world.spec() });
        let (sent, received) = session.join();
        assert_eq!(sent.unwrap().complete, received.unwrap().complete);
        world.expect_copied();
    }
}

#[test]
fn an_object_without_a_limit_ends_well_wherever_lanes_begin() {
    // Lanes begin at another chunk each time, and some objects end before they do.
    for (client, mib) in End::BOTH.into_iter().flat_map(|end| [1, 7, 40, 90].map(|mib| (end, mib))) {
        let world = World::with_file("file", mib << 20);
        let session = Session::start(Spec { client, late: 7, ..world.spec() });
        let (sent, received) = session.join();
        assert_eq!(sent.unwrap().complete, received.unwrap().complete, "{client:?} {mib}");
        world.expect_copied();
    }
}

#[test]
fn a_lane_that_never_answers_is_told_and_the_first_goes_on() {
    for client in End::BOTH {
        let world = World::with_file("file", FILE_BYTES);
        let deaf = PlainSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = deaf.local_addr().unwrap().port();
        let open = Arc::new(AtomicBool::new(false));
        let session = Session::start(Spec {
            client,
            late: 1,
            // Slow until the lane is told of.
            datagrams: Some(slow_until(open.clone())),
            messages: Some(at_port(move |_| Some(port))),
            limit_bps: Some(LIMIT_BPS),
            ..world.spec()
        });
        let at = at_client(client, &session).clone();
        wait_until("the lane is told", || {
            at.notices().iter().any(|line| line.contains("no datagram came by the lane added at "))
        });
        open.store(true, Ordering::Relaxed);
        let (sent, received) = session.join();
        assert_eq!(sent.unwrap().complete, received.unwrap().complete);
        world.expect_copied();
        drop(deaf);
    }
}

/// Drops nine of ten data packets of the sender until the gate is opened, so that a session takes its time.
fn slow_until(open: Arc<AtomicBool>) -> Datagrams {
    let mut count = 0u64;
    Box::new(move |_, datagram| {
        count += u64::from(data_header(datagram).is_some());
        let is_dropped =
            data_header(datagram).is_some_and(|header| header.chunk > 2) && !count.is_multiple_of(10);
        if is_dropped && !open.load(Ordering::Relaxed) {
            Vec::new()
        } else {
            vec![Out::Peer(datagram.to_vec())]
        }
    })
}

#[test]
fn a_lane_that_dies_after_it_was_added_gives_its_chunks_back() {
    for client in End::BOTH {
        for datagrams in [30, 400] {
            let world = World::with_file("file", FILE_BYTES);
            let relays = Arc::<Mutex<Vec<Relay>>>::default();
            let kept = relays.clone();
            let messages = at_port(move |port| {
                let mut passed = 0;
                let decide: Datagrams = Box::new(move |_, datagram| {
                    passed += 1;
                    if passed > datagrams { Vec::new() } else { vec![Out::Peer(datagram.to_vec())] }
                });
                let relay = Relay::start(client, SocketAddr::from((Ipv4Addr::LOCALHOST, port)), decide);
                let at = relay.address.port();
                kept.lock().unwrap().push(relay);
                Some(at)
            });
            let (limit_bps, messages) = (Some(LIMIT_BPS), Some(messages));
            let session = Session::start(Spec { client, late: 1, limit_bps, messages, ..world.spec() });
            let (sent, received) = session.join();
            assert_eq!(sent.unwrap().complete, received.unwrap().complete, "{client:?} {datagrams}");
            world.expect_copied();
            drop(relays);
        }
    }
}

#[test]
fn a_server_without_a_port_is_asked_once() {
    for client in End::BOTH {
        let world = World::with_file("file", FILE_BYTES);
        let taken = PlainSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let asked = Arc::<AtomicUsize>::default();
        let seen = asked.clone();
        let messages: Messages = Box::new(move |_, message| {
            seen.fetch_add(usize::from(matches!(message, Message::LaneWanted { .. })), Ordering::Relaxed);
            vec![message]
        });
        let (limit_bps, messages) = (Some(LIMIT_BPS), Some(messages));
        let late_ports = (port, port);
        let session =
            Session::start(Spec { client, late: 3, late_ports, limit_bps, messages, ..world.spec() });
        let at = at_client(client, &session).clone();
        let (sent, received) = session.join();
        assert_eq!(sent.unwrap().complete, received.unwrap().complete);
        world.expect_copied();
        assert_eq!((at.lanes(), asked.load(Ordering::Relaxed)), (Vec::new(), 1), "{client:?}");
        drop(taken);
    }
}

#[test]
fn chunks_that_are_spoiled_before_and_behind_the_first_of_lanes_come_again() {
    for (client, chunk) in End::BOTH.into_iter().flat_map(|end| [1, 8].map(|chunk| (end, chunk))) {
        let world = World::with_file("file", FILE_BYTES);
        let (limit_bps, datagrams) = (Some(LIMIT_BPS), Some(spoiling_chunk(chunk, 1)));
        let session = Session::start(Spec { client, late: 1, limit_bps, datagrams, ..world.spec() });
        let (sent, received) = session.join();
        assert_eq!(sent.unwrap().complete, received.unwrap().complete, "{client:?} {chunk}");
        world.expect_copied();
    }
}

#[test]
fn lanes_that_no_rule_allows_end_both_sides() {
    let wanted = |lane, from| Message::LaneWanted { lane, from };
    let added = |lane, port, from| Message::LaneAdded { lane, port, from };
    for (what, late, client, to, message) in [
        ("of a session without", 0, End::Sender, End::Receiver, wanted(1, Some(60))),
        ("not the next", 2, End::Sender, End::Receiver, wanted(2, Some(60))),
        ("without its first chunk", 2, End::Sender, End::Receiver, wanted(1, None)),
        ("by the server", 2, End::Receiver, End::Receiver, wanted(1, Some(60))),
        ("with a chunk that the sender chooses", 2, End::Receiver, End::Sender, wanted(1, Some(60))),
        ("that nobody asked for", 2, End::Sender, End::Sender, added(7, Some(9), None)),
        ("that nobody asked for here", 2, End::Receiver, End::Receiver, added(7, Some(9), Some(60))),
        ("ready without one", 2, End::Receiver, End::Sender, Message::LaneReady { lane: 9 }),
    ] {
        let world = World::with_file("file", 40 << 20);
        let session = Session::start(Spec { client, late, datagrams: Some(hold_back()), ..world.spec() });
        session.control.say(to, &message);
        for sentence in session.expect_failure(ErrorKind::Protocol) {
            assert!(sentence.contains("which is out of turn"), "{what}: {sentence}");
        }
        world.expect_nothing();
    }
}
