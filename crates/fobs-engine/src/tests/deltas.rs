//! Sessions in which the receiver has most of what comes.

use std::fs;

use super::support::*;
use fobs_model::error::ErrorKind;
use fobs_model::message::{Bytes, Message};
use fobs_store::delta::{Cutting, MISLEADING};
use fobs_store::survey::{Append, CompareBy, Rules};

const RULES: Rules = Rules { append: Append::Never, compare: CompareBy::Identity };
/// Of which long pieces are listed at first.
const LEN: usize = 20_000_000;
const CUTTINGS: [Cutting; 2] = [Cutting::ByContent, Cutting::InPlace];

/// A file that both have, with other bytes in the middle at the sender.
fn world_of(byte: u8, zeros: bool) -> World {
    let world = World::new();
    let old = if zeros { vec![0; LEN] } else { content(LEN, 1) };
    let mut new = if zeros { vec![byte; LEN] } else { old.clone() };
    new[LEN / 2..LEN / 2 + 4096].fill(byte);
    world.write("f", &new);
    fs::create_dir_all(world.to()).expect("a directory");
    fs::write(world.to().join("f"), &old).expect("a file");
    world
}

fn run(world: &World, client: End, lists: Option<([u8; 32], Cutting)>) -> (u64, u64, Vec<String>) {
    let (pieces, cutting) = lists.unzip();
    let cutting = cutting.unwrap_or_default();
    let spec = Spec { client, survey: Some(RULES), pieces, cutting, ..world.spec() };
    let session = Session::start(spec);
    let at_receiver = session.at_receiver.clone();
    let (sent, received) = session.join();
    let (sent, received) = (sent.expect("it is sent"), received.expect("it is stored"));
    let (new, stored) = (fs::read(world.from().join("f")), fs::read(world.to().join("f")));
    assert_eq!(new.expect("a file"), stored.expect("a file"));
    assert_eq!(received.complete.files, 1);
    (received.complete.matched_bytes, sent.finished.packets_needed, at_receiver.notices())
}

#[test]
fn what_the_receiver_has_is_not_sent() {
    for client in End::BOTH {
        for cutting in CUTTINGS {
            let (matched, packets, notices) = run(&world_of(7, false), client, Some(([3; 32], cutting)));
            assert!(matched > LEN as u64 * 95 / 100 && packets < 500, "{client:?}: {matched} {packets}");
            assert_eq!(notices, Vec::<String>::new());
        }
        let (matched, packets, _) = run(&world_of(7, false), client, None);
        assert!(matched == 0 && packets > 500, "{client:?}: {matched} {packets}");
    }
}

#[test]
fn a_patch_that_makes_another_chunk_is_sent_whole() {
    for (client, cutting) in End::BOTH.into_iter().zip(CUTTINGS) {
        let (matched, packets, notices) = run(&world_of(7, true), client, Some((MISLEADING, cutting)));
        assert!(matched < LEN as u64 / 2 && packets > 0, "{client:?}: {matched} {packets}");
        assert!(notices.iter().any(|notice| notice.contains("sent whole")), "{notices:?}");
    }
}

#[test]
fn lists_that_break_a_rule_end_the_session() {
    for (pieces, words) in [(None, "pieces of files"), (Some([3; 32]), "pieces of a length")] {
        let world = world_of(7, false);
        let list = || Message::Basis {
            row: 0,
            first: 0,
            average: 3,
            names: 4,
            in_place: false,
            pieces: Bytes(Vec::new()),
            last: true,
        };
        let mut is_sent = false;
        let messages: Messages = Box::new(move |_, message| match message {
            Message::Decisions { .. } if !std::mem::replace(&mut is_sent, true) => vec![list(), message],
            message => vec![message],
        });
        let spec = Spec { survey: Some(RULES), pieces, messages: Some(messages), ..world.spec() };
        let (sent, _) = Session::start(spec).join();
        let error = sent.expect_err("it is over");
        assert!(error.message.contains(words) && error.kind == ErrorKind::Protocol, "{error}");
    }
}

/// What a peer may not say of paths: beside which of its messages, and what the other end says then.
#[test]
fn questions_about_paths_that_break_a_rule_end_the_session() {
    let ask = |path: &str| Message::HasPath { path: Bytes(path.as_bytes().to_vec()) };
    let cases: [(&str, Vec<Message>); 3] = [
        ("more paths than may be", vec![ask("gone"); 65]),
        ("a path that cannot be", vec![ask("../f")]),
        ("and nobody asked", vec![Message::PathThere { there: false }]),
    ];
    for (words, more) in cases {
        let is_answer = matches!(more[0], Message::PathThere { .. });
        let world = world_of(7, false);
        let mut is_sent = false;
        let messages: Messages = Box::new(move |_, message| {
            let is_place = match message {
                Message::Decisions { .. } => !is_answer,
                Message::Listing { .. } => is_answer,
                _ => false,
            };
            let first = is_place && !std::mem::replace(&mut is_sent, true);
            more.iter().filter(|_| first).cloned().chain([message]).collect()
        });
        let spec =
            Spec { survey: Some(RULES), pieces: Some([3; 32]), messages: Some(messages), ..world.spec() };
        let (sent, received) = Session::start(spec).join();
        let error = if is_answer { received.expect_err("it is over") } else { sent.expect_err("it is over") };
        assert!(error.message.contains(words) && error.kind == ErrorKind::Protocol, "{error}");
    }
}
