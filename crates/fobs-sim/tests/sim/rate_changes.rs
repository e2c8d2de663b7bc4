//! How soon `auto` follows a change of the link's rate: a fall within three round trips of the path, four
//! where hosts and acks add much to a round trip; a rise as soon as the ramp has found it.

#![cfg_attr(not(feature = "long"), allow(dead_code, reason = "the long tests use more of it"))]

use crate::support::each;
use fobs_proto::congestion::CongestionControl;
use fobs_sim::Scene;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::link::Change;
use fobs_sim::time::{MS, Nanos, SEC};

const MBIT: u64 = 1_000_000;
/// Moments at which the rate changes, over more than one cycle from drain to drain.
const MOMENTS: u64 = 10;
const BETWEEN: Nanos = 263 * MS;
/// A round trip below which hosts and acks add a tenth and more.
const SHORT: Nanos = 50 * MS;

/// Round trips in which a rise is found: two phases that creep, and five of the ramp for ten times the rate.
const RISE_ROUND_TRIPS: u64 = 11;

/// The pacing rate some round trips after the change, bits per second.
fn pace_after_a_change(from: u64, to: u64, rtt: Nanos, at: Nanos) -> u64 {
    let object = Object::Bytes(1 << 50);
    let round_trips = match rtt {
        _ if to > from => RISE_ROUND_TRIPS,
        ..SHORT => 4,
        _ => 3,
    };
    let mut played = Scene::new(from, rtt)
        .interface_rate(10 * from.max(to))
        .fobs(FobsConfig::new(object, CongestionControl::Auto))
        .change(at, Change::Rate(to))
        .start();
    played.run_until(at + round_trips * rtt).flow(0).figures.pacing.expect("auto paces")
}

/// A fall shows as a queue, a rise only as room. A change during a drain is found late: that may be one
/// moment of ten.
fn follows(from: u64, to: u64, rtt: Nanos) {
    let moments: Vec<Nanos> = (0..MOMENTS).map(|n| 5 * SEC + n * BETWEEN).collect();
    let paces = each(&moments, |at| pace_after_a_change(from, to, rtt, *at));
    let right = |pace: &&u64| if to < from { **pace < to } else { (to * 4 / 5..to * 2).contains(*pace) };
    let followed = paces.iter().filter(right).count() as u64;
    let path = format!("{} to {} Mbit/s, {} ms", from / MBIT, to / MBIT, rtt / MS);
    assert!(followed >= MOMENTS - 1, "{path}: {paces:?} bits per second");
}

#[test]
fn a_change_of_the_rate_is_followed_in_some_round_trips() {
    follows(100 * MBIT, 25 * MBIT, 26 * MS);
    follows(100 * MBIT, 400 * MBIT, 26 * MS);
    follows(100 * MBIT, 1000 * MBIT, 65 * MS);
}

#[test]
#[cfg(feature = "long")]
fn larger_changes_are_followed_on_longer_paths() {
    for rtt in [65 * MS, 200 * MS] {
        for (rate, factors) in [(100 * MBIT, &[2, 4, 10][..]), (1000 * MBIT, &[2, 4])] {
            for factor in factors {
                follows(rate, rate / factor, rtt);
                follows(rate, rate * factor, rtt);
            }
        }
    }
    for factor in [2, 4] {
        follows(1000 * MBIT, 1000 * MBIT / factor, 26 * MS);
        follows(1000 * MBIT, 1000 * MBIT * factor, 26 * MS);
    }
}
