//! Every state of a session, taken from the messages of a good one, in which one end falls silent or keeps a
//! step to itself: either clock of `--timeout` ends both ends, at the client or at the server.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fobs_model::message::Message;
use fobs_proto::session::OwnEnd;
use fobs_store::survey::Rules;

use super::support::*;
use crate::EndsAt;

const TIMEOUT: Duration = Duration::from_secs(2);
/// As good as none.
const LONG: Duration = Duration::from_secs(3600);
/// Far longer than the clock of the server, which runs later, takes on a busy machine.
const AT_MOST: Duration = Duration::from_secs(40);
/// Sessions at once: they sleep.
const AT_ONCE: usize = 24;
/// Longer than a file of which pieces are listed must be.
const LEN: usize = 400_000;

/// How an end fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It takes a step, and all that follow, without a word over the control channel.
    MuteThere,
    /// Without any word.
    Mute,
    /// It never takes that step, and all else goes on.
    Withheld,
}

const FAULTS: [Fault; 3] = [Fault::MuteThere, Fault::Mute, Fault::Withheld];

/// A message of one end, by its name.
type Step = (bool, String);

fn step(from: End, message: &Message) -> Step {
    let value = serde_json::to_value(message).expect("a message");
    (from == End::Sender, value["type"].as_str().unwrap_or_default().to_owned())
}

/// Two versions of a file, so that there is something to list, to decide and to take pieces of.
fn world() -> World {
    let world = World::new();
    let mut old = content(LEN, 1);
    world.write("file", &old);
    old[LEN / 2] ^= 1;
    std::fs::write(world.to().join("file"), old).unwrap();
    world
}

fn spec(world: &World, client: End) -> Spec {
    Spec { client, survey: Some(Rules::default()), pieces: Some([5; 32]), ..world.spec() }
}

/// The steps of a good session.
fn steps(client: End) -> BTreeSet<Step> {
    let seen: Arc<Mutex<BTreeSet<Step>>> = Arc::default();
    let note = seen.clone();
    let messages: Messages = Box::new(move |from, message| {
        note.lock().unwrap().insert(step(from, &message));
        vec![message]
    });
    let world = world();
    let (sent, received) = Session::start(Spec { messages: Some(messages), ..spec(&world, client) }).join();
    assert_eq!(sent.unwrap().complete, received.unwrap().complete);
    world.expect_copied();
    std::mem::take(&mut *seen.lock().unwrap())
}

/// Which end has the clock; the other one would wait for an hour.
fn watched_by(server: bool, client: End, world: &World) -> Spec {
    let of = |timeout, standstill| Endurance { timeout, standstill, ..Endurance::for_peer(None) };
    let (endurance, of_server) = if server {
        (of(LONG, EndsAt::SilenceOnly), of(TIMEOUT, EndsAt::NothingNewOfClient))
    } else {
        (of(TIMEOUT, EndsAt::NothingNew(OwnEnd::Files)), of(LONG, EndsAt::SilenceOnly))
    };
    Spec { endurance, of_server: Some(of_server), ..spec(world, client) }
}

/// Plays a session in which an end fails so at a step; what remains of it after both ends have ended.
fn ends(server: bool, client: End, fault: Fault, at: &Step) -> Result<(), String> {
    let world = world();
    let reached = Arc::new(AtomicBool::new(false));
    let (on_datagrams, sender_fails, at_step) = (reached.clone(), at.0, at.clone());
    let messages: Messages = Box::new(move |from, message| {
        let is_faulty = (from == End::Sender) == at_step.0;
        let is_here = is_faulty && step(from, &message) == at_step;
        if is_here {
            reached.store(true, Ordering::SeqCst);
        }
        let is_lost = match fault {
            Fault::Withheld => is_here,
            Fault::MuteThere | Fault::Mute => is_faulty && reached.load(Ordering::SeqCst),
        };
        if is_lost { Vec::new() } else { vec![message] }
    });
    let datagrams: Datagrams = Box::new(move |from, datagram| {
        let is_mute = fault == Fault::Mute && on_datagrams.load(Ordering::SeqCst);
        if is_mute && (from == End::Sender) == sender_fails {
            Vec::new()
        } else {
            vec![Out::Peer(datagram.to_vec())]
        }
    });
    let spec =
        Spec { messages: Some(messages), datagrams: Some(datagrams), ..watched_by(server, client, &world) };
    let ended = Session::start(spec).join_within(AT_MOST);
    let (sent, received) = ended.map_err(|[sender, receiver]| {
        let who = if server { "server" } else { "client" };
        format!(
            "{at:?} {fault:?}, {client:?} calls, the {who} watches: sender {sender}, receiver {receiver} left"
        )
    })?;
    // A step that the others do not need is none that ends it.
    if sent.is_ok() && received.is_ok() {
        world.expect_copied();
    }
    Ok(())
}

#[test]
fn a_silent_peer_ends_every_state_of_a_session() {
    let mut plays = Vec::new();
    for client in End::BOTH {
        let steps = steps(client);
        for expected in ["listing", "basis", "decisions", "complete", "finished"] {
            assert!(steps.iter().any(|(_, name)| name == expected), "{expected} of {steps:?}");
        }
        for at in steps {
            for fault in FAULTS {
                plays.extend([false, true].map(|server| (server, client, fault, at.clone())));
            }
        }
    }
    let (plays, hanging) = (Mutex::new(plays), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((server, client, fault, at)) = plays.lock().unwrap().pop() else { return };
                    if let Err(what) = ends(server, client, fault, &at) {
                        hanging.lock().unwrap().push(what);
                    }
                }
            });
        }
    });
    let hanging = hanging.into_inner().unwrap();
    assert!(hanging.is_empty(), "{hanging:#?}");
}
