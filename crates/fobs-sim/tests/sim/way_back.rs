//! Ways back that do not carry the usual acks: rarer ones are asked for, and the transfer does not wait.

use fobs_proto::congestion::CongestionControl;
use fobs_sim::Scene;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::rng::Chance;
use fobs_sim::time::{MS, Nanos};

const KBIT: u64 = 1000;
const MBIT: u64 = 1_000_000;

/// Rate there and back, round trip, and seconds that the object would take at the link's rate.
const PATHS: [(u64, u64, Nanos, u64); 4] = [
    (300 * MBIT, 250 * KBIT, 50 * MS, 5),
    (50 * MBIT, 100 * KBIT, 80 * MS, 10),
    (10 * MBIT, 200 * KBIT, 20 * MS, 10),
    (2 * MBIT, 40 * KBIT, 60 * MS, 20),
];

/// Share of the link that an object gets from its first byte to its last answer.
fn share(path: (u64, u64, Nanos, u64), loss: f64, cc: CongestionControl, seed: u64) -> f64 {
    let (there, back, rtt, seconds) = path;
    let mut played = Scene::new(there, rtt)
        .seed(seed)
        .link(|link| link.faults.loss = Chance::of(loss))
        .back(|link| {
            (link.rate, link.queue) = (back, 64_000);
            link.faults.loss = Chance::of(loss);
        })
        .fobs(FobsConfig::new(Object::Bytes(there / 8 * seconds), cc))
        .play();
    let view = played.flow(0);
    assert!(view.outcome.is_complete(), "{path:?}: {:?}", view.outcome);
    played.share(0)
}

#[test]
fn acks_do_not_hold_a_transfer_back() {
    for (seed, path) in (1..).zip(PATHS) {
        let share = share(path, 0.0, CongestionControl::Auto, seed);
        assert!(share >= 0.75, "{path:?}, seed {seed}: share {share}");
    }
}

#[test]
fn losses_both_ways_change_little() {
    for (seed, path) in (11..).zip(PATHS) {
        let share = share(path, 0.01, CongestionControl::Auto, seed);
        assert!(share >= 0.7, "{path:?}, seed {seed}: share {share}");
    }
}

#[test]
fn a_window_is_used_too_where_acks_are_rare() {
    for (seed, path) in (21..).zip(PATHS) {
        let share = share(path, 0.0, CongestionControl::Cubic, seed);
        assert!(share >= 0.6, "{path:?}, seed {seed}: share {share}");
    }
}
