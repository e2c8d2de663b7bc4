//! Packets per second that one core simulates: a FOBS transfer by the real machines over a shared bottleneck,
//! every rule checked at every step. `cargo bench -p fobs-sim` prints one line per world; nothing here fails,
//! because machines differ.

use fobs_proto::congestion::CongestionControl;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::tcp::{Algorithm, TcpConfig};
use fobs_sim::flow::{FlowConfig, Traffic};
use fobs_sim::host::HostConfig;
use fobs_sim::link::{Faults, LinkConfig};
use fobs_sim::rng::Chance;
use fobs_sim::time::{MS, SEC};
use fobs_sim::topology::{Dumbbell, Edge};
use fobs_sim::world::{Config, World};
use std::time::Instant;

/// Virtual time of each world.
const LASTS: u64 = 20 * SEC;

fn main() {
    for (name, config) in [
        ("fobs, one link", one_link()),
        ("fobs, dumbbell", dumbbell(0.0)),
        ("fobs, 1% loss", dumbbell(0.01)),
        ("cubic, dumbbell", tcp()),
    ] {
        let mut world = World::new(config).expect("hosts and routes exist");
        let began = Instant::now();
        world.run().unwrap_or_else(|violation| panic!("{name}: {violation}"));
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "{name:<16} {:>9} packets {:>9} events {:>6.2} s: {:>5.2} million packets/s, {:>5.2} million events/s",
            world.packets(),
            world.events(),
            seconds,
            world.packets() as f64 / seconds / 1e6,
            world.events() as f64 / seconds / 1e6,
        );
    }
}

fn fobs() -> Traffic {
    Traffic::Fobs(Box::new(FobsConfig::new(Object::Bytes(1 << 50), CongestionControl::Auto)))
}

fn one_link() -> Config {
    let link = LinkConfig::new("link", 1_000_000_000, 10 * MS, 4_000_000);
    Config {
        hosts: vec![HostConfig::ordinary("a"), HostConfig::ordinary("b")],
        edges: vec![Edge::new("a", "b", link), Edge::new("b", "a", LinkConfig::wire("back", 10 * MS))],
        flows: vec![FlowConfig::new("fobs", "a", "b", fobs())],
        ..Config::new("one link", 1, LASTS)
    }
}

fn middle(loss: f64, traffic: Traffic) -> Config {
    let faults = Faults { loss: Chance::of(loss), ..Faults::default() };
    let bottleneck =
        LinkConfig { faults, ..LinkConfig::new("bottleneck", 1_000_000_000, 10 * MS, 2_500_000) };
    let back = LinkConfig::wire("back", 10 * MS);
    let bell = Dumbbell { pairs: 1, interface_rate: 10_000_000_000, bottleneck, back };
    Config {
        hosts: vec![HostConfig::ordinary("s0"), HostConfig::ordinary("r0")],
        edges: bell.edges(),
        flows: vec![FlowConfig::new("flow", "s0", "r0", traffic)],
        ..Config::new("dumbbell", 1, LASTS)
    }
}

fn dumbbell(loss: f64) -> Config {
    middle(loss, fobs())
}

fn tcp() -> Config {
    middle(0.0, Traffic::Tcp(TcpConfig::endless(Algorithm::Cubic)))
}
