//! When a transfer gives up because it gets no answer: the session's policy, over paths that go black.

use fobs_proto::congestion::CongestionControl;
use fobs_proto::session::{ANSWER_WAIT, HEARTBEAT, UDP_SILENCE_MAX};
use fobs_sim::Scene;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::{Outcome, Traffic};
use fobs_sim::time::{MS, Nanos, SEC};
use std::time::Duration;

const RTT: Nanos = 20 * MS;
/// When the path goes black in the middle: an object of 64 MiB takes 5.4 s.
const MIDDLE: Nanos = 2 * SEC;
/// How soon after the path is back something new arrives: the longest probe timeout and round trips.
const GOES_ON_WITHIN: Nanos = 3 * SEC;
/// Longer than any silence that the policy allows.
const LONG: Nanos = 2000 * SEC;

fn nanos(time: Duration) -> Nanos {
    time.as_nanos() as Nanos
}

fn scene(starts: Nanos) -> Scene {
    let config = FobsConfig::new(Object::Bytes(64 << 20), CongestionControl::Auto);
    Scene::new(100_000_000, RTT).fobs(config).starts(starts).lasts(LONG)
}

/// How the transfer ends, and when.
fn end(scene: Scene) -> (Outcome, Nanos) {
    let mut played = scene.play();
    (played.flow(0).outcome, played.world.now())
}

#[test]
fn a_path_that_is_black_from_the_start_ends_the_transfer() {
    // The limit is a whole number of heartbeats.
    for starts in [0, 7 * SEC + 30 * MS] {
        let wanted = (Outcome::Silent, starts + nanos(UDP_SILENCE_MAX));
        assert_eq!(end(scene(starts).outage(0, LONG)), wanted, "data, start at {starts}");
        assert_eq!(end(scene(starts).ack_outage(0, LONG)), wanted, "acks, start at {starts}");
    }
}

#[test]
fn a_path_that_goes_black_in_the_middle_ends_the_transfer() {
    let soonest = MIDDLE + nanos(ANSWER_WAIT);
    let latest = soonest + RTT + nanos(HEARTBEAT);
    for scene in [scene(0).outage(MIDDLE, LONG), scene(0).ack_outage(MIDDLE, LONG)] {
        let (outcome, at) = end(scene);
        assert_eq!(outcome, Outcome::Silent);
        assert!((soonest..=latest).contains(&at), "after {} ms", at / MS);
    }
}

#[test]
fn a_path_that_comes_back_in_time_completes_the_transfer() {
    for dead in [30 * SEC, 120 * SEC, 540 * SEC, nanos(ANSWER_WAIT) - 5 * SEC] {
        let back = MIDDLE + dead;
        let scenes = [
            scene(0).outage(MIDDLE, back).ack_outage(MIDDLE, back),
            scene(0).outage(MIDDLE, back),
            scene(0).ack_outage(MIDDLE, back),
        ];
        for (which, scene) in scenes.into_iter().enumerate() {
            let mut played = scene.start();
            let before = played.run_until(back).delivered()[0];
            let soon = played.run_until(back + GOES_ON_WITHIN).delivered()[0];
            assert!(soon > before, "{} s dead, {which}: nothing came soon after", dead / SEC);
            played.run_until(back + 30 * SEC);
            assert_eq!(played.flow(0).outcome, Outcome::Complete, "{} s dead, {which}", dead / SEC);
        }
    }
}

#[test]
fn a_shorter_timeout_ends_the_transfer_sooner() {
    let scene = scene(0).outage(MIDDLE, LONG).with(|flow| {
        if let Traffic::Fobs(fobs) = &mut flow.flow.traffic {
            fobs.timeout = 3 * SEC;
        }
    });
    let (outcome, at) = end(scene);
    assert_eq!(outcome, Outcome::Silent);
    assert!((MIDDLE + 3 * SEC..MIDDLE + 4 * SEC).contains(&at), "after {} ms", at / MS);
}

#[test]
fn a_receiver_that_stores_nothing_for_long_is_not_silent() {
    let stall = (MIDDLE, MIDDLE + 2 * nanos(ANSWER_WAIT));
    let stalled = scene(0).with(|flow| {
        if let Traffic::Fobs(fobs) = &mut flow.flow.traffic {
            fobs.receiver_chunks = 2;
        }
        flow.receiver.disk.cache = 0;
        flow.receiver.disk.stalls = vec![stall];
    });
    let (outcome, at) = end(stalled);
    assert_eq!(outcome, Outcome::Complete);
    assert!(at > stall.1, "the stall did not hold the transfer up");
}
