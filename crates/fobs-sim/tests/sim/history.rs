//! Transfers over remembered paths: what the memory is worth where the path is the same, and what it costs
//! where the path has changed.

use fobs_proto::congestion::{CongestionControl, PathHistory};
use fobs_sim::flow::FlowFigures;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::scene::Played;
use fobs_sim::time::{MS, Nanos, SEC};
use std::time::Duration;

const GBIT: u64 = 1_000_000_000;
const RTT: Nanos = 65 * MS;
const MB: u64 = 1_000_000;

/// A transfer alone on a link of this rate, with a queue in quarters of the bandwidth-delay product.
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
    /// Packets that had left when the first could be acknowledged.
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
        let history = self.remembered.map_or_else(PathHistory::default, |rate| PathHistory {
            link_rate: Some(rate / 8),
            round_trip: Some(Duration::from_nanos(RTT)),
            ..PathHistory::default()
        });
        let fobs =
            FobsConfig { history, ..FobsConfig::new(Object::Bytes(self.bytes), CongestionControl::Auto) };
        let mut played = fobs_sim::Scene::new(self.rate, RTT)
            .queue(product(self.rate) * self.queue_quarters / 4)
            .interface_rate(10 * GBIT)
            .fobs(fobs)
            .start();
        let figures = |played: &mut Played, at| -> FlowFigures { played.run_until(at).flow(0).figures };
        let began = figures(&mut played, RTT / 2).began.expect("the first chunk has been read");
        let first = figures(&mut played, began + RTT).sent;
        let share = played.shares(2 * SEC, 3 * SEC)[0];
        let end = figures(&mut played, 300 * SEC);
        let seen = Seen { took: end.ended.expect("it completes") - began, first, share, lost: end.lost };
        println!("{} Mbit/s, remembered {:?}: {seen:?}", self.rate / MB, self.remembered);
        seen
    }
}

/// Data bytes of the packets that leave before the path's packet size is known.
const PACKET: u64 = 1200;
const FULL: Scene = Scene { rate: GBIT, queue_quarters: 4, bytes: 256 * MB, remembered: None };

#[test]
fn a_remembered_path_saves_most_of_half_a_round_trip() {
    let fresh = FULL.play();
    let remembered = Scene { remembered: Some(GBIT), ..FULL }.play();
    assert_eq!(remembered.lost, 0);
    assert!(remembered.took + RTT * 2 / 5 < fresh.took, "{remembered:?} {fresh:?}");
}

#[test]
fn a_path_ten_times_slower_gets_half_a_window_too_much_at_most() {
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
fn memory_of_a_path_that_is_ten_times_faster_costs_nothing() {
    let fresh = FULL.play();
    let remembered = Scene { remembered: Some(GBIT / 10), ..FULL }.play();
    assert!(remembered.took <= fresh.took, "{remembered:?} {fresh:?}");
}
