//! Transfers that go on where an earlier one ended, and peers that lie about it.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use fobs_proto::session::TransportChoice;

use super::support::*;
use fobs_model::error::ErrorKind;
use fobs_model::message::{Bytes, Complete, Message};
use fobs_model::options::Preserve;
use fobs_store::source_identity;
use fobs_store::survey::{Append, Changes, Choice, CompareBy, Decision, Rules};
pub use fobs_store::{Above, Adoption, Base, Identity, Partial, Sink, SinkSpec, Source, SpecialThere};

/// Chunks that an interrupted transfer moves: the first three hold 4 MiB, the others 1 MiB each or more.
const CHUNKS: u32 = 6;
/// Far more than that, and no multiple of anything.
const LEN: usize = (16 << 20) + 12_345;
/// 64 KiB.
const GROUP: usize = 64 << 10;

/// A sink that keeps what an interrupted transfer stored.
fn keeping(world: &World, source: &Source) -> Sink {
    Sink::open(SinkSpec {
        base: Base::Ambient,
        destination: world.to().as_os_str().as_bytes().to_vec(),
        shape: source.shape(),
        above: Above::Required,
        xattr_rules: Default::default(),
        preserve: Preserve::default(),
        fsync: false,
        keep: Partial::Keep,
        link_dest: Vec::new(),
        backup_dir: None,
        temp_dir: None,
        partial_dir: None,
        special: SpecialThere::default(),
        transfer_id: [0; 16],
        names: Vec::new(),
        client: None,
        privileges: fobs_model::options::Privileges::OfTheUser,
        terms: fobs_model::options::Terms::default(),
        holder: "tester".to_owned(),
        budget: fobs_model::budget::MemoryBudget::default(),
    })
    .unwrap()
}

fn spec(world: &World, client: End, survey: Option<Rules>) -> Spec {
    let source = world.source();
    let sink = keeping(world, &source);
    Spec { source, sink, survey, client, ..World::new().spec() }
}

/// A transfer that breaks off once some chunks are stored; how much that was, bytes.
fn interrupt(world: &World, client: End) -> u64 {
    let datagrams: Datagrams = Box::new(|_, datagram| match data_header(datagram) {
        Some(header) if header.chunk >= CHUNKS => Vec::new(),
        _ => vec![Out::Peer(datagram.to_vec())],
    });
    let session = Session::start(Spec { datagrams: Some(datagrams), ..spec(world, client, None) });
    let at_receiver = session.at_receiver.clone();
    wait_until("most chunks are stored", || at_receiver.bytes() >= 5 << 20);
    session.control.cut();
    let (sent, received) = session.join();
    assert!(sent.is_err() && received.is_err());
    at_receiver.bytes()
}

/// The second transfer: its figures, what it said, and what the receiver sent as decisions.
fn go_on(world: &World, client: End, rules: Rules) -> (Complete, Vec<String>) {
    let session = Session::start(spec(world, client, Some(rules)));
    let at_client = match client {
        End::Sender => session.at_sender.clone(),
        End::Receiver => session.at_receiver.clone(),
    };
    let (sent, received) = session.join();
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!(sent.complete, received.complete);
    world.expect_copied();
    (sent.complete, at_client.notices())
}

#[test]
fn an_interrupted_file_goes_on_where_it_ended() {
    for client in End::BOTH {
        let world = World::with_file("file", LEN);
        let moved = interrupt(&world, client);
        let (complete, notices) = go_on(&world, client, Rules::default());
        assert_eq!((complete.files, complete.bytes), (1, LEN as u64));
        // Verified is not yet stored: the last chunks may be sent again.
        let resumed = complete.resumed_bytes;
        assert!(resumed >= 4 << 20 && resumed <= moved, "{resumed} of {moved}");
        assert_eq!(notices, Vec::<String>::new());
    }
}

#[test]
fn what_one_way_began_the_other_finishes() {
    for first in End::BOTH {
        let world = World::with_file("file", LEN);
        let over = |streams: bool, survey| {
            let halted = Arc::new(AtomicBool::new(survey));
            let doors = doors_up_to(6 << 20, halted.clone());
            let streams = streams.then_some((doors, TransportChoice::Tcp { count: Some(2) }));
            // Where streams carry the data, no datagram passes.
            let blocked = streams.is_some();
            let datagrams: Datagrams = Box::new(move |_, datagram| match data_header(datagram) {
                _ if blocked => Vec::new(),
                Some(header) if !survey && header.chunk >= CHUNKS => Vec::new(),
                _ => vec![Out::Peer(datagram.to_vec())],
            });
            let survey = survey.then(Rules::default);
            Session::start(Spec { streams, datagrams: Some(datagrams), ..spec(&world, End::Sender, survey) })
        };
        let session = over(first == End::Sender, false);
        let at_receiver = session.at_receiver.clone();
        wait_until("most chunks are stored", || at_receiver.bytes() >= 5 << 20);
        session.control.cut();
        let (sent, received) = session.join();
        assert!(sent.is_err() && received.is_err());
        let (sent, received) = over(first != End::Sender, true).join();
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_eq!(sent.complete, received.complete);
        world.expect_copied();
        assert!(sent.complete.resumed_bytes >= 4 << 20, "{}", sent.complete.resumed_bytes);
        assert_eq!(sent.finished.transport, if first == End::Sender { "udp" } else { "tcp" });
    }
}

/// Streams on which the sender's bytes stop after so many, unless all may pass.
fn doors_up_to(bytes: usize, all: Arc<AtomicBool>) -> Doors {
    let mut passed = 0;
    Doors::meddling(move |_, from, part| {
        passed += if from == End::Sender { part.len() } else { 0 };
        if passed > bytes && !all.load(Ordering::Relaxed) { Fate::Stall } else { Fate::Pass }
    })
}

#[test]
fn an_interrupted_tree_sends_no_complete_file_again() {
    for client in End::BOTH {
        let world = World::new();
        for number in 0..300_usize {
            world.write(&format!("d{}/{number}", number % 7), &content(number * 331, number as u64));
        }
        world.write("big/file", &content(LEN, 9));
        world.write("other/file", &content(LEN, 10));
        interrupt(&world, client);
        let (complete, notices) = go_on(&world, client, Rules::default());
        let total = 2 * LEN + (0..300).map(|number| number * 331).sum::<usize>();
        assert_eq!((complete.files, complete.bytes), (302, total as u64));
        assert!(complete.resumed_bytes >= 4 << 20, "{}", complete.resumed_bytes);
        assert_eq!(notices, Vec::<String>::new());
        // Complete: nothing is left to go on with.
        assert!(keeping(&world, &world.source()).history().is_none());
    }
}

#[test]
fn a_changed_source_starts_over_and_says_so() {
    for client in End::BOTH {
        let world = World::with_file("file", LEN);
        interrupt(&world, client);
        let later = SystemTime::now() + Duration::from_secs(10);
        let file = fs::File::options().append(true).open(world.from().join("file")).unwrap();
        file.set_modified(later).unwrap();
        let (complete, notices) = go_on(&world, client, Rules::default());
        assert_eq!((complete.resumed_bytes, complete.bytes), (0, LEN as u64));
        assert!(notices.len() == 1 && notices[0].contains("'file' changed"), "{notices:?}");
    }
}

#[test]
fn by_checksum_a_changed_content_starts_over() {
    for client in End::BOTH {
        let world = World::with_file("file", LEN);
        interrupt(&world, client);
        // The same size, time and inode.
        let path = world.from().join("file");
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let mut changed = content(LEN, 1);
        changed[7] ^= 1;
        fs::write(&path, &changed).unwrap();
        fs::File::options().append(true).open(&path).unwrap().set_modified(modified).unwrap();
        let by_content = Rules { compare: CompareBy::Content, ..Rules::default() };
        let (complete, _) = go_on(&world, client, by_content);
        assert_eq!((complete.resumed_bytes, complete.bytes), (0, LEN as u64));
    }
}

#[test]
fn by_checksum_what_is_equal_is_not_sent_again() {
    let world = World::with_file("file", LEN);
    world.write("a", &content(5 << 20, 3));
    world.write("b", &content(5 << 20, 4));
    interrupt(&world, End::Sender);
    let by_content = Rules { compare: CompareBy::Content, ..Rules::default() };
    let (complete, _) = go_on(&world, End::Sender, by_content);
    assert!(complete.resumed_bytes >= 4 << 20, "{}", complete.resumed_bytes);
}

#[test]
fn a_file_of_another_program_is_continued_if_it_is_the_beginning() {
    let append = Rules { append: Append::IfEqual, ..Rules::default() };
    for (len, spoilt, resumed) in [
        (9 * GROUP + 77, false, 9 * GROUP),
        (9 * GROUP, true, 0),
        (GROUP - 1, false, 0),
        (LEN, false, LEN / GROUP * GROUP),
        (LEN + 1, false, 0),
    ] {
        let world = World::with_file("file", LEN);
        let mut begun = content(LEN, 1);
        begun.resize(len, 0);
        if spoilt {
            begun[len / 2] ^= 1;
        }
        fs::write(world.to().join("file"), &begun).unwrap();
        let (complete, _) = go_on(&world, End::Sender, append);
        assert_eq!((complete.resumed_bytes, complete.bytes), (resumed as u64, LEN as u64), "{len}");
    }
}

/// Bytes of a file that could not be read within a test.
const HUGE: u64 = 100_000_000_000;

#[test]
fn what_is_stored_of_a_huge_file_is_not_read_again() {
    let world = World::new();
    let path = world.from().join("file");
    let file = fs::File::create(&path).unwrap();
    file.set_len(HUGE).unwrap();
    let len = HUGE / GROUP as u64 * GROUP as u64 - (1 << 20);
    let there = world.to().join("file");
    fs::File::create(&there).unwrap().set_len(len).unwrap();
    // As an earlier run would have recorded it. Nobody reads what the values stand for, so any will do.
    let identity = |path: &Path| {
        let meta = fs::metadata(path).unwrap();
        let (mtime_s, mtime_ns) = (meta.mtime(), meta.mtime_nsec() as u32);
        Identity { size: meta.len(), mtime_s, mtime_ns, inode: meta.ino() }
    };
    let stack = vec![[7; 32]; (len / 1024).count_ones().max(2) as usize];
    let Spec { source, mut sink, .. } = spec(&world, End::Sender, None);
    let adoption = Adoption {
        source: source_identity(&file).unwrap(),
        destination: identity(&there),
        len,
        stack: stack.clone(),
    };
    assert!(sink.adoptions().unwrap().offer(b"file", adoption));
    let messages: Messages = Box::new(move |from, message| match (from, message) {
        (End::Receiver, Message::Decisions { first: 0, last, .. }) => {
            let resume = Decision::Resume { len, stack: stack.clone(), check: false };
            vec![Message::Decisions { first: 0, choices: decided(&resume), last }]
        }
        (_, message) => vec![message],
    });
    let began = Instant::now();
    let survey = Some(Rules::default());
    let session =
        Session::start(Spec { messages: Some(messages), source, sink, survey, ..World::new().spec() });
    let (sent, received) = session.join();
    let (took, complete) = (began.elapsed(), sent.unwrap().complete);
    received.unwrap();
    println!("from start to end, 1 MiB of data included: {took:?}");
    assert_eq!((complete.bytes, complete.resumed_bytes), (HUGE, len));
    // Reading it would take several times as long.
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn a_survey_of_nothing_known_sends_everything() {
    for client in End::BOTH {
        let world = World::new();
        for number in 0..3000_usize {
            world.write(&format!("d{}/{number}", number % 3), &content(number % 50, number as u64));
        }
        let (complete, _) = go_on(&world, client, Rules::default());
        assert_eq!((complete.files, complete.resumed_bytes), (3000, 0));
    }
}

/// The choices for a directory with one file, on which this is decided.
fn decided(decision: &Decision) -> Bytes {
    let decisions = [Decision::Send, decision.clone(), Decision::Send];
    let choices = decisions
        .map(|decision| postcard::to_allocvec(&Choice { decision, changes: Changes::default() }).unwrap());
    Bytes(choices.concat())
}

/// Decisions with this one for the only file of a surveyed session, which follows its directory.
fn lie(decision: Decision) -> Messages {
    Box::new(move |from, message| match (from, message) {
        (End::Receiver, Message::Decisions { first: 0, last, .. }) => {
            let mut choices = Vec::new();
            for decision in [Decision::Send, decision.clone(), Decision::Send] {
                choices.extend(
                    postcard::to_allocvec(&Choice { decision, changes: Changes::default() }).unwrap(),
                );
            }
            vec![Message::Decisions { first: 0, choices: Bytes(choices), last }]
        }
        (_, message) => vec![message],
    })
}

#[test]
fn a_receiver_that_lies_about_what_it_has_ends_the_session() {
    let stack = |values| vec![[7; 32]; values];
    let resume = |len, values| Decision::Resume { len, stack: stack(values), check: false };
    for decision in [
        // Past the file's end; with fewer and with more values than its length has.
        resume(64 << 20, 2),
        resume(GROUP as u64, 0),
        resume(GROUP as u64, 9),
        resume(GROUP as u64 + 1, 2),
        resume(1 << 63, 2),
        resume(GROUP as u64, 57),
    ] {
        let world = World::with_file("file", LEN);
        let messages = Some(lie(decision.clone()));
        let session = Session::start(Spec { messages, ..spec(&world, End::Sender, Some(Rules::default())) });
        session.expect_failure(ErrorKind::Protocol);
    }
}

#[test]
fn a_hash_tree_of_another_file_does_not_verify() {
    let world = World::with_file("file", LEN);
    interrupt(&world, End::Sender);
    // The receiver's journal has the right one, so the roots differ in the end; nothing gets the file's name.
    let messages: Messages = Box::new(|from, message| match (from, message) {
        (End::Receiver, Message::Decisions { first, choices, last }) => {
            let mut rest = &choices.0[..];
            let mut altered = Vec::new();
            while !rest.is_empty() {
                let (mut choice, after) = Choice::decode(rest).unwrap();
                rest = after;
                if let Decision::Resume { stack, .. } = &mut choice.decision {
                    stack[0][0] ^= 1;
                }
                choice.encode(&mut altered);
            }
            vec![Message::Decisions { first, choices: Bytes(altered), last }]
        }
        (_, message) => vec![message],
    });
    let session = Session::start(Spec {
        messages: Some(messages),
        ..spec(&world, End::Sender, Some(Rules::default()))
    });
    let (sent, _) = session.join();
    assert_eq!(sent.unwrap_err().kind, ErrorKind::Integrity);
}

#[test]
fn a_listing_that_lies_ends_the_session() {
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap();
    for (what, first, entries) in
        [("rows are missing", 1, None), ("no batch", 0, Some(b"rubbish".to_vec())), ("a bomb", 0, Some(bomb))]
    {
        let world = World::with_file("file", LEN);
        let messages: Messages = Box::new(move |from, message| match (from, message) {
            (End::Sender, Message::Listing { entries: ours, last, .. }) => {
                let entries = entries.clone().map_or(ours, Bytes);
                vec![Message::Listing { first, entries, last }]
            }
            (_, message) => vec![message],
        });
        let session = Session::start(Spec {
            messages: Some(messages),
            ..spec(&world, End::Sender, Some(Rules::default()))
        });
        let sentences = session.expect_failure(ErrorKind::Protocol);
        assert!(sentences.iter().all(|sentence| sentence.contains("survey")), "{what}: {sentences:?}");
    }
}

#[test]
fn a_survey_that_nobody_asked_for_ends_the_session() {
    for (to, message) in [
        (End::Sender, Message::Decisions { first: 0, choices: Bytes(Vec::new()), last: true }),
        (End::Receiver, Message::Listing { first: 0, entries: Bytes(Vec::new()), last: true }),
    ] {
        let world = World::with_file("file", 6 << 20);
        let session = Session::start(Spec { datagrams: Some(hold_back()), ..world.spec() });
        world.wait_for_storing();
        session.control.say(to, &message);
        session.expect_failure(ErrorKind::Protocol);
    }
}

#[test]
fn a_listing_without_end_ends_the_session() {
    let world = World::with_file("file", 6 << 20);
    // Its decisions take long: a file of another program to compare.
    let append = Rules { append: Append::IfEqual, ..Rules::default() };
    let session =
        Session::start(Spec { datagrams: Some(hold_back()), ..spec(&world, End::Sender, Some(append)) });
    for first in 0..100 {
        let entries = Bytes(zstd::bulk::compress(&[], 1).unwrap());
        session.control.say(End::Receiver, &Message::Listing { first, entries, last: true });
    }
    session.expect_failure(ErrorKind::Protocol);
}
