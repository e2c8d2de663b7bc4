//! Paths off every grid: that reorder without losing, that go black for a while, that start with a full queue
//! in sight, and first hops that the host itself shapes.

use fobs_proto::congestion::CongestionControl;
use fobs_sim::Scene;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::host::FullQueue;
use fobs_sim::link::{Change, Faults};
use fobs_sim::rng::Chance;
use fobs_sim::time::{MS, Nanos, SEC};

const MBIT: u64 = 1_000_000;
const RATE: u64 = 300 * MBIT;
const RTT: Nanos = 40 * MS;
const SEEDS: std::ops::Range<u64> = 1..4;

fn fobs(bytes: u64, cc: CongestionControl) -> FobsConfig {
    FobsConfig::new(Object::Bytes(bytes), cc)
}

/// Share of the link, and waste, of a transfer of 150 MB, which takes 4 s at the link's rate.
fn reordered(seed: u64, faults: &Faults) -> (f64, f64) {
    let mut played = Scene::new(RATE, RTT)
        .seed(seed)
        .link(|link| link.faults = faults.clone())
        .fobs(fobs(150_000_000, CongestionControl::Auto))
        .play();
    let view = played.flow(0);
    assert!(view.outcome.is_complete(), "{:?}", view.outcome);
    assert_eq!(played.bottleneck().stats.lost, 0, "the path loses nothing behind the queue");
    (played.share(0), view.figures.waste())
}

#[test]
fn jitter_that_reorders_costs_little_rate_and_waste() {
    // Up to 8 ms late, with a standard deviation of 2.3 ms.
    let faults = Faults { reordering: Chance::of(1.0), reordering_delay: 8 * MS, ..Faults::default() };
    for seed in SEEDS {
        let (share, waste) = reordered(seed, &faults);
        assert!(share >= 0.6 && waste <= 0.05, "seed {seed}: share {share}, waste {waste}");
    }
}

#[test]
fn two_unequal_paths_are_reordering() {
    for (seed, detour) in SEEDS.zip([3 * MS, 10 * MS, 25 * MS]) {
        let faults = Faults { detour: Chance::of(0.5), detour_delay: detour, ..Faults::default() };
        let (share, waste) = reordered(seed, &faults);
        assert!(share >= 0.6 && waste <= 0.05, "{detour}: share {share}, waste {waste}");
    }
}

#[test]
fn a_few_late_packets_cost_next_to_nothing() {
    for seed in SEEDS {
        let faults = Faults { reordering: Chance::of(0.01), reordering_delay: 2 * MS, ..Faults::default() };
        let (share, waste) = reordered(seed, &faults);
        assert!(share >= 0.85 && waste <= 0.01, "seed {seed}: share {share}, waste {waste}");
    }
}

#[test]
fn two_round_trips_after_an_outage_the_former_rate_is_back() {
    for (seed, black) in SEEDS.zip([500 * MS, 2 * SEC, 7 * SEC]) {
        let (from, until) = (2 * SEC + 37 * MS * seed, 2 * SEC + 37 * MS * seed + black);
        let scene = Scene::new(RATE, 50 * MS).seed(seed).outage(from, until).ack_outage(from, until);
        let mut played = scene.fobs(fobs(400_000_000, CongestionControl::Auto)).start();
        // A probe leaves every quarter second, its answer takes a round trip, two more until all is back, and
        // one until it has arrived.
        let back = until + 250 * MS + 4 * 50 * MS;
        let shares = played.shares(back, back + SEC);
        assert!(shares[0] >= 0.85, "{black}: {shares:?}");
    }
}

#[test]
fn a_path_that_has_become_longer_is_used_again() {
    for (seed, longer) in SEEDS.zip([60 * MS, 100 * MS, 160 * MS]) {
        let at = 2 * SEC + 37 * MS * seed;
        // Half of it on the way there.
        let scene = Scene::new(100 * MBIT, 20 * MS).seed(seed).change(at, Change::Delay(longer - 10 * MS));
        let mut played = scene.fobs(fobs(200_000_000, CongestionControl::Auto)).start();
        // A phase is two round trips, and a round trip more while little is sent: four of them, and the ramp.
        let found = at + 20 * longer;
        let shares = played.shares(found, found + 2 * SEC);
        assert!(shares[0] >= 0.7, "{longer}: {shares:?}");
    }
}

/// Round trips after the first answer until the former rate is sent again.
const BACK_WITHIN: Nanos = 3;

/// The pacing rate this long after the first answer that ends an outage, as a share of the link.
fn pace_after_an_outage(rate: u64, rtt: Nanos, black: Nanos) -> f64 {
    let from = 3 * SEC + 37 * MS;
    let until = from + black;
    let scene = Scene::new(rate, rtt).outage(from, until).ack_outage(from, until);
    let mut played = scene.fobs(fobs(1 << 40, CongestionControl::Auto)).start();
    let before = played.run_until(until).delivered()[0];
    // The first data is sent with the first answer, and arrives half a round trip later.
    let latest = until + 2 * rtt + SEC;
    let arrives = (until..latest).step_by(MS as usize);
    let first =
        arrives.map(|at| (at, played.run_until(at).delivered()[0])).find(|(_, bytes)| *bytes > before);
    let first =
        first.unwrap_or_else(|| panic!("nothing came until {} ms after the outage", (latest - until) / MS)).0;
    let view = played.run_until(first - rtt / 2 + BACK_WITHIN * rtt).flow(0);
    view.figures.pacing.expect("auto paces") as f64 / rate as f64
}

#[test]
fn any_outage_is_over_three_round_trips_after_the_first_answer() {
    let mut late = Vec::new();
    for (mbit, rtt) in [(5, 40 * MS), (40, 12 * MS), (100, 150 * MS), (600, 30 * MS)] {
        for black in [200 * MS, 700 * MS, 3 * SEC, 10 * SEC] {
            let pace = pace_after_an_outage(mbit * MBIT, rtt, black);
            if !(0.85..1.3).contains(&pace) {
                late.push((mbit, rtt / MS, black / MS, pace));
            }
        }
    }
    assert!(late.is_empty(), "Mbit/s, ms, ms black, share of the link: {late:?}");
}

/// Packets that a start loses to a queue of one bandwidth-delay product, as a share of that product.
fn overflow(rate: u64, rtt: Nanos, loss: f64, seed: u64) -> f64 {
    let product = rate / 8 * (rtt / MS) / 1000;
    let mut played = Scene::new(rate, rtt)
        .seed(seed)
        .link(|link| link.faults.loss = Chance::of(loss))
        .fobs(fobs(20 * product, CongestionControl::Auto))
        .start();
    played.run_until(15 * rtt);
    played.bottleneck().stats.dropped_full as f64 * 1500.0 / product as f64
}

#[test]
fn no_start_overflows_one_product_of_queue_by_more_than_a_tenth() {
    for seed in 1..6 {
        for (mbit, rtt) in [(100, 200 * MS), (60, 400 * MS), (400, 300 * MS)] {
            for loss in [0.0, 0.001, 0.01] {
                let over = overflow(mbit * MBIT, rtt, loss, seed);
                assert!(over <= 0.1, "{mbit} Mbit/s, {} ms, {loss}, seed {seed}: {over}", rtt / MS);
            }
        }
    }
}

#[test]
fn ten_gigabits_at_a_tenth_of_a_second_fit_the_memory() {
    let mut played = Scene::new(10_000 * MBIT, 100 * MS)
        .link(|link| link.mtu = 9000)
        .fobs(fobs(8_000_000_000, CongestionControl::Auto))
        .between_ideal_hosts()
        .play();
    assert!(played.flow(0).outcome.is_complete());
    let share = played.share(0);
    assert!(share >= 0.85, "{share}");
}

#[test]
fn what_the_host_itself_drops_bounds_every_controller() {
    for cc in CongestionControl::ALL {
        if matches!(cc, CongestionControl::Fixed { .. }) {
            continue;
        }
        let mut played = Scene::new(100 * MBIT, 20 * MS)
            .queue(1_500_000)
            .at_own_interface()
            .fobs(fobs(60_000_000, cc))
            .with(|flow| flow.sender.full_queue = FullQueue::Refuses)
            .play();
        let (view, share) = (played.flow(0), played.share(0));
        let waste = view.figures.waste();
        assert!(view.outcome.is_complete(), "{}: {:?}", cc.name(), view.outcome);
        // Nothing holds back the papers' greedy algorithm before the first refusal.
        let most = if cc == CongestionControl::Greedy { 0.1 } else { 0.03 };
        assert!(waste <= most && share >= 0.8, "{}: waste {waste}, share {share}", cc.name());
    }
}
