//! Every controller over paths whose round trip is shorter than what hosts and acks take: two namespaces of one machine, a switch, a
//! house. A report comes after 64 packets or 5 ms there, and a window that is less than what it waits for leaves once in 5 ms.
//! `FOBS_SHOW=1` prints the figures.

use fobs_proto::Rate;
use fobs_proto::congestion::CongestionControl;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::{FlowConfig, Traffic};
use fobs_sim::host::HostConfig;
use fobs_sim::link::LinkConfig;
use fobs_sim::time::{Nanos, SEC, US};
use fobs_sim::topology::{Dumbbell, Edge};
use fobs_sim::world::{Config, World};

const MBIT: u64 = 1_000_000;
/// What two ordinary hosts of the simulator manage, 1.75 us a datagram: acks and late wake-ups taken off.
const HOSTS: u64 = 5_000 * MBIT;

/// A path, and what is moved over it.
struct Path {
    name: &'static str,
    rate: u64,
    rtt: Nanos,
    /// The queue of a switch in front of the link; `None` where the link is the sender's own, which pushes back.
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

fn edges(path: &Path) -> Vec<Edge> {
    match path.queue {
        None => ["s0", "r0"]
            .iter()
            .zip(["r0", "s0"])
            .map(|(from, to)| {
                Edge::new(from, to, LinkConfig::new("veth", path.rate, path.rtt / 2, 1_500_000))
            })
            .collect(),
        Some(queue) => {
            let bottleneck = LinkConfig::new("bottleneck", path.rate, path.rtt / 2, queue);
            let back = LinkConfig::wire("back", path.rtt / 2);
            Dumbbell { pairs: 1, interface_rate: 4 * path.rate, bottleneck, back }.edges()
        }
    }
}

/// Goodput as a part of what link and hosts manage, and waste.
fn play(path: &Path, cc: CongestionControl) -> (f64, f64) {
    let best = path.rate.min(HOSTS);
    let cc = cc.with_rate(Rate::bits_per_second(best / 10 * 9));
    let mut config = Config { edges: edges(path), ..Config::new("short", 1, 1) };
    config.hosts.extend(["s0", "r0"].map(HostConfig::ordinary));
    let fobs = FobsConfig::new(Object::Bytes(path.bytes), cc);
    config.flows.push(FlowConfig::new("fobs", "s0", "r0", Traffic::Fobs(Box::new(fobs))));
    config.duration = SEC + 4 * (path.bytes * 8 * SEC / best);
    let mut world = World::new(config).expect("hosts and routes exist");
    world.run().unwrap_or_else(|violation| panic!("{violation}\n{}", world.describe()));
    let figures = world.flow(0).figures;
    let took = figures.ended.unwrap_or(world.now()) - figures.began.expect("it has begun");
    let goodput = figures.delivered as f64 * 8.0 * SEC as f64 / took as f64;
    (goodput / best as f64, figures.waste())
}

/// At least so much of what link and hosts manage, a start of a second counted.
const LEAST: f64 = 0.5;

#[test]
fn no_controller_stalls_on_a_short_path() {
    let shows = std::env::var("FOBS_SHOW").is_ok();
    let mut stalled = Vec::new();
    for cc in CongestionControl::ALL {
        for path in &PATHS {
            let (share, waste) = play(path, cc);
            let line = format!(
                "{:<12} {:<11} {:>6.1}% {:>6.1}% waste",
                cc.name(),
                path.name,
                100.0 * share,
                100.0 * waste
            );
            if shows {
                println!("{line}");
            }
            if share < LEAST {
                stalled.push(line);
            }
        }
    }
    assert!(stalled.is_empty(), "{stalled:#?}");
}
