//! How soon `auto` follows a change of the link's rate: within three round trips.

mod support;

use fobs_proto::congestion::CongestionControl;
use fobs_sim::Scene;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::link::Change;
use fobs_sim::time::{MS, Nanos, SEC};
use support::each;

const MBIT: u64 = 1_000_000;
/// Moments at which the rate changes, over more than one cycle from drain to drain.
const MOMENTS: u64 = 10;
const BETWEEN: Nanos = 263 * MS;

/// The pacing rate three of the path's own round trips after the change, bits per second.
fn pace_after_a_change(from: u64, to: u64, rtt: Nanos, at: Nanos) -> u64 {
    let object = Object::Bytes(1 << 50);
    let mut played = Scene::new(from, rtt)
        .interface_rate(10 * from.max(to))
        .fobs(FobsConfig::new(object, CongestionControl::Auto))
        .change(at, Change::Rate(to))
        .start();
    played.run_until(at + 3 * rtt).flow(0).figures.pacing.expect("auto paces")
}

/// A fall shows as a queue, a rise only as room in which a probe looks for it. A change during the probe itself is found
/// late (docs/controllers.md): that may be one moment of ten.
fn follows(from: u64, to: u64, rtt: Nanos) {
    let moments: Vec<Nanos> = (0..MOMENTS).map(|n| 5 * SEC + n * BETWEEN).collect();
    let paces = each(&moments, |at| pace_after_a_change(from, to, rtt, *at));
    let right = |pace: &&u64| if to < from { **pace < to } else { (to * 4 / 5..to * 2).contains(*pace) };
    let followed = paces.iter().filter(right).count() as u64;
    let path = format!("{} to {} Mbit/s, {} ms", from / MBIT, to / MBIT, rtt / MS);
    assert!(followed >= MOMENTS - 1, "{path}: {paces:?} bits per second");
}

#[test]
fn a_change_of_the_rate_is_followed_in_three_round_trips() {
    follows(100 * MBIT, 25 * MBIT, 26 * MS);
    follows(100 * MBIT, 400 * MBIT, 26 * MS);
}

#[test]
#[ignore = "long: make test-long"]
fn every_change_of_the_rate_is_followed_in_three_round_trips() {
    for rtt in [26 * MS, 65 * MS, 200 * MS] {
        for (rate, factors) in [(100 * MBIT, &[2, 4, 10][..]), (1000 * MBIT, &[2, 4])] {
            for factor in factors {
                follows(rate, rate / factor, rtt);
                follows(rate, rate * factor, rtt);
            }
        }
    }
}
