//! Transfers over paths that are remembered: what memory is worth where they are as they were, and what it costs where they are not.
//! `FOBS_SHOW=1` prints the figures.

use fobs_proto::congestion::{CongestionControl, PathHistory};
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::{FlowConfig, Traffic};
use fobs_sim::host::HostConfig;
use fobs_sim::link::LinkConfig;
use fobs_sim::time::{MS, Nanos, SEC};
use fobs_sim::topology::Dumbbell;
use fobs_sim::world::{Config, World};
use std::time::Duration;

const GBIT: u64 = 1_000_000_000;
const RTT: Nanos = 65 * MS;
const MB: u64 = 1_000_000;

/// A transfer alone on a link of so many bits per second, with a queue of so many quarters of the bandwidth-delay product.
struct Scene {
    rate: u64,
    queue_quarters: u64,
    bytes: u64,
    /// Bits per second that the path carried before.
    remembered: Option<u64>,
}

#[derive(Debug)]
struct Seen {
    took: Nanos,
    /// Packets that had left when the first came back.
    first: u64,
    /// Share of the link from the second to the third second.
    share: f64,
    lost: u64,
}

fn product(rate: u64) -> u64 {
    rate / 8 * RTT / SEC
}

impl Scene {
    fn play(&self) -> Seen {
        let queue = product(self.rate) * self.queue_quarters / 4;
        let bottleneck = LinkConfig::new("bottleneck", self.rate, RTT / 2, queue);
        let back = LinkConfig::wire("back", RTT / 2);
        let bell = Dumbbell { pairs: 1, interface_rate: 10 * GBIT, bottleneck, back };
        let mut config = Config::new("history", 1, 300 * SEC);
        config.edges = bell.edges();
        config.hosts.extend([HostConfig::ordinary("s0"), HostConfig::ordinary("r0")]);
        let history = self.remembered.map_or_else(PathHistory::default, |rate| PathHistory {
            link_rate: Some(rate / 8),
            round_trip: Some(Duration::from_nanos(RTT)),
            ..PathHistory::default()
        });
        let fobs =
            FobsConfig { history, ..FobsConfig::new(Object::Bytes(self.bytes), CongestionControl::Auto) };
        config.flows.push(FlowConfig::new("fobs", "s0", "r0", Traffic::Fobs(Box::new(fobs))));
        let mut world = World::new(config).expect("hosts and routes exist");
        let mut run = |at| {
            world.run_until(at).unwrap_or_else(|violation| panic!("{violation}\n{}", world.describe()));
            world.flow(0).figures
        };
        let began = run(RTT / 2).began.expect("the first chunk has been read");
        let first = run(began + RTT).sent;
        let before = run(2 * SEC).delivered;
        let share = (run(3 * SEC).delivered - before) as f64 * 8.0 / self.rate as f64;
        let figures = run(300 * SEC);
        let took = figures.ended.expect("it completes") - began;
        let seen = Seen { took, first, share, lost: figures.lost };
        if std::env::var_os("FOBS_SHOW").is_some() {
            println!("{} Mbit/s, remembered {:?}: {seen:?}", self.rate / MB, self.remembered);
        }
        seen
    }
}

/// Data bytes of the packets that leave before the path's packet size is known.
const PACKET: u64 = 1200;
const FULL: Scene = Scene { rate: GBIT, queue_quarters: 4, bytes: 256 * MB, remembered: None };

#[test]
fn a_remembered_path_saves_half_of_the_round_trip_that_an_unknown_one_waits() {
    let fresh = FULL.play();
    let remembered = Scene { remembered: Some(GBIT), ..FULL }.play();
    assert_eq!(remembered.lost, 0);
    assert!(remembered.took + RTT * 2 / 5 < fresh.took, "{remembered:?} {fresh:?}");
}

#[test]
fn on_a_path_that_is_ten_times_slower_now_too_much_is_half_a_window_and_soon_over() {
    for queue_quarters in [1, 4, 80] {
        let now = Scene { rate: GBIT / 10, queue_quarters, bytes: 64 * MB, remembered: None };
        let fresh = now.play();
        let remembered = Scene { remembered: Some(GBIT), ..now }.play();
        let half = product(GBIT) / 2 / PACKET;
        assert!(remembered.first <= half + 1, "{} of {half}", remembered.first);
        assert!(remembered.lost <= half + fresh.lost, "{remembered:?}");
        assert!(remembered.share > 0.9 * fresh.share, "{remembered:?} {fresh:?}");
        assert!(remembered.took < fresh.took + RTT * 4, "{remembered:?} {fresh:?}");
    }
}

#[test]
fn on_a_path_that_is_ten_times_faster_now_memory_costs_nothing() {
    let fresh = FULL.play();
    let remembered = Scene { remembered: Some(GBIT / 10), ..FULL }.play();
    assert!(remembered.took <= fresh.took, "{remembered:?} {fresh:?}");
}
