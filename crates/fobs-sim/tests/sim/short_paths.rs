//! Every controller over paths whose round trip is shorter than what hosts and acks take: two namespaces of
//! one machine, a switch, a house. An ack comes after 64 packets or 5 ms there, so a window that is too small
//! for 64 packets leaves once in 5 ms.

use crate::support::each;
use fobs_proto::Rate;
use fobs_proto::congestion::CongestionControl;
use fobs_sim::Scene;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::report::mbit;
use fobs_sim::time::{Nanos, SEC, US};

const MBIT: u64 = 1_000_000;
/// What two ordinary hosts of the simulator manage, bits per second: 1.75 us a datagram, less acks and late
/// wake-ups.
const HOSTS: u64 = 5_000 * MBIT;
/// Least share of what link and hosts manage, a start of a second included.
const SHARE_MIN: f64 = 0.5;

/// A path, and what is moved over it.
struct Path {
    name: &'static str,
    rate: u64,
    rtt: Nanos,
    /// The queue of a switch in front of the link; `None` where the link is the sender's own interface.
    queue: Option<u64>,
    bytes: u64,
}

const PATHS: [Path; 4] = [
    Path { name: "veth", rate: 40_000 * MBIT, rtt: 27 * US, queue: None, bytes: 1_000_000_000 },
    Path {
        name: "10 Gbit/s",
        rate: 10_000 * MBIT,
        rtt: 100 * US,
        queue: Some(2_000_000),
        bytes: 1_000_000_000,
    },
    Path { name: "1 Gbit/s", rate: 1_000 * MBIT, rtt: 200 * US, queue: Some(256_000), bytes: 250_000_000 },
    Path { name: "100 Mbit/s", rate: 100 * MBIT, rtt: 500 * US, queue: Some(128_000), bytes: 50_000_000 },
];

/// Goodput as a share of what link and hosts manage, and waste.
fn play(path: &Path, cc: CongestionControl) -> (f64, f64) {
    let best = path.rate.min(HOSTS);
    let cc = cc.with_rate(Rate::bits_per_second(best / 10 * 9));
    let scene = Scene::new(path.rate, path.rtt)
        .lasts(SEC + 4 * (path.bytes * 8 * SEC / best))
        .fobs(FobsConfig::new(Object::Bytes(path.bytes), cc));
    let scene = match path.queue {
        Some(queue) => scene.queue(queue).interface_rate(4 * path.rate),
        None => scene.queue(1_500_000).at_own_interface().back(|back| {
            (back.rate, back.queue) = (path.rate, 1_500_000);
        }),
    };
    let mut played = scene.play();
    let (now, figures) = (played.world.now(), played.flow(0).figures);
    let took = figures.ended.unwrap_or(now) - figures.began.expect("it has begun");
    (mbit(figures.delivered, took) * 1e6 / best as f64, figures.waste())
}

#[test]
fn no_controller_stalls_on_a_short_path() {
    let runs: Vec<(CongestionControl, &Path)> =
        CongestionControl::ALL.into_iter().flat_map(|cc| PATHS.iter().map(move |path| (cc, path))).collect();
    let stalled: Vec<String> = each(&runs, |(cc, path)| {
        let (share, waste) = play(path, *cc);
        let (share_percent, waste_percent) = (100.0 * share, 100.0 * waste);
        let name = cc.name();
        let line = format!("{name:<12} {:<11} {share_percent:>6.1}% {waste_percent:>6.1}% waste", path.name);
        println!("{line}");
        (share < SHARE_MIN).then_some(line)
    })
    .into_iter()
    .flatten()
    .collect();
    assert!(stalled.is_empty(), "{stalled:#?}");
}
