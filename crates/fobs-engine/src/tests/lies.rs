//! A peer that has the keys and lies: in the headers of its data, in its acks, on the control channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fobs_proto::object::CHUNK_LEN_MAX;
use fobs_proto::session::FAREWELL_WAIT;
use fobs_proto::wire::{Ack, BlockBitmap, DataHeader, HostReport};

use super::relay::Insider;
use super::support::*;
use fobs_model::error::ErrorKind;
use fobs_model::message::{Complete, Finished, Message};

/// Data that reaches the receiver, each packet as `lie` says; `None` leaves it as it is.
fn lying_sender(
    mut lie: impl FnMut(u64, &DataHeader, &mut Vec<u8>) -> Option<DataHeader> + Send + 'static,
) -> Datagrams {
    let (mut insider, mut count) = (Insider::sender(), 0);
    Box::new(move |from, datagram| {
        if from == End::Receiver || data_header(datagram).is_none() {
            return vec![Out::Peer(datagram.to_vec())];
        }
        count += 1;
        let rewritten = insider.rewrite_data(datagram, |header, body| lie(count, header, body));
        vec![Out::Peer(rewritten)]
    })
}

/// Acks that reach the sender, each as `lie` says.
fn lying_receiver(mut lie: impl FnMut(u64, &mut Ack) + Send + 'static) -> Datagrams {
    let (mut insider, mut count) = (Insider::receiver(), 0);
    Box::new(move |from, datagram| {
        if from == End::Sender {
            return vec![Out::Peer(datagram.to_vec())];
        }
        count += 1;
        vec![Out::Peer(insider.rewrite_ack(datagram, |ack| lie(count, ack)))]
    })
}

#[test]
fn data_that_cannot_be_is_not_taken() {
    let world = World::with_file("file", 6 << 20);
    let session = Session::start(Spec {
        datagrams: Some(lying_sender(|count, header, body| {
            // One in seven lies; the sender takes it for lost and sends its data again.
            if count % 7 != 0 {
                return None;
            }
            let lie = match count / 7 % 6 {
                // Beyond any credit that --memory allows.
                0 => DataHeader { chunk: header.chunk + 10_000, ..*header },
                1 => DataHeader { chunk: u32::MAX, ..*header },
                2 => DataHeader { payload_size: header.payload_size - 1, ..*header },
                3 => {
                    let index = (CHUNK_LEN_MAX - 1) / u32::from(header.payload_size);
                    DataHeader { packet_index: index as u16, ..*header }
                }
                4 => {
                    body.clear();
                    *header
                }
                _ => {
                    body.truncate(body.len() / 2);
                    *header
                }
            };
            (!header.last).then_some(lie)
        })),
        ..world.spec()
    });
    let (sent, received) = session.join();
    let (sent, received) = (sent.unwrap(), received.unwrap());
    world.expect_copied();
    assert_eq!(sent.complete.root, received.complete.root);
    assert!(sent.finished.packets_sent > sent.finished.packets_needed);
}

#[test]
fn an_object_that_ends_too_early_is_no_copy() {
    let world = World::with_file("file", 6 << 20);
    let session = Session::start(Spec {
        datagrams: Some(lying_sender(|_, header, _| {
            (header.chunk == 0).then_some(DataHeader { final_chunk: true, ..*header })
        })),
        ..world.spec()
    });
    for sentence in session.expect_failure(ErrorKind::Protocol) {
        assert!(sentence.contains("ends in the middle of a file"), "{sentence}");
    }
    world.expect_nothing();
}

#[test]
fn acks_of_what_was_never_sent_are_passed_over() {
    // More than a receiver's credit, so that a false one would show.
    let world = World::with_file("file", 48 << 20);
    let session = Session::start(Spec {
        datagrams: Some(lying_receiver(|count, ack| {
            if count % 2 == 0 || ack.ranges.is_empty() {
                return;
            }
            let far = ack.largest.unwrap_or(0) + (1 << 40);
            match count / 2 % 5 {
                0 => {
                    ack.largest = Some(far);
                    ack.ranges.insert(0, (far - 5, far));
                }
                1 => {
                    ack.largest = Some(u64::MAX - 1);
                    ack.ranges = vec![(far, u64::MAX - 1)];
                }
                2 => {
                    let bitmap =
                        BlockBitmap { chunk: u32::MAX, attempt: 3, block: 255, bits: vec![0xff; 200] };
                    ack.bitmaps = vec![BlockBitmap { chunk: 1000, ..bitmap.clone() }, bitmap];
                }
                3 => {
                    (ack.ack_delay_us, ack.receive_time_us) = (u32::MAX, u64::MAX);
                    (ack.received_packets, ack.received_bytes) = (u64::MAX, u64::MAX);
                    (ack.ce, ack.backlog) = (u32::MAX, u16::MAX);
                }
                _ => {
                    ack.chunk_limit = u32::MAX;
                    ack.host = HostReport { dropped: Some(u32::MAX), lag: Some(60_000) };
                }
            }
        })),
        ..world.spec()
    });
    let (sent, received) = session.join();
    world.expect_copied();
    assert_eq!(sent.unwrap().complete, received.unwrap().complete);
}

#[test]
fn chunks_that_are_called_bad_for_ever_end_both_sides() {
    let world = World::with_file("file", 6 << 20);
    let session = Session::start(Spec { datagrams: Some(hold_back()), ..world.spec() });
    world.wait_for_storing();
    // Again and again: the sender may not have read that chunk yet.
    let (control, over) = (session.control.clone(), Arc::new(AtomicBool::new(false)));
    let is_over = over.clone();
    let liar = std::thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            control.say(End::Sender, &Message::Rejected { chunk: 1, attempt: 0 });
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    for sentence in session.expect_failure(ErrorKind::Integrity) {
        assert!(sentence.contains("\"file\""), "{sentence}");
    }
    over.store(true, Ordering::Relaxed);
    liar.join().unwrap();
    world.expect_nothing();
}

#[test]
fn a_completion_signal_before_the_end_is_no_success() {
    for client in End::BOTH {
        let world = World::with_file("file", 6 << 20);
        let session = Session::start(Spec { client, datagrams: Some(hold_back()), ..world.spec() });
        world.wait_for_storing();
        let complete = Complete { root: "0".repeat(64), files: 1, bytes: 6 << 20, ..Complete::default() };
        session.control.say(End::Sender, &Message::Complete(complete));
        for sentence in session.expect_failure(ErrorKind::Integrity) {
            assert!(sentence.contains("do not trust the copy"), "{sentence}");
        }
        world.expect_nothing();
    }
}

#[test]
fn a_sender_that_never_says_goodbye_has_sent_everything() {
    let world = World::with_file("file", 1 << 20);
    let messages: Messages = Box::new(|_, message| match message {
        Message::Finished(_) => Vec::new(),
        message => vec![message],
    });
    let began = Instant::now();
    let (sent, received) = Session::start(Spec { messages: Some(messages), ..world.spec() }).join();
    world.expect_copied();
    assert_eq!(sent.unwrap().complete.files, 1);
    assert_eq!(received.unwrap().finished, Finished::default());
    // The rest is for a slow machine.
    assert!(began.elapsed() < FAREWELL_WAIT + Duration::from_secs(30));
}

#[test]
fn a_receiver_that_dies_before_its_signal_is_no_success() {
    let world = World::with_file("file", 1 << 20);
    let all_stored = Arc::new(AtomicBool::new(false));
    let stored = all_stored.clone();
    let messages: Messages = Box::new(move |_, message| match message {
        Message::Complete(_) => {
            stored.store(true, Ordering::Relaxed);
            Vec::new()
        }
        message => vec![message],
    });
    let session = Session::start(Spec { messages: Some(messages), ..world.spec() });
    wait_until("all is stored", || all_stored.load(Ordering::Relaxed));
    session.control.cut();
    let (sent, received) = session.join();
    // The receiver has everything and knows it; the sender cannot know.
    world.expect_copied();
    assert_eq!(received.unwrap().complete.files, 1);
    assert_eq!(sent.unwrap_err().kind, ErrorKind::Connect);
}

/// Frames of a flood: of a type that is not known here, from small ones to the largest there may be.
const FLOOD_FRAMES: usize = 6_000;

#[test]
fn endless_messages_of_no_meaning_delay_nothing() {
    let world = World::with_file("file", 12 << 20);
    let open = Arc::new(AtomicBool::new(false));
    let session = Session::start(Spec { datagrams: Some(hold_back_until(open.clone())), ..world.spec() });
    world.wait_for_storing();
    let largest = format!("{{\"type\":\"telepathy\",\"thought\":\"{}\"}}", "x".repeat((1 << 20) - 40));
    for round in 0..FLOOD_FRAMES {
        for to in End::BOTH {
            session.control.say_json(to, r#"{"type":"telepathy","thought":[[[[1,2,3]]]]}"#);
            if round % 1000 == 0 {
                session.control.say_json(to, &largest);
            }
        }
        // In the middle of it the data goes on.
        open.store(round >= FLOOD_FRAMES / 2, Ordering::Relaxed);
    }
    let (sent, received) = session.join();
    world.expect_copied();
    assert_eq!(sent.unwrap().complete, received.unwrap().complete);
}

#[test]
fn a_frame_that_never_ends_is_named_when_the_channel_closes() {
    for to in End::BOTH {
        let world = World::with_file("file", 6 << 20);
        let session = Session::start(Spec { datagrams: Some(hold_back()), ..world.spec() });
        world.wait_for_storing();
        // A megabyte is announced, and a few bytes of it come.
        session.control.say_bytes(to, b"\0\x10\0\0{\"type\":");
        session.control.cut();
        session.expect_failure(ErrorKind::Connect);
        world.expect_nothing();
    }
}
