//! `auto` beside bursts that take the whole link half of the time and never yield: 1 Gbit/s, 65 ms, a queue
//! of one bandwidth-delay product, phases of 100 ms on average, the path of `lab/plans/cross-traffic.toml`.

#![cfg_attr(not(feature = "long"), allow(dead_code, reason = "the long tests use more of it"))]

use crate::support::{each, median};
use fobs_proto::congestion::CongestionControl;
use fobs_sim::Scene;
use fobs_sim::flow::Traffic;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::source::{Pattern, SourceConfig};
use fobs_sim::time::{MS, Nanos, SEC, seconds};

const RTT: Nanos = 65 * MS;
const MBIT: u64 = 1_000_000;
const MB: u64 = 1_000_000;
/// Least share of what the bursts leave, and largest waste.
const SHARE_MIN: f64 = 0.63;
const WASTE_MAX: f64 = 0.10;

/// The transfer's goodput as a share of what the bursts left while it ran, and its waste.
fn play(rate: u64, bytes: u64, seed: u64) -> (f64, f64) {
    let pattern = Pattern::OnOff { on: 100 * MS, off: 100 * MS };
    let mut played = Scene::new(rate, RTT)
        .seed(seed)
        .lasts(60 * SEC)
        .fobs(FobsConfig::new(Object::Bytes(bytes), CongestionControl::Auto))
        .flow(Traffic::Source(SourceConfig { rate, packet: 1500, pattern }))
        .play();
    let (now, fobs, bursts) = (played.world.now(), played.flow(0).figures, played.flow(1).figures);
    let took = fobs.ended.expect("it is complete") - fobs.began.expect("it has begun");
    let taken = bursts.sent as f64 * 1500.0 * 8.0 / seconds(now);
    (bytes as f64 * 8.0 / seconds(took) / (rate as f64 - taken), fobs.waste())
}

/// Medians over the seeds meet the bars.
fn takes_most(rate: u64, bytes: u64, seeds: u64) {
    let seeds: Vec<u64> = (1..=seeds).collect();
    let all = each(&seeds, |seed| play(rate, bytes, *seed));
    let (share, waste) = (median(&all, |run| run.0), median(&all, |run| run.1));
    println!("{} MB at {} Mbit/s: {share:.3} of what is left, waste {waste:.3}", bytes / MB, rate / MBIT);
    assert!(
        share >= SHARE_MIN && waste <= WASTE_MAX,
        "{bytes} bytes at {rate}: {share:.3}, waste {waste:.3}"
    );
}

#[test]
fn most_of_what_bursts_leave_is_taken() {
    takes_most(100 * MBIT, 32 * MB, 15);
    takes_most(1000 * MBIT, 128 * MB, 5);
}

#[test]
#[cfg(feature = "long")]
fn most_of_what_bursts_leave_is_taken_for_longer() {
    takes_most(1000 * MBIT, 128 * MB, 15);
    takes_most(1000 * MBIT, 1000 * MB, 7);
}
