//! The clock of `--timeout`: each state in which a peer is heard and nothing new comes of it ends in time.

use std::time::Duration;

use fobs_model::error::ErrorKind;
use fobs_model::message::Message;
use fobs_proto::session::OwnEnd;
use fobs_proto::wire::Ack;
use fobs_store::survey::Rules;

use super::relay::Insider;
use super::support::*;
use crate::EndsAt;

const TIMEOUT: Duration = Duration::from_secs(2);

/// The side that called has the clock; the other one endures whatever it is asked to.
fn watched(world: &World) -> Spec {
    let endurance = Endurance {
        timeout: TIMEOUT,
        standstill: EndsAt::NothingNew(OwnEnd::Files),
        ..Endurance::for_peer(None)
    };
    Spec { endurance, ..world.spec() }
}

/// Plays a session that must come to a standstill; the sender's sentence.
#[track_caller]
fn stands_still(spec: Spec) -> String {
    let (sent, _) = Session::start(spec).join();
    let error = sent.expect_err("nothing new is verified");
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    error.message
}

fn lying(mut lie: impl FnMut(&mut Ack) + Send + 'static) -> Datagrams {
    let mut insider = Insider::receiver();
    Box::new(move |from, datagram| match from {
        End::Sender => vec![Out::Peer(datagram.to_vec())],
        End::Receiver => vec![Out::Peer(insider.rewrite_ack(datagram, &mut lie))],
    })
}

#[test]
fn only_probes_pass_and_are_answered() {
    let world = World::with_file("file", 6 << 20);
    let datagrams: Datagrams = Box::new(|from, datagram| match from {
        End::Sender if data_header(datagram).is_some() => Vec::new(),
        _ => vec![Out::Peer(datagram.to_vec())],
    });
    stands_still(Spec { datagrams: Some(datagrams), ..watched(&world) });
    world.expect_nothing();
}

#[test]
fn everything_is_acknowledged_and_no_credit_comes() {
    let world = World::with_file("file", 48 << 20);
    let datagrams = lying(|ack| ack.chunk_limit = ack.chunk_limit.min(1));
    // Where the receiver called, the sender begins without credit.
    let spec = Spec { client: End::Receiver, datagrams: Some(datagrams), ..watched(&world) };
    let said = stands_still(spec);
    assert!(said.contains("nothing new was verified for 2 s"), "{said}");
}

#[test]
fn everything_is_called_verified_and_no_end_comes() {
    let world = World::with_file("file", 6 << 20);
    let messages: Messages = Box::new(|_, message| match message {
        Message::Complete(_) => Vec::new(),
        message => vec![message],
    });
    let datagrams = lying(|ack| ack.verified_below = 10_000);
    let spec = Spec { datagrams: Some(datagrams), messages: Some(messages), ..watched(&world) };
    let said = stands_still(spec);
    assert!(said.contains("nothing new was verified for 2 s"), "{said}");
}

#[test]
fn decisions_never_come_and_empty_chunks_do() {
    let world = World::with_file("file", 6 << 20);
    let messages: Messages = Box::new(|_, message| match message {
        Message::Decisions { .. } => Vec::new(),
        message => vec![message],
    });
    let spec = Spec { messages: Some(messages), survey: Some(Rules::default()), ..watched(&world) };
    let said = stands_still(spec);
    assert!(said.contains("nothing new was verified for 2 s"), "{said}");
    world.expect_nothing();
}

#[test]
fn a_slow_transfer_that_verifies_something_goes_on() {
    // A chunk each second: every one of them is news.
    let world = World::with_file("file", 6 << 20);
    let mut count = 0u64;
    let datagrams: Datagrams = Box::new(move |from, datagram| {
        count += u64::from(from == End::Sender);
        if from == End::Sender && count.is_multiple_of(40) {
            std::thread::sleep(Duration::from_millis(20));
        }
        vec![Out::Peer(datagram.to_vec())]
    });
    let (sent, received) = Session::start(Spec { datagrams: Some(datagrams), ..watched(&world) }).join();
    assert_eq!(sent.expect("it goes on").complete, received.expect("it goes on").complete);
    world.expect_copied();
}
