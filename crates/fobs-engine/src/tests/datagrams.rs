//! What the path may do to datagrams: spoil, forge, cut, repeat, swallow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::support::*;
use fobs_channel::secure::datagram::TAG_LEN;
use fobs_model::error::ErrorKind;
use fobs_model::message::Message;

/// Counts the messages that pass, by type.
fn counting(rejections: Arc<Mutex<Vec<(u32, u8)>>>) -> Messages {
    Box::new(move |_, message| {
        if let Message::Rejected { chunk, attempt } = message {
            rejections.lock().unwrap().push((chunk, attempt));
        }
        vec![message]
    })
}

#[test]
fn a_chunk_that_arrives_spoilt_is_sent_again() {
    let world = World::with_file("file", 3 << 20);
    let rejections = Arc::default();
    let messages = Some(counting(Arc::clone(&rejections)));
    let session = Session::start(Spec { datagrams: Some(spoiling(1)), messages, ..world.spec() });
    let (sent, received) = session.join();
    let (sent, received) = (sent.unwrap(), received.unwrap());
    world.expect_copied();
    assert_eq!(*rejections.lock().unwrap(), [(1, 0)]);
    assert_eq!(sent.complete, received.complete);
    assert!(sent.finished.packets_sent > sent.finished.packets_needed);
}

#[test]
fn a_chunk_that_arrives_spoilt_three_times_ends_both_sides() {
    let world = World::with_file("file", 3 << 20);
    let rejections = Arc::default();
    let messages = Some(counting(Arc::clone(&rejections)));
    let session = Session::start(Spec { datagrams: Some(spoiling(3)), messages, ..world.spec() });
    for sentence in session.expect_failure(ErrorKind::Integrity) {
        assert!(sentence.contains("chunk 1, with data of \"file\", did not verify in 3 tries"), "{sentence}");
    }
    assert_eq!(*rejections.lock().unwrap(), [(1, 0), (1, 1), (1, 2)]);
    world.expect_nothing();
}

/// How many datagrams of each end are meddled with, a few ways each.
const MEDDLED: u64 = 12;

#[test]
fn forged_cut_and_repeated_datagrams_are_counted_and_do_nothing() {
    let world = World::with_file("file", 2 << 20);
    let mut seen = HashMap::from([(true, 0), (false, 0)]);
    let mut other_session = FaultyMemory::new();
    let datagrams: Datagrams = Box::new(move |from, datagram| {
        let mut out = vec![Out::Peer(datagram.to_vec())];
        let is_data = data_header(datagram).is_some();
        let seen = seen.get_mut(&(from == End::Sender)).unwrap();
        // Pings and probes pass as they are.
        if *seen == MEDDLED || from == End::Sender && !is_data {
            return out;
        }
        *seen += 1;
        let changed = |at: usize| {
            let mut changed = datagram.to_vec();
            changed[at] ^= 1;
            changed
        };
        let last = datagram.len() - 1;
        // A replay, in the peer's name and in a stranger's; changes of tag and number; an end missing, nearly
        // all missing; noise.
        out.push(Out::Peer(datagram.to_vec()));
        out.push(Out::Stranger(datagram.to_vec()));
        out.push(Out::Stranger(changed(last)));
        out.push(Out::Stranger(changed(2)));
        out.push(Out::Peer(datagram[..last].to_vec()));
        out.push(Out::Peer(datagram[..3].to_vec()));
        out.push(Out::Stranger(vec![0xff; 1200]));
        if is_data {
            // Sealed anew with the right keys under a number that was used: as good a forgery as can be.
            out.push(Out::Stranger(other_session.change(datagram)));
        }
        out
    });
    let session = Session::start(Spec { datagrams: Some(datagrams), ..world.spec() });
    let relay = session.relay.clone().expect("there is one");
    let (sent, received) = session.join();
    let (sent, received) = (sent.unwrap(), received.unwrap());
    world.expect_copied();
    assert_eq!(relay.at_stranger(), [0; 0], "who is not authenticated gets nothing");
    let complete = &received.complete;
    assert_eq!(complete.socket_drops, 0, "the socket buffer was too small for this test");
    assert_eq!(complete.datagrams_rejected, 8 * MEDDLED);
    // The last acks may still lie in the socket when the sender has all it needs.
    let rejected = sent.finished.datagrams_rejected;
    assert!((1..=7 * MEDDLED).contains(&rejected), "{rejected}");
}

#[test]
fn forgeries_that_come_first_spoil_nothing() {
    let world = World::with_file("file", 3 << 20);
    let datagrams: Datagrams = Box::new(move |_, datagram| {
        let mut out = vec![Out::Peer(datagram.to_vec())];
        // The right header, so that it is opened straight into the packet's place: another body, another tag,
        // and one cut short.
        if data_header(datagram).is_some() {
            let changed = |at: usize| {
                let mut changed = datagram.to_vec();
                changed[at] ^= 1;
                Out::Stranger(changed)
            };
            let last = datagram.len() - 1;
            out.splice(
                0..0,
                [changed(last - TAG_LEN), changed(last), Out::Stranger(datagram[..last].to_vec())],
            );
        }
        out
    });
    let session = Session::start(Spec { datagrams: Some(datagrams), ..world.spec() });
    let (sent, received) = session.join();
    let (sent, received) = (sent.unwrap(), received.unwrap());
    world.expect_copied();
    assert_eq!(sent.complete.root, received.complete.root);
    // Some may have found the socket full.
    assert!(received.complete.datagrams_rejected > sent.finished.packets_needed);
}

/// All datagrams of these ends vanish.
fn deaf(ends: &'static [End]) -> Datagrams {
    let mut held = hold_back();
    Box::new(move |from, datagram| if ends.contains(&from) { Vec::new() } else { held(from, datagram) })
}

fn expect_udp_blocked(client: End, ends: &'static [End]) {
    let world = World::with_file("file", 2 << 20);
    let session = Session::start(Spec { client, datagrams: Some(deaf(ends)), ..world.spec() });
    for sentence in session.expect_failure(ErrorKind::Connect) {
        assert!(sentence.contains("open UDP port 7"), "{sentence}");
    }
    world.expect_nothing();
}

#[test]
fn blocked_udp_is_called_by_its_name() {
    std::thread::scope(|scope| {
        for client in End::BOTH {
            scope.spawn(move || expect_udp_blocked(client, &End::BOTH));
            scope.spawn(move || expect_udp_blocked(client, &[End::Sender]));
            scope.spawn(move || expect_udp_blocked(client, &[End::Receiver]));
        }
    });
}

#[test]
fn the_sender_tells_of_all_files_though_no_ack_arrives() {
    let world = World::with_file("file", 5_000);
    let datagrams: Datagrams = Box::new(|from, datagram| match from {
        End::Sender => vec![Out::Peer(datagram.to_vec())],
        End::Receiver => Vec::new(),
    });
    let session = Session::start(Spec { datagrams: Some(datagrams), ..world.spec() });
    let reported = session.at_sender.clone();
    let (sent, _) = session.join();
    assert_eq!(sent.unwrap().complete.files, 1);
    assert_eq!(reported.files(), ["file"]);
}
