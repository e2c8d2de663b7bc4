//! Sessions that end well, and those that end because a side does.

use std::io::{self, Read};
use std::sync::mpsc;

use super::support::*;
use crate::failure::{PeerName, StreamsTried};
use crate::summary;
use fobs_channel::secure::datagram::Direction;
use fobs_model::error::ErrorKind;
use fobs_model::event::Summary;
use fobs_proto::Timestamp;
use fobs_proto::session::{Side, Silence, UDP_SILENCE_MAX};
use fobs_store::Source;
use std::time::Duration;

#[test]
fn a_tree_goes_either_way() {
    for client in End::BOTH {
        let world = World::new();
        let files = [("a", 0), ("b/c", 1), ("b/d/e", 100_000), ("f", (9 << 20) + 12_345)];
        for (seed, (name, len)) in files.into_iter().enumerate() {
            world.write(name, &content(len, seed as u64));
        }
        let session = Session::start(Spec { client, ..world.spec() });
        let (at_sender, at_receiver) = (session.at_sender.clone(), session.at_receiver.clone());
        let (sent, received) = session.join();
        let (sent, received) = (sent.unwrap(), received.unwrap());
        world.expect_copied();
        assert_eq!(sent.complete, received.complete);
        assert_eq!(sent.finished, received.finished);
        let bytes: usize = files.iter().map(|(_, len)| len).sum();
        assert_eq!((sent.complete.files, sent.complete.bytes), (4, bytes as u64));
        let mut reported = at_sender.files();
        assert_eq!(reported, at_receiver.files());
        reported.sort();
        assert_eq!(reported, ["a", "b/c", "b/d/e", "f"]);
        assert!(at_sender.errors().is_empty() && at_receiver.errors().is_empty());
    }
}

/// Every figure with a fraction.
fn figures(summary: &Summary) -> [f64; 8] {
    let s = summary;
    [
        s.seconds,
        s.seconds_total,
        s.goodput_bps,
        s.waste,
        s.rtt_ms_min.unwrap_or_default(),
        s.loss_rate,
        s.cpu_seconds,
        s.cpu_seconds_peer,
    ]
}

#[test]
fn an_empty_tree_has_figures_without_holes() {
    for name in [None, Some("empty")] {
        let world = World::new();
        if let Some(name) = name {
            world.write(name, b"");
        }
        let (sent, received) = Session::start(world.spec()).join();
        let (sent, received) = (sent.unwrap(), received.unwrap());
        world.expect_copied();
        for (role, complete, finished) in [
            (Direction::Sender, &sent.complete, &sent.finished),
            (Direction::Receiver, &received.complete, &received.finished),
        ] {
            let began = crate::Clock::start();
            let summary = summary(
                role,
                complete,
                finished,
                fobs_channel::secure::datagram::Cipher::Aes128Gcm,
                began,
                Vec::new(),
            );
            assert_eq!((summary.bytes, summary.goodput_bps), (0, 0.0));
            assert!(
                figures(&summary).iter().all(|figure| figure.is_finite() && *figure >= 0.0),
                "{summary:?}"
            );
        }
    }
}

#[test]
fn figures_of_a_lying_peer_make_no_holes() {
    use fobs_model::message::{Complete, Finished};
    for lie in [f64::MAX, -1.0, f64::MIN_POSITIVE, -0.0, 5e-324] {
        let complete = Complete {
            root: "\u{1b}[2J".repeat(1000),
            bytes: u64::MAX,
            seconds: lie,
            datagrams_rejected: u64::MAX,
            cpu_seconds: lie,
            ..Complete::default()
        };
        let finished = Finished {
            packets_sent: 1,
            packets_lost: u64::MAX,
            rtt_ms_min: Some(lie),
            cpu_seconds: lie,
            datagrams_rejected: 1,
            ..Finished::default()
        };
        let began = crate::Clock::start();
        let cipher = fobs_channel::secure::datagram::Cipher::Aes128Gcm;
        let summary = summary(Direction::Sender, &complete, &finished, cipher, began, Vec::new());
        assert!(figures(&summary).iter().all(|figure| figure.is_finite() && *figure >= 0.0), "{summary:?}");
        assert_eq!(summary.datagrams_rejected, u64::MAX);
        assert!(summary.root.len() <= 64 && !summary.root.contains('\u{1b}'));
    }
}

/// A stream that hands out what comes through a channel.
struct Dripping(mpsc::Receiver<Vec<u8>>);

impl Read for Dripping {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.recv().unwrap_or_default();
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

#[test]
fn a_source_that_pauses_is_waited_for() {
    let world = World::new();
    let (drip, dripping) = mpsc::channel();
    let source = Source::from_stream(Box::new(Dripping(dripping)), false).unwrap();
    let output = world.to().join("out");
    let sink = fobs_store::Sink::to_stream(Box::new(std::fs::File::create(&output).unwrap()), source.shape())
        .unwrap();
    let session = Session::start(Spec {
        lanes: Vec::new(),
        late: 0,
        late_ports: LATE_PORTS,
        limit_bps: None,
        streams: None,
        source,
        sink,
        survey: None,
        client: End::Sender,
        endurance: Endurance::for_peer(None),
        of_server: None,
        validation: VALIDATION,
        datagrams: None,
        messages: None,
        pieces: None,
        cutting: fobs_store::delta::Cutting::ByContent,
    });
    // Longer than a blocked path is borne with, and then a little in the middle.
    std::thread::sleep(UDP_SILENCE_MAX * 7 / 4);
    drip.send(b"one ".to_vec()).unwrap();
    std::thread::sleep(UDP_SILENCE_MAX / 8);
    drip.send(b"two ".to_vec()).unwrap();
    drop(drip);
    let (sent, received) = session.join();
    assert_eq!(sent.unwrap().complete, received.unwrap().complete);
    assert_eq!(std::fs::read(&output).unwrap(), b"one two ");
}

#[test]
fn silence_is_tolerated_for_a_while_and_then_named() {
    let peer = PeerName {
        name: "the peer".to_owned(),
        ports: "port 7".to_owned(),
        side: Side::Client,
        udp_error: None,
        streams: StreamsTried::No,
    };
    assert_eq!(peer.check(Silence::Short), Ok(()));
    let error = peer.check(Silence::Dead(Duration::from_secs(30))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(error.message.contains("the peer") && error.message.contains("30 s"), "{error}");
    let error = peer.check(Silence::Blocked(Duration::from_secs(4))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect);
    assert!(error.message.contains("port 7") && error.message.contains("4 s"), "{error}");
}

#[test]
fn a_firewall_of_this_host_is_no_end_where_there_may_be_streams() {
    let refused = std::io::Error::from_raw_os_error(1);
    let peer = |streams| PeerName {
        name: "the peer".to_owned(),
        ports: "port 7".to_owned(),
        side: Side::Client,
        udp_error: None,
        streams,
    };
    let error = peer(StreamsTried::No).refused_datagrams(&refused, None).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Socket);
    let mut lane = peer(StreamsTried::Lanes);
    assert_eq!(lane.refused_datagrams(&refused, None), Ok(()), "the others carry the data");
    assert_eq!(lane.check(Silence::Blocked(UDP_SILENCE_MAX)).unwrap_err().kind, ErrorKind::Connect);
    let mut heard = peer(StreamsTried::No);
    assert_eq!(heard.refused_datagrams(&refused, Some(Timestamp::ZERO)), Ok(()), "it may come back");
    let error = heard.check(Silence::Dead(Duration::from_secs(30))).unwrap_err();
    assert!(error.message.contains("Operation not permitted"), "{error}");
    let mut peer = peer(StreamsTried::Yes(None));
    assert_eq!(peer.refused_datagrams(&refused, None), Ok(()));
    peer.stream_failed("connection refused".to_owned());
    assert_eq!(peer.check(Silence::Blocked(UDP_SILENCE_MAX)), Ok(()), "a stream may still be made");
    let error = peer.check(Silence::Blocked(peer.streamless_max())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect);
    for why in ["Operation not permitted", "connection refused", "UDP port 7"] {
        assert!(error.message.contains(why), "{error}");
    }
}
