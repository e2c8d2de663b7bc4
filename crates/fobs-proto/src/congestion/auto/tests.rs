//! `auto` as a whole.

mod scene;
mod silence;
mod train;

use super::super::testing::{Acks, PACKET};
use super::state::{Kind, PHASES, TRANSITIONS, Why};
use super::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use scene::{Scene, mood};
use std::cell::RefCell;
use std::time::Duration;

const RTT: Duration = Duration::from_millis(65);
const MS: Duration = Duration::from_millis(1);
const LINK: Rate = Rate::bits_per_second(500_000_000);
/// Sequences of moods that lead through all transitions but those of [`NEEDS`].
const SEQUENCES: u32 = 400;
/// Changes that need a memory, silence or a coincidence; the tests of `train` and `silence` make them.
const NEEDS: [(Kind, Kind, Why); 5] = [
    (Kind::Start, Kind::Start, Why::JumpArrived),
    (Kind::Start, Kind::Start, Why::SilenceOver),
    (Kind::Cruise, Kind::Start, Why::SilenceOver),
    (Kind::Compete, Kind::Start, Why::SilenceOver),
    (Kind::Compete, Kind::Cruise, Why::Ceiling),
];

/// All legal changes, within a state and between states.
fn legal() -> Vec<(Kind, Kind, Why)> {
    let within = PHASES.iter().map(|(kind, why)| (*kind, *kind, *why));
    TRANSITIONS.iter().copied().chain(within).collect()
}

thread_local! {
    static SEEN: RefCell<Vec<(Kind, Kind, Why)>> = const { RefCell::new(Vec::new()) };
}

/// A transition was made.
pub(super) fn saw(from: Kind, to: Kind, why: Why) {
    SEEN.with_borrow_mut(|seen| {
        if !seen.contains(&(from, to, why)) {
            seen.push((from, to, why));
        }
    });
}

/// Whether this thread's test has made one of [`NEEDS`].
fn made(row: usize) -> bool {
    SEEN.with_borrow(|seen| seen.contains(&NEEDS[row]))
}

#[test]
fn every_listed_transition_happens_and_no_other() {
    SEEN.with_borrow_mut(Vec::clear);
    let mut runner = TestRunner::deterministic();
    let moods = prop::collection::vec(mood(), 1..24);
    for _ in 0..SEQUENCES {
        let moods = moods.new_tree(&mut runner).expect("moods").current();
        let (mut auto, mut scene) = (Auto::new(PACKET), Scene::new());
        for mood in &moods {
            scene.play(&mut auto, mood);
        }
    }
    let seen = SEEN.with_borrow(Vec::clone);
    let missing: Vec<_> =
        legal().into_iter().filter(|row| !seen.contains(row) && !NEEDS.contains(row)).collect();
    assert!(missing.is_empty(), "never happened: {missing:?}");
    let illegal: Vec<_> = seen.iter().filter(|row| !legal().contains(row)).collect();
    assert!(illegal.is_empty(), "not listed: {illegal:?}");
}

#[test]
fn the_documented_transitions_are_those_of_the_code() {
    let text = include_str!("../../../../../docs/controllers.md");
    let rows: Vec<String> = legal()
        .iter()
        .map(|(from, to, why)| format!("| {} | {} | {} |", from.name(), to.name(), why.text()))
        .collect();
    for row in &rows {
        assert!(text.contains(row.as_str()), "docs/controllers.md lacks {row}");
    }
    let documented = text.lines().filter(|line| {
        let from = line.strip_prefix("| ").and_then(|rest| rest.split_once(" | "));
        from.is_some_and(|(from, rest)| {
            legal().iter().any(|row| row.0.name() == from) && rest.matches('|').count() == 2
        })
    });
    assert_eq!(documented.count(), rows.len(), "docs/controllers.md lists other transitions");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the simulator sweeps, the controller neither panics nor stops the transfer for good.
    #[test]
    fn any_parameters_in_their_ranges_survive(
        moods in prop::collection::vec(mood(), 1..8),
        values in prop::collection::vec(0.0..1.0, Params::NAMES.len()),
    ) {
        let mut params = Params::default();
        for (name, value) in Params::NAMES.iter().zip(values) {
            let (low, high) = Params::range(name).expect("a listed name");
            let wild = low + (high - low) * value;
            let set = params.set(name, wild).or_else(|_| params.set(name, wild.floor().max(low)));
            prop_assert!(set.is_ok(), "{name} = {wild}");
        }
        let (mut auto, mut scene) = (Auto::with_params(PACKET, Priority::Fair, params), Scene::new());
        for mood in &moods {
            scene.play(&mut auto, mood);
            prop_assert!(auto.congestion_window() >= params.few_packets * u64::from(PACKET));
            prop_assert!(auto.pacing_rate() >= Some(params.rate_min));
        }
    }
}

#[test]
fn what_was_delivered_is_remembered_and_what_was_tried_is_not() {
    let mut auto = Auto::new(PACKET);
    let mut history = PathHistory::default();
    auto.remember(&mut history);
    assert_eq!(history, PathHistory::default());
    let (mut acks, rate) = (Acks::new(RTT), Rate::bits_per_second(500_000_000));
    for _ in 0..3000 {
        // What is sent beyond the link's rate waits in a queue.
        let sent = auto.pacing_rate().unwrap_or(rate);
        acks.rtt = if sent > rate { RTT + 8 * MS } else { RTT };
        auto.on_ack(&acks.next(MS, sent.min(rate)));
    }
    auto.remember(&mut history);
    assert_eq!(history.round_trip, Some(RTT));
    let kept = history.link_rate.expect("a rate") as f64;
    assert!((kept / rate.as_bytes() as f64 - 1.0).abs() < 0.05, "{kept}");
}

/// As where a host's stall made the train look twenty times faster than the path: with all of the object in
/// flight there is nothing more to send, and the flow is application-limited throughout.
#[test]
fn a_pace_far_too_fast_is_corrected_with_nothing_left_to_send() {
    let (mut auto, mut acks) = (Auto::new(PACKET), Acks::new(RTT));
    let (link, train) = (Rate::bits_per_second(1_000_000_000), Rate::bits_per_second(20_000_000_000));
    auto.on_ack(&acks.next(MS, train));
    assert!(auto.pacing_rate() > Some(link.scaled(5.0)), "the train is believed");
    acks.rtt = 2 * RTT;
    for _ in 0..1000 {
        // The queue is full, and of 85 packets a millisecond six do not arrive.
        auto.on_loss(&acks.losses(6));
        let ack = acks.next(MS, link);
        auto.on_ack(&AckSample { app_limited: true, ..ack });
    }
    assert!(auto.pacing_rate() < Some(link.scaled(1.2)), "{:?}", auto.pacing_rate());
}

/// One that cruises at `LINK` on a path without a queue, with its acks.
fn cruising() -> (Auto, Acks) {
    let (mut auto, mut acks) = (Auto::new(PACKET), Acks::new(RTT));
    while auto.state() != "cruise" {
        let sent = auto.pacing_rate().unwrap_or(LINK).min(LINK);
        acks.rtt = if sent < LINK { RTT } else { RTT + 20 * MS };
        auto.on_ack(&acks.next(MS, sent));
    }
    acks.rtt = RTT;
    for _ in 0..200 {
        auto.on_ack(&acks.next(MS, auto.pacing_rate().unwrap_or(LINK).min(LINK)));
    }
    (auto, acks)
}

#[test]
fn loss_in_a_drain_that_leaves_a_queue_is_not_the_path_s_own() {
    let share = |queue: Duration| {
        let (mut auto, mut acks) = cruising();
        acks.rtt = RTT + queue;
        auto.enter_drain(acks.now(), Why::DrainDue);
        while let State::Cruise(Cruise::Drain(drain)) = auto.state {
            let ack = acks.next(MS, auto.pacing_rate().unwrap_or(LINK));
            auto.on_loss(&acks.losses(ack.acked_packets / 20));
            auto.on_ack(&ack);
            if ack.now - drain.phase.since > 3 * RTT {
                break;
            }
        }
        auto.model.loss_share()
    };
    assert!(share(Duration::ZERO) > 0.0, "it is");
    assert_eq!(share(40 * MS), 0.0);
}

#[test]
fn acks_that_wait_on_the_way_back_widen_the_window() {
    let window = |there: Duration, back: Duration| {
        let (mut auto, mut acks) = cruising();
        for _ in 0..100 {
            acks.rtt = RTT + there + back;
            let ack = acks.next(MS, auto.pacing_rate().unwrap_or(LINK).min(LINK));
            auto.on_ack(&AckSample { one_way: RTT + there, ..ack });
        }
        auto.congestion_window() as f64 / auto.model.pacing.bytes_in(RTT) as f64
    };
    let (level, wide) = (window(Duration::ZERO, Duration::ZERO), window(Duration::ZERO, RTT));
    assert!((1.9..2.1).contains(&(wide / level)), "{level} {wide}");
}
