//! Paths on which a flow could lose much of what it sends and gain nothing by it: policers, and queues
//! shorter than the first flight.

use fobs_proto::congestion::CongestionControl;
use fobs_sim::Scene;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::link::PolicerConfig;
use fobs_sim::time::{MS, SEC, bytes_in};

const MBIT: u64 = 1_000_000;
const PACKET: u64 = 1500;
const SEEDS: std::ops::Range<u64> = 1..4;

/// Mbit/s and waste of a transfer by `auto` that takes 8 s at `rate`.
fn moved(scene: Scene, rate: u64) -> (f64, f64) {
    let bytes = bytes_in(8 * SEC, rate);
    let mut played = scene.fobs(FobsConfig::new(Object::Bytes(bytes), CongestionControl::Auto)).play();
    let view = played.flow(0);
    assert!(view.outcome.is_complete(), "{:?}", view.outcome);
    (played.share(0), view.figures.waste())
}

#[test]
fn a_policer_costs_little_beyond_the_start() {
    for seed in SEEDS {
        let rate = (5 + 15 * seed) * MBIT;
        let policer = PolicerConfig { rate: rate * 7 / 10, depth: 15_000, refill: 0 };
        let scene = Scene::new(rate, 120 * MS).seed(seed).queue(10 * PACKET);
        let (share, waste) = moved(scene.link(|link| link.policer = Some(policer)), rate / 2);
        assert!(share >= 0.5 && waste <= 0.08, "seed {seed}: share {share}, waste {waste}");
    }
}

/// A round trip of these paths has less than one packet, so no single one shows that a rate loses a fifth.
#[test]
fn a_ramp_on_a_slow_policed_path_ends_by_its_losses() {
    for seed in SEEDS {
        let policer = PolicerConfig { rate: 7 * MBIT / 10, depth: 15_000, refill: 0 };
        let scene = Scene::new(2 * MBIT, 10 * MS).seed(seed).queue(6 * PACKET).lasts(90 * SEC);
        let (share, waste) = moved(scene.link(|link| link.policer = Some(policer)), 4 * MBIT);
        assert!(share >= 0.3 && waste <= 0.19, "seed {seed}: share {share}, waste {waste}");
    }
}

#[test]
fn a_first_flight_that_is_mostly_lost_is_not_repeated_at_once() {
    for seed in SEEDS {
        let rate = (10 + 10 * seed) * MBIT;
        let scene = Scene::new(rate, 66 * MS).seed(seed).queue(4 * PACKET);
        let mut played =
            scene.fobs(FobsConfig::new(Object::Bytes(1_000_000), CongestionControl::Auto)).play();
        let view = played.flow(0);
        assert!(view.outcome.is_complete(), "{:?}", view.outcome);
        let (share, waste) = (played.share(0), view.figures.waste());
        assert!(share >= 0.25 && waste <= 0.13, "seed {seed}: share {share}, waste {waste}");
    }
}
