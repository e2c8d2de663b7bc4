//! Sessions of several lanes: one is cut, one leads nowhere, one spoils, one lies.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fobs_proto::sender::SenderConfig;

use super::relay::{Insider, Relay};
use super::support::*;
use crate::{CHUNKS_MAX, LaneSetup, LanesSetup, lane_configs, lanes_window, sender_config};
use fobs_channel::secure::schedule::{DatagramKeys, KeySchedule, SessionKeys, SessionSecret};
use fobs_model::error::ErrorKind;
use fobs_model::message::{Message, Sending};

/// The lanes beside the first at both ends.
pub struct Lanes {
    pub of_sender: Option<(LanesSetup, Vec<SenderConfig>)>,
    pub of_receiver: Option<LanesSetup>,
    pub relays: Vec<Relay>,
}

impl Lanes {
    pub fn start(
        client: End,
        sending: &Sending,
        paths: Vec<Option<Datagrams>>,
        validation: PathValidation,
    ) -> Lanes {
        if paths.is_empty() {
            return Lanes { of_sender: None, of_receiver: None, relays: Vec::new() };
        }
        let count = paths.len() + 1;
        let numbers: Vec<u8> = (0..count as u8).collect();
        let (mut ends, mut relays) = ([Vec::new(), Vec::new()], Vec::new());
        for (lane, decide) in (1..).zip(paths) {
            let ([sender, receiver], server) = sockets(client);
            let relay = decide.map(|decide| Relay::start(client, server, decide));
            let called = relay.as_ref().map_or(server, |relay| relay.address);
            relays.extend(relay);
            for (end, socket) in End::BOTH.into_iter().zip([sender, receiver]) {
                let candidates = if end == client { vec![called] } else { Vec::new() };
                let link = link_of(end, keys_of(lane, count), (socket, candidates), validation);
                let place = usize::from(end == End::Receiver);
                ends[place].push(LaneSetup { link, name: format!("path {lane}") });
            }
        }
        let window = lanes_window(CHUNKS_MAX);
        let setup =
            |further| LanesSetup { further, paths: numbers.clone(), first: "path 0".to_owned(), window };
        let [of_sender, of_receiver] = ends.map(setup);
        let credit = if client == End::Sender { CHUNKS_MAX / 2 / count as u32 } else { 0 };
        let mut configs =
            lane_configs(&numbers, || sender_config(sending, None, credit, CHUNKS_MAX)).unwrap();
        Lanes { of_sender: Some((of_sender, configs.split_off(1))), of_receiver: Some(of_receiver), relays }
    }
}

/// The keys of one of these lanes, from 1 on.
fn keys_of(lane: usize, lanes: usize) -> DatagramKeys {
    let secret = SessionSecret::new(SECRET);
    SessionKeys::with_lanes(secret, KeySchedule::Second, CIPHER, lanes).lanes.swap_remove(lane - 1)
}

/// Passes everything, and counts the sender's datagrams.
fn counted(count: Arc<AtomicUsize>) -> Datagrams {
    Box::new(move |from, datagram| {
        if from == End::Sender {
            count.fetch_add(1, Ordering::Relaxed);
        }
        vec![Out::Peer(datagram.to_vec())]
    })
}

/// Passes as many of the sender's datagrams, and then nothing any more.
fn cut_after(datagrams: usize) -> Datagrams {
    let mut passed = 0;
    Box::new(move |from, datagram| {
        passed += usize::from(from == End::Sender);
        if passed > datagrams { Vec::new() } else { vec![Out::Peer(datagram.to_vec())] }
    })
}

#[test]
fn two_lanes_bring_a_file_and_both_carry_it() {
    for client in End::BOTH {
        let world = World::with_file("file", 40 << 20);
        let [first, second] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
        let session = Session::start(Spec {
            client,
            datagrams: Some(counted(first.clone())),
            lanes: vec![Some(counted(second.clone()))],
            ..world.spec()
        });
        let (sent, received) = session.join();
        let (sent, received) = (sent.unwrap(), received.unwrap());
        world.expect_copied();
        assert_eq!(sent.complete, received.complete);
        for (lane, count) in [first, second].iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            assert!(count > 50, "{client:?}: lane {lane} carried {count} datagrams");
        }
        assert_eq!(sent.finished.lanes.len().min(2), 2, "{:?}", sent.finished.lanes);
    }
}

#[test]
fn sixteen_lanes_bring_many_files() {
    let world = World::new();
    for file in 0..300 {
        world.write(&format!("d{}/f{file}", file % 7), &content(file * 997, file as u64));
    }
    let session = Session::start(Spec { lanes: (1..16).map(|_| None).collect(), ..world.spec() });
    let (sent, received) = session.join();
    assert_eq!(sent.unwrap().complete, received.unwrap().complete);
    world.expect_copied();
}

#[test]
fn a_lane_that_is_cut_gives_its_chunks_to_the_others() {
    for client in End::BOTH {
        for dead in [0, 1] {
            let world = World::with_file("file", 40 << 20);
            let mut paths = [None, None];
            paths[dead] = Some(cut_after(2_000));
            let [datagrams, lane] = paths;
            let session = Session::start(Spec { client, datagrams, lanes: vec![lane], ..world.spec() });
            let (sent, received) = session.join();
            let (sent, received) = (sent.unwrap(), received.unwrap());
            world.expect_copied();
            assert_eq!(sent.complete, received.complete, "{client:?} {dead}");
        }
    }
}

#[test]
fn a_lane_that_leads_nowhere_is_told_and_the_others_go_on() {
    for client in End::BOTH {
        let world = World::with_file("file", 60 << 20);
        let open = Arc::new(AtomicBool::new(false));
        let nowhere: Datagrams = Box::new(|_, _| Vec::new());
        let session = Session::start(Spec {
            client,
            datagrams: Some(hold_back_until(open.clone())),
            lanes: vec![Some(nowhere)],
            ..world.spec()
        });
        let told = [session.at_sender.clone(), session.at_receiver.clone()];
        wait_until("the lane is told", || {
            told.iter()
                .all(|end| end.notices().iter().any(|line| line.contains("no datagram came by path 1")))
        });
        open.store(true, Ordering::Relaxed);
        let (sent, received) = session.join();
        assert_eq!(sent.unwrap().complete, received.unwrap().complete);
        world.expect_copied();
    }
}

#[test]
fn a_session_whose_lanes_are_all_silent_ends() {
    let world = World::with_file("file", 1 << 20);
    let nowhere = || -> Datagrams { Box::new(|_, _| Vec::new()) };
    let session =
        Session::start(Spec { datagrams: Some(nowhere()), lanes: vec![Some(nowhere())], ..world.spec() });
    for sentence in session.expect_failure(ErrorKind::Connect) {
        assert!(sentence.contains("no UDP datagram came through"), "{sentence}");
    }
    world.expect_nothing();
}

#[test]
fn a_chunk_that_a_lane_spoils_is_sent_again_on_that_lane() {
    let world = World::with_file("file", 40 << 20);
    let rejected = Arc::new(Mutex::new(Vec::new()));
    let seen = rejected.clone();
    let messages: Messages = Box::new(move |_, message| {
        if let Message::LaneRejected { lane, chunk, .. } = message {
            seen.lock().unwrap().push((lane, chunk));
        }
        vec![message]
    });
    // All of the first lane, because a slow host may give any one of them to the other lane in between.
    let (datagrams, lanes) = (Some(spoiling_from(0, 1)), vec![Some(hold_back())]);
    let session = Session::start(Spec { datagrams, lanes, messages: Some(messages), ..world.spec() });
    let (sent, received) = session.join();
    assert_eq!(sent.unwrap().complete, received.unwrap().complete);
    world.expect_copied();
    let rejected = std::mem::take(&mut *rejected.lock().unwrap());
    assert!(!rejected.is_empty() && rejected.iter().all(|(lane, _)| *lane == 0), "{rejected:?}");
    let once: BTreeSet<_> = rejected.iter().collect();
    assert_eq!(once.len(), rejected.len(), "{rejected:?}");
}

/// The first lane of a peer with the keys, which ends chunks as `lie` says of their last four bytes.
fn lying(mut lie: impl FnMut(u32) -> u32 + Send + 'static) -> Datagrams {
    let mut insider = Insider::sender();
    Box::new(move |from, datagram| {
        if from == End::Receiver || data_header(datagram).is_none() {
            return vec![Out::Peer(datagram.to_vec())];
        }
        let rewritten = insider.rewrite_data(datagram, |header, body| {
            let number = body.last_chunk_mut::<4>().filter(|_| header.last)?;
            *number = lie(u32::from_le_bytes(*number)).to_le_bytes();
            Some(*header)
        });
        vec![Out::Peer(rewritten)]
    })
}

#[test]
fn numbers_that_no_chunk_can_have_end_both_sides() {
    for (what, lie) in [
        ("beyond", (|number| number + 1000) as fn(u32) -> u32),
        ("no end", |_| u32::MAX),
        ("an end before others", |number| if number > 4 { 2 | 1 << 31 } else { number }),
    ] {
        let world = World::with_file("file", 40 << 20);
        let (datagrams, lanes) = (Some(lying(lie)), vec![Some(hold_back())]);
        let session = Session::start(Spec { datagrams, lanes, ..world.spec() });
        for sentence in session.expect_failure(ErrorKind::Protocol) {
            assert!(sentence.contains("lane 0 brought chunk"), "{what}: {sentence}");
        }
        world.expect_nothing();
    }
}

#[test]
fn chunks_that_change_places_are_no_copy() {
    let world = World::with_file("file", 40 << 20);
    let swapped = lying(|number| match number {
        3 => 4,
        4 => 3,
        number => number,
    });
    let session =
        Session::start(Spec { datagrams: Some(swapped), lanes: vec![Some(hold_back())], ..world.spec() });
    let (sent, received) = session.join();
    assert!(sent.is_err() && received.is_err(), "{sent:?} {received:?}");
    world.expect_nothing();
}

#[test]
fn a_lane_that_the_session_has_not_ends_it() {
    for (lanes, lane) in [(Vec::new(), 0), (vec![None], 2), (vec![None], 255)] {
        let world = World::with_file("file", 6 << 20);
        let session = Session::start(Spec { datagrams: Some(hold_back()), lanes, ..world.spec() });
        session.control.say(End::Sender, &Message::LaneRejected { lane, chunk: 0, attempt: 0 });
        for sentence in session.expect_failure(ErrorKind::Protocol) {
            assert!(sentence.contains("names lane"), "{sentence}");
        }
        world.expect_nothing();
    }
}

#[test]
fn chunks_of_a_lane_that_are_called_bad_for_ever_end_both_sides() {
    for lane in [0, 1] {
        let world = World::with_file("file", 40 << 20);
        let datagrams = Some(hold_back());
        let session = Session::start(Spec { datagrams, lanes: vec![Some(hold_back())], ..world.spec() });
        world.wait_for_storing();
        let (control, over) = (session.control.clone(), Arc::new(AtomicBool::new(false)));
        let is_over = over.clone();
        let liar = std::thread::spawn(move || {
            for attempt in (0..4).cycle() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                for chunk in 0..8 {
                    control.say(End::Sender, &Message::LaneRejected { lane, chunk, attempt });
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        for sentence in session.expect_failure(ErrorKind::Integrity) {
            assert!(sentence.contains("did not verify"), "{sentence}");
        }
        over.store(true, Ordering::Relaxed);
        liar.join().unwrap();
        world.expect_nothing();
    }
}

/// When how many bytes of the sender passed, by any lane.
type Passed = Arc<Mutex<Vec<(Instant, usize)>>>;

/// Passes everything, and writes down the sender's datagrams.
fn timed(passed: Passed) -> Datagrams {
    Box::new(move |from, datagram| {
        if from == End::Sender {
            passed.lock().unwrap().push((Instant::now(), datagram.len()));
        }
        vec![Out::Peer(datagram.to_vec())]
    })
}

#[test]
fn the_users_rate_is_shared_by_need() {
    // 2 MB/s: far below what a busy machine carries.
    const LIMIT: usize = 2_000_000;
    const STRETCH: Duration = Duration::from_millis(200);
    for second_is_dead in [false, true] {
        let world = World::with_file("file", 3 << 20);
        let passed = Passed::default();
        let second = if second_is_dead { Box::new(|_, _: &[u8]| Vec::new()) } else { timed(passed.clone()) };
        let began = Instant::now();
        let session = Session::start(Spec {
            datagrams: Some(timed(passed.clone())),
            lanes: vec![Some(second)],
            limit_bps: Some(LIMIT as u64 * 8),
            ..world.spec()
        });
        let (sent, received) = session.join();
        let seconds = began.elapsed().as_secs_f64();
        assert_eq!(sent.unwrap().complete, received.unwrap().complete);
        world.expect_copied();
        let passed = passed.lock().unwrap();
        // Whatever delays them, no more can have left: but for what a pacer makes up for and the packets of
        // probe timeouts.
        let sum: usize = passed.iter().map(|(_, bytes)| bytes).sum();
        let most = LIMIT as f64 * seconds + 64e3;
        assert!(sum as f64 <= most, "second is dead: {second_is_dead}: {sum} bytes in {seconds} s");
        // Some stretch is undisturbed: there the limit is used, by one lane where the other does not need it.
        let of = |first: Instant| passed.iter().filter(move |(at, _)| *at >= first && *at - first <= STRETCH);
        let best = passed.iter().map(|(at, _)| of(*at).map(|(_, bytes)| bytes).sum::<usize>()).max();
        let least = LIMIT / 5 * 3 / 4;
        assert!(best >= Some(least), "second is dead: {second_is_dead}: at most {best:?} bytes in 200 ms");
    }
}
