//! Peers whose address changes, and others who pretend that it does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::relay::Insider;
use super::support::*;
use crate::link::PATH_DATAGRAM_LEN;
use fobs_proto::wire::{AEAD_TAG_LEN, PLAIN_HEADER_LEN};

/// Bytes of the smallest packet that authenticates.
const PING_LEN: usize = PLAIN_HEADER_LEN + AEAD_TAG_LEN;

/// Datagrams of the client before anything happens: well after the first contact.
const BEFORE: u64 = 12;

/// The client's datagrams, counted, by `act` once there have been enough; the server's as they are.
fn of_client(client: End, mut act: impl FnMut(u64, &[u8]) -> Vec<Out> + Send + 'static) -> Datagrams {
    let mut count = 0;
    Box::new(move |from, datagram| {
        if from != client {
            return vec![Out::Peer(datagram.to_vec())];
        }
        count += 1;
        if count < BEFORE { vec![Out::Peer(datagram.to_vec())] } else { act(count, datagram) }
    })
}

#[test]
fn a_client_that_gets_another_address_goes_on() {
    for validation in [VALIDATION, PathValidation::Newest] {
        for client in End::BOTH {
            let world = World::with_file("file", 8 << 20);
            let datagrams = of_client(client, |_, datagram| vec![Out::Rebound(datagram.to_vec())]);
            let spec = Spec { client, validation, datagrams: Some(datagrams), ..world.spec() };
            let (sent, received) = Session::start(spec).join();
            world.expect_copied();
            assert_eq!(sent.unwrap().complete, received.unwrap().complete, "{client:?} {validation:?}");
        }
    }
}

#[test]
fn copies_from_elsewhere_do_not_move_the_traffic() {
    for client in End::BOTH {
        let world = World::with_file("file", 8 << 20);
        let copied = Arc::new(AtomicU64::new(0));
        let bytes = copied.clone();
        // Somebody on the path is faster than the path: every datagram of the client arrives as a copy first.
        let datagrams = of_client(client, move |_, datagram| {
            bytes.fetch_add(datagram.len() as u64, Ordering::Relaxed);
            vec![Out::Stranger(datagram.to_vec()), Out::Peer(datagram.to_vec())]
        });
        let session = Session::start(Spec { client, datagrams: Some(datagrams), ..world.spec() });
        let relay = session.relay.clone().expect("there is one");
        let (sent, received) = session.join();
        world.expect_copied();
        assert_eq!(sent.unwrap().complete, received.unwrap().complete, "{client:?}");
        let at_stranger = relay.at_stranger();
        assert!(!at_stranger.is_empty(), "it is challenged");
        assert!(at_stranger.iter().all(|len| *len == PATH_DATAGRAM_LEN), "{at_stranger:?}");
        let total = at_stranger.iter().sum::<usize>() as u64;
        assert!(total <= 3 * copied.load(Ordering::Relaxed), "{total}");
    }
}

/// Datagrams of the client before one comes from elsewhere: the server has heard it, and few follow while the
/// session is held.
const EARLY: u64 = 4;
/// How long an address without proof is watched: in which it would be challenged three times.
const WATCHED: Duration = Duration::from_millis(1200);

/// A session of whose client one small packet comes from elsewhere, and no second one.
fn expect_little_is_sent_for_little(client: End) {
    let world = World::with_file("file", 8 << 20);
    let open = Arc::new(AtomicBool::new(false));
    let mut passes = hold_back_until(open.clone());
    let mut insider = Some(if client == End::Sender { Insider::sender() } else { Insider::receiver() });
    let mut of_client = 0;
    let datagrams: Datagrams = Box::new(move |from, datagram| {
        of_client += u64::from(from == client);
        // Not in place of data: that would count as delivered.
        if from == client
            && of_client >= EARLY
            && data_header(datagram).is_none()
            && let Some(mut insider) = insider.take()
        {
            let ping = insider.ping(datagram);
            assert_eq!(ping.len(), PING_LEN);
            return vec![Out::Stranger(ping)];
        }
        passes(from, datagram)
    });
    let session = Session::start(Spec { client, datagrams: Some(datagrams), ..world.spec() });
    let relay = session.relay.clone().expect("there is one");
    wait_until("the new address is challenged", || !relay.at_stranger().is_empty());
    std::thread::sleep(WATCHED);
    let sent: usize = relay.at_stranger().iter().sum();
    assert!((PATH_DATAGRAM_LEN..=3 * PING_LEN).contains(&sent), "{sent} bytes for {PING_LEN}");
    open.store(true, Ordering::Relaxed);
    let (sent, received) = session.join();
    world.expect_copied();
    assert_eq!(sent.unwrap().complete, received.unwrap().complete, "{client:?}");
}

#[test]
fn an_unproven_address_gets_at_most_three_times_what_came_from_it() {
    std::thread::scope(|scope| {
        for client in End::BOTH {
            scope.spawn(move || expect_little_is_sent_for_little(client));
        }
    });
}

#[test]
fn a_first_address_that_nothing_proves_costs_one_round_trip() {
    for client in End::BOTH {
        let world = World::with_file("file", 2 << 20);
        let validation = PathValidation::Challenge { proven: None };
        let (sent, received) = Session::start(Spec { client, validation, ..world.spec() }).join();
        world.expect_copied();
        assert_eq!(sent.unwrap().complete, received.unwrap().complete, "{client:?}");
    }
}

#[test]
fn a_client_that_moves_again_and_again_goes_on() {
    let client = End::Receiver;
    let world = World::with_file("file", 8 << 20);
    // Datagrams alternate between two addresses, and older ones come late.
    let mut late = VecDeque::new();
    let datagrams = of_client(client, move |count, datagram| {
        late.push_back(datagram.to_vec());
        let old = if late.len() > 3 { late.pop_front() } else { None };
        let now = datagram.to_vec();
        let now = if count % 2 == 0 { Out::Stranger(now) } else { Out::Peer(now) };
        old.map(Out::Peer).into_iter().chain([now]).collect()
    });
    let (sent, received) = Session::start(Spec { client, datagrams: Some(datagrams), ..world.spec() }).join();
    world.expect_copied();
    assert_eq!(sent.unwrap().complete, received.unwrap().complete);
}
