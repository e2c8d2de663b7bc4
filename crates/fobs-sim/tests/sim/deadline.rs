//! Transfers with a deadline: whether they meet it, what they leave to others meanwhile, and what becomes of
//! one that cannot be met.

use crate::support::{each, median};
use fobs_proto::congestion::{CongestionControl, Priority};
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::tcp::Algorithm;
use fobs_sim::time::{MS, Nanos, SEC};

const RATE: u64 = 100_000_000;
const RTT: Nanos = 26 * MS;
const MB: u64 = 1_000_000;
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

/// A transfer through a bottleneck of [`RATE`], alone or beside an endless CUBIC flow.
#[derive(Clone, Copy)]
struct Scene {
    bytes: u64,
    deadline: Option<Nanos>,
    /// From when until when CUBIC is there.
    cubic: Option<(Nanos, Nanos)>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    /// When the transfer was complete.
    took: Nanos,
    /// CUBIC's share of the link from 5 to 15 s; a new flow needs up to five to find its share.
    cubic: f64,
    /// Median delay in the queue.
    queue: Nanos,
    lost: u64,
}

impl Scene {
    fn play(&self, seed: u64) -> Seen {
        let object = Object::Bytes(self.bytes);
        let fobs = FobsConfig {
            deadline: self.deadline,
            priority: Priority::Fair,
            ..FobsConfig::new(object, CongestionControl::Auto)
        };
        let mut scene = fobs_sim::Scene::new(RATE, RTT).seed(seed).fobs(fobs);
        if let Some((start, stop)) = self.cubic {
            scene = scene.tcp(Algorithm::Cubic).starts(start).stops(stop);
        }
        let mut played = scene.start();
        let cubic = played.shares(5 * SEC, 15 * SEC).get(1).copied().unwrap_or(0.0);
        let mut at = 15 * SEC;
        while played.flow(0).outcome.is_running() && at < 300 * SEC {
            at += 5 * SEC;
            played.run_until(at);
        }
        let view = played.flow(0);
        assert!(view.outcome.is_complete(), "seed {seed}: {:?}", view.outcome);
        let (took, lost) = (view.figures.ended.expect("it ended"), view.figures.lost);
        Seen { took, cubic, queue: played.bottleneck().queue_delay.0, lost }
    }

    fn play_all(&self) -> Vec<Seen> {
        let all = each(&SEEDS, |seed| self.play(*seed));
        println!("{all:?}");
        all
    }
}

const ALWAYS: Option<(Nanos, Nanos)> = Some((0, 299 * SEC));
const SLOW: Scene = Scene { bytes: 150 * MB, deadline: Some(60 * SEC), cubic: ALWAYS };

#[test]
fn a_deadline_is_met_and_cubic_keeps_more_than_beside_fair() {
    let paced = SLOW.play_all();
    let fair = Scene { deadline: None, ..SLOW }.play_all();
    for seen in &paced {
        assert!(seen.took <= 60 * SEC, "{seen:?}");
    }
    let (beside_paced, beside_fair) = (median(&paced, |s| s.cubic), median(&fair, |s| s.cubic));
    assert!(beside_paced > beside_fair + 0.1, "{beside_paced:.3}, and {beside_fair:.3} beside fair");
}

#[test]
fn alone_it_takes_its_time_and_leaves_the_queue_empty() {
    for seen in (Scene { cubic: None, ..SLOW }).play_all() {
        assert!((40 * SEC..=60 * SEC).contains(&seen.took), "{seen:?}");
        assert!(seen.queue < MS && seen.lost == 0, "{seen:?}");
    }
}

#[test]
fn time_lost_to_a_flow_that_ends_is_made_up_for() {
    let all = Scene { cubic: Some((2 * SEC, 15 * SEC)), ..SLOW }.play_all();
    for seen in &all {
        assert!(seen.took <= 60 * SEC, "{seen:?}");
    }
    assert!(median(&all, |s| s.cubic) > 0.75, "{all:?}");
}

#[test]
fn a_deadline_that_cannot_be_met_changes_nothing() {
    let short = Scene { deadline: Some(10 * SEC), ..SLOW };
    let fair = Scene { deadline: None, ..SLOW };
    for seed in &SEEDS[..3] {
        let (short, fair) = (short.play(*seed), fair.play(*seed));
        assert_eq!(short.took, fair.took, "seed {seed}: packet by packet the same");
    }
}
