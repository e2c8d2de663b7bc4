//! Unexpected messages on the control channel in the middle of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::support::*;
use fobs_model::error::ErrorKind;
use fobs_model::message::{Bytes, Message};

/// A session that is in its middle, something already being stored, and stays there.
fn in_the_middle(client: End) -> (World, Session) {
    let world = World::with_file("file", 6 << 20);
    let session = Session::start(Spec { client, datagrams: Some(hold_back()), ..world.spec() });
    world.wait_for_storing();
    (world, session)
}

#[test]
fn an_abort_ends_both_sides_and_leaves_nothing() {
    for client in End::BOTH {
        for to in End::BOTH {
            let (world, session) = in_the_middle(client);
            let abort = Message::Abort {
                code: "file_io".to_owned(),
                message: "the disk\u{1b}[2J is\n on fire".to_owned(),
                busy: false,
                sync: String::new(),
            };
            session.control.say(to, &abort);
            let sentences = session.expect_failure(ErrorKind::FileIo);
            // The other side gets it from this one.
            assert!(sentences.iter().all(|sentence| sentence.contains("is on fire")), "{sentences:?}");
            assert!(!sentences.concat().contains(char::is_control), "{sentences:?}");
            world.expect_nothing();
        }
    }
}

#[test]
fn an_abort_of_a_newer_peer_is_understood_as_far_as_can_be() {
    let (world, session) = in_the_middle(End::Sender);
    let message = "the moon is in the wrong phase".to_owned();
    session.control.say(
        End::Receiver,
        &Message::Abort { code: "lunar".to_owned(), message, busy: false, sync: String::new() },
    );
    let sentences = session.expect_failure(ErrorKind::Protocol);
    assert!(sentences.iter().all(|sentence| sentence.contains("wrong phase")), "{sentences:?}");
    world.expect_nothing();
}

#[test]
fn a_channel_that_closes_ends_both_sides_and_leaves_nothing() {
    for client in End::BOTH {
        let (world, session) = in_the_middle(client);
        session.control.cut();
        for sentence in session.expect_failure(ErrorKind::Connect) {
            assert!(sentence.contains("ended the connection"), "{sentence}");
        }
        world.expect_nothing();
    }
}

#[test]
fn garbage_ends_both_sides_and_leaves_nothing() {
    let frames: [&[u8]; 4] = [
        b"\0\0\0\x05hello",
        b"\0\0\0\0",
        b"Last login: Tue Nov 21 on pts/0\n",
        b"\0\0\0\x13{\"type\":\"finished\"}",
    ];
    for to in End::BOTH {
        for frame in frames {
            let (world, session) = in_the_middle(End::Sender);
            session.control.say_bytes(to, frame);
            session.expect_failure(ErrorKind::Protocol);
            world.expect_nothing();
        }
    }
}

#[test]
fn what_only_newer_peers_say_is_passed_over() {
    let world = World::with_file("file", 6 << 20);
    let open = Arc::new(AtomicBool::new(false));
    let session = Session::start(Spec { datagrams: Some(hold_back_until(open.clone())), ..world.spec() });
    world.wait_for_storing();
    for to in End::BOTH {
        session.control.say_json(to, r#"{"type":"telepathy","thought":[1,{"two":3}]}"#);
        // Known messages out of turn, or about chunks that do not exist.
        session.control.say_json(to, r#"{"type":"hello","protocol":9,"program":"","mood":"fine"}"#);
        session.control.say_json(to, r#"{"type":"rejected","chunk":4000000000,"attempt":255}"#);
        session.control.say_json(
            to,
            r#"{"type":"standing","bytes":18446744073709551615,"scan_complete":true,"rtt_ms":-1e300,"loss_rate":1e300,"waste":0}"#,
        );
    }
    // From the wrong side.
    session.control.say_json(End::Receiver, r#"{"type":"rejected","chunk":0,"attempt":0}"#);
    let complete = r#"{"type":"complete","root":"","files":0,"bytes":0,"seconds":0}"#;
    session.control.say_json(End::Receiver, complete);
    open.store(true, Ordering::Relaxed);
    let (sent, received) = session.join();
    world.expect_copied();
    assert_eq!(sent.unwrap().complete, received.unwrap().complete);
}

#[test]
fn another_root_is_no_success_on_either_side() {
    let world = World::with_file("file", 100_000);
    let messages: Messages = Box::new(|_, mut message| {
        if let Message::Complete(complete) = &mut message {
            complete.root = format!("\u{7}{}", &complete.root[1..]);
        }
        vec![message]
    });
    let session = Session::start(Spec { messages: Some(messages), ..world.spec() });
    for sentence in session.expect_failure(ErrorKind::Integrity) {
        assert!(sentence.contains("do not trust the copy"), "{sentence}");
        assert!(!sentence.contains('\u{7}'));
    }
}

#[test]
fn a_flood_of_failures_is_heard_out_and_kept_within_bounds() {
    let (world, session) = in_the_middle(End::Sender);
    let reported = session.at_sender.clone();
    for number in 0..12_000 {
        let path =
            format!("{number}/{}", if number % 1000 == 0 { "x".repeat(10_000) } else { String::new() });
        let reason = if number % 1000 == 1 { "\u{1b}why ".repeat(10_000) } else { "why".to_owned() };
        session.control.say(End::Sender, &Message::Failed { path: Bytes(path.into_bytes()), reason });
    }
    session.control.say(
        End::Sender,
        &Message::Abort {
            code: "interrupted".to_owned(),
            message: "over".to_owned(),
            busy: false,
            sync: String::new(),
        },
    );
    session.expect_failure(ErrorKind::Interrupted);
    let errors = reported.errors();
    assert_eq!(errors.len(), 10_000);
    assert!(errors.iter().all(|e| e.path.len() <= 4096 && e.message.len() <= 1000));
    assert!(!errors.iter().any(|e| e.message.contains('\u{1b}')));
    world.expect_nothing();
}

#[test]
fn a_flood_of_long_failures_is_kept_within_its_bytes() {
    let (_world, session) = in_the_middle(End::Sender);
    let reported = session.at_sender.clone();
    for number in 0..3000 {
        let path = format!("{number}/{}", "p".repeat(4000));
        let failed = Message::Failed { path: Bytes(path.into_bytes()), reason: "why ".repeat(200) };
        session.control.say(End::Sender, &failed);
    }
    let over = Message::Abort {
        code: "interrupted".to_owned(),
        message: "over".to_owned(),
        busy: false,
        sync: String::new(),
    };
    session.control.say(End::Sender, &over);
    session.expect_failure(ErrorKind::Interrupted);
    let errors = reported.errors();
    // Each path is in a set, too.
    let bytes: usize = errors.iter().map(|error| 2 * error.path.len() + error.message.len()).sum();
    assert!(bytes <= 8 << 20 && bytes > 7 << 20, "{bytes} of {}", errors.len());
}
