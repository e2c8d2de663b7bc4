//! Paths that reorder without losing: packets that overtake each other are no losses.

use fobs_proto::congestion::CongestionControl;
use fobs_sim::Scene;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::link::Faults;
use fobs_sim::rng::Chance;
use fobs_sim::time::{MS, Nanos};

const RATE: u64 = 300_000_000;
const RTT: Nanos = 40 * MS;
const SEEDS: std::ops::Range<u64> = 1..4;

/// Share of the link, and waste, of a transfer of 150 MB, which takes 4 s at the link's rate.
fn play(cc: CongestionControl, seed: u64, faults: &Faults) -> (f64, f64) {
    let config = FobsConfig::new(Object::Bytes(150_000_000), cc);
    let mut played = Scene::new(RATE, RTT)
        .seed(seed)
        .link(|link| link.faults = faults.clone())
        .fobs(config)
        .play();
    let view = played.flow(0);
    assert!(view.outcome.is_complete(), "{:?}", view.outcome);
    assert_eq!(played.bottleneck().stats.lost, 0, "the path loses nothing behind the queue");
    (played.share(0), view.figures.waste())
}

/// Every packet is up to 8 ms late, with a standard deviation of 2.3 ms.
fn jitter() -> Faults {
    Faults { reordering: Chance::of(1.0), reordering_delay: 8 * MS, ..Faults::default() }
}

#[test]
fn jitter_that_reorders_costs_little_rate_and_waste() {
    for seed in SEEDS {
        let (share, waste) = play(CongestionControl::Auto, seed, &jitter());
        eprintln!("jitter {seed}: {share:.3} {waste:.4}");
        assert!(share >= 0.6 && waste <= 0.05, "seed {seed}: share {share}, waste {waste}");
    }
}

#[test]
fn two_unequal_paths_are_reordering() {
    for (seed, detour) in SEEDS.zip([3 * MS, 10 * MS, 25 * MS]) {
        let faults = Faults { detour: Chance::of(0.5), detour_delay: detour, ..Faults::default() };
        let (share, waste) = play(CongestionControl::Auto, seed, &faults);
        eprintln!("detour {detour}: {share:.3} {waste:.4}");
        assert!(share >= 0.6 && waste <= 0.05, "{detour}: share {share}, waste {waste}");
    }
}

#[test]
fn a_few_late_packets_cost_next_to_nothing() {
    for seed in SEEDS {
        let faults = Faults { reordering: Chance::of(0.01), reordering_delay: 2 * MS, ..Faults::default() };
        let (share, waste) = play(CongestionControl::Auto, seed, &faults);
        eprintln!("late {seed}: {share:.3} {waste:.4}");
        assert!(share >= 0.85 && waste <= 0.01, "seed {seed}: share {share}, waste {waste}");
    }
}
