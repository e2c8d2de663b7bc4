//! Which session gives way at a destination.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

const ANN: ClientId = [1; 16];
const BOB: ClientId = [2; 16];

/// One client's command.
#[derive(Debug, Clone, Copy)]
struct Command {
    transfer_id: TransferId,
    client: Option<ClientId>,
    source: &'static [u8],
}

/// What the session of another command learns.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    TakesOver,
    Refused,
}

fn command(transfer_id: u8, client: ClientId) -> Command {
    Command { transfer_id: [transfer_id; 16], client: Some(client), source: b"x" }
}

fn open(directory: &Path, command: Command) -> Result<Journal> {
    let directory = Arc::new(OwnedFd::from(File::open(directory).expect("the directory")));
    let spec = JournalSpec {
        directory: &directory,
        top: Top::As(b"x"),
        sources: &[command.source.to_vec()],
        keep: Partial::Keep,
        transfer_id: command.transfer_id,
        client: command.client,
        terms: Terms::default(),
        holder: "the first client",
        budget: &fobs_model::budget::MemoryBudget::default(),
        destination: b"place/x",
        may_repeat: false,
    };
    Journal::open(&spec, &mut Vec::new()).map(|journal| journal.expect("this file system has locks"))
}

/// Whether the engine of a session finds its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Here,
    Absent,
}

/// What an engine does; whether it ends its session.
fn ends(watch: &TakeoverWatch, client: Client) -> bool {
    match (watch.asked(), client) {
        (Asked::ToEnd, _) | (Asked::ToEndIfAbsent, Client::Absent) => return true,
        (Asked::ToEndIfAbsent, Client::Here) => watch.refuse(),
        (Asked::Nothing, _) => {}
    }
    false
}

/// What becomes of `second` while `first` runs, whose engine finds its client so.
fn ask(first: Command, client: Client, second: Command) -> Answer {
    let place = tempfile::tempdir().expect("a directory");
    let held = open(place.path(), first).expect("nobody else is there");
    let watch = held.watch();
    thread::scope(|scope| {
        let second = scope.spawn(|| open(place.path(), second));
        let mut held = Some(held);
        while !second.is_finished() {
            if held.is_some() && ends(&watch, client) {
                held = None;
            }
            thread::yield_now();
        }
        match second.join().expect("no panic") {
            Ok(_) => {
                assert!(held.is_none(), "two hold the lock");
                Answer::TakesOver
            }
            Err(error) => {
                assert!(held.is_some() && error.kind == ErrorKind::Destination, "{error}");
                for named in ["'place/x'", "the first client", &std::process::id().to_string()] {
                    assert!(error.message.contains(named), "{error}");
                }
                Answer::Refused
            }
        }
    })
}

#[test]
fn a_session_of_the_same_command_takes_over_whatever_its_client_does() {
    for client in [Client::Here, Client::Absent] {
        assert_eq!(ask(command(7, ANN), client, command(7, ANN)), Answer::TakesOver, "{client:?}");
        let local = Command { client: None, ..command(7, ANN) };
        assert_eq!(ask(local, client, local), Answer::TakesOver, "{client:?}");
    }
}

#[test]
fn the_same_client_takes_over_only_where_it_is_absent() {
    assert_eq!(ask(command(7, ANN), Client::Absent, command(8, ANN)), Answer::TakesOver);
    assert_eq!(ask(command(7, ANN), Client::Here, command(8, ANN)), Answer::Refused);
}

#[test]
fn nobody_else_takes_over() {
    let first = command(7, ANN);
    let others = [
        command(8, BOB),
        Command { client: None, ..command(8, ANN) },
        Command { source: b"another source", ..command(8, ANN) },
    ];
    for other in others {
        assert_eq!(ask(first, Client::Absent, other), Answer::Refused, "{other:?}");
    }
    // Neither do commands without an id, which programs of an earlier day are, nor those of one host.
    let nameless = Command { client: None, ..command(0, ANN) };
    assert_eq!(ask(nameless, Client::Absent, nameless), Answer::Refused);
}

#[test]
fn of_two_that_come_at_once_one_takes_over() {
    let place = tempfile::tempdir().expect("a directory");
    let held = open(place.path(), command(7, ANN)).expect("nobody else is there");
    let watch = held.watch();
    let refused = AtomicBool::new(false);
    let come = |id: u8| match open(place.path(), command(id, ANN)) {
        Ok(journal) => {
            // Its client is here.
            while !refused.load(Ordering::Relaxed) {
                assert!(!ends(&journal.watch(), Client::Here));
                thread::yield_now();
            }
            Answer::TakesOver
        }
        Err(_) => {
            refused.store(true, Ordering::Relaxed);
            Answer::Refused
        }
    };
    thread::scope(|scope| {
        let come = &come;
        let others = [8, 9].map(|id| scope.spawn(move || come(id)));
        while !ends(&watch, Client::Absent) {
            thread::yield_now();
        }
        drop(held);
        let answers = others.map(|other| other.join().expect("no panic"));
        assert!(answers.contains(&Answer::TakesOver) && answers.contains(&Answer::Refused), "{answers:?}");
    });
}

#[test]
fn a_claim_that_cannot_rise_does_no_harm() {
    let place = tempfile::tempdir().expect("a directory");
    let held = open(place.path(), command(7, ANN)).expect("nobody else is there");
    let claim = Claim { generation: u64::MAX, refused: u64::MAX, ..Claim::default() };
    let (bytes, at) = encode_claim(held.book.salt(), &claim);
    held.book.store().write_at(&bytes, at).expect("it is ours");
    assert!(open(place.path(), command(8, ANN)).is_err());
}
