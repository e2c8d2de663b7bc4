//! Transfers with a deadline: whether they meet it, what they leave to others meanwhile, and what becomes of one that cannot be met.
//! `FOBS_SHOW=1` prints the figures.

use fobs_proto::congestion::{CongestionControl, Priority};
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::tcp::{Algorithm, TcpConfig};
use fobs_sim::flow::{FlowConfig, Traffic};
use fobs_sim::host::HostConfig;
use fobs_sim::link::LinkConfig;
use fobs_sim::time::{MS, Nanos, SEC};
use fobs_sim::topology::Dumbbell;
use fobs_sim::world::{Config, World};

const RATE: u64 = 100_000_000;
const RTT: Nanos = 26 * MS;
const MB: u64 = 1_000_000;
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

/// A transfer of so many bytes through a bottleneck of [`RATE`], alone or beside an endless flow of CUBIC.
#[derive(Clone, Copy)]
struct Scene {
    bytes: u64,
    deadline: Option<Nanos>,
    priority: Priority,
    /// From when to when CUBIC is there.
    cubic: Option<(Nanos, Nanos)>,
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// When the transfer was complete.
    took: Nanos,
    /// What CUBIC had of the link in the first ten seconds after the first five, in which a new flow finds its part.
    cubic: f64,
    /// Median delay in the queue.
    queue: Nanos,
    sent: u64,
    lost: u64,
}

impl Scene {
    fn play(&self, seed: u64) -> Seen {
        let bottleneck = LinkConfig::new("bottleneck", RATE, RTT / 2, RATE / 8 * RTT / SEC);
        let back = LinkConfig::wire("back", RTT / 2);
        let bell = Dumbbell { pairs: 2, interface_rate: 10 * RATE, bottleneck, back };
        let mut config = Config::new("deadline", seed, 300 * SEC);
        config.edges = bell.edges();
        for host in ["s0", "r0", "s1", "r1"] {
            config.hosts.push(HostConfig::ordinary(host));
        }
        let fobs = FobsConfig {
            deadline: self.deadline,
            priority: self.priority,
            ..FobsConfig::new(Object::Bytes(self.bytes), CongestionControl::Auto)
        };
        config.flows.push(FlowConfig::new("fobs", "s0", "r0", Traffic::Fobs(Box::new(fobs))));
        if let Some((start, stop)) = self.cubic {
            let tcp = FlowConfig::new("tcp", "s1", "r1", Traffic::Tcp(TcpConfig::endless(Algorithm::Cubic)));
            config.flows.push(FlowConfig { start, stop: Some(stop), ..tcp });
        }
        let mut world = World::new(config).expect("hosts and routes exist");
        let run = |world: &mut World, at| {
            world.run_until(at).unwrap_or_else(|violation| panic!("{violation}\n{}", world.describe()));
        };
        let tcp = |world: &mut World| match self.cubic {
            Some(_) => world.flow(1).figures.delivered,
            None => 0,
        };
        run(&mut world, 5 * SEC);
        let before = tcp(&mut world);
        run(&mut world, 15 * SEC);
        let cubic = (tcp(&mut world) - before) as f64 * 8.0 / (RATE * 10) as f64;
        let mut at = 15 * SEC;
        while world.flow(0).outcome.is_running() && at < 300 * SEC {
            at += 5 * SEC;
            run(&mut world, at);
        }
        let view = world.flow(0);
        let figures = view.figures;
        let took = figures.ended.filter(|_| !view.outcome.is_running()).expect("it completes");
        let queue = world.link(0).queue_delay.0;
        Seen { took, cubic, queue, sent: figures.sent, lost: figures.lost }
    }

    /// The figures of all seeds, in the order of the time that they took.
    fn play_all(&self, what: &str) -> Vec<Seen> {
        let mut all = std::thread::scope(|scope| {
            let runs = SEEDS.map(|seed| scope.spawn(move || self.play(seed)));
            runs.map(|run| run.join().expect("no rule breaks"))
        });
        all.sort_by_key(|seen| seen.took);
        if std::env::var("FOBS_SHOW").is_ok() {
            for seen in &all {
                let (took, queue) = (seen.took as f64 / 1e9, seen.queue as f64 / 1e6);
                println!(
                    "{what}: {took:.1} s, CUBIC {:.3}, queue {queue:.1} ms, {} lost of {}",
                    seen.cubic, seen.lost, seen.sent
                );
            }
        }
        all.to_vec()
    }
}

const ALWAYS: Option<(Nanos, Nanos)> = Some((0, 299 * SEC));
const SLOW: Scene =
    Scene { bytes: 150 * MB, deadline: Some(60 * SEC), priority: Priority::Fair, cubic: ALWAYS };

fn median(all: &[Seen], figure: impl Fn(&Seen) -> f64) -> f64 {
    let mut figures: Vec<f64> = all.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[test]
fn it_is_met_beside_cubic_which_keeps_more_than_beside_a_fair_flow() {
    let paced = SLOW.play_all("60 s for 150 MB");
    let fair = Scene { deadline: None, ..SLOW }.play_all("fair");
    for seen in &paced {
        assert!(seen.took <= 60 * SEC, "{seen:?}");
    }
    let (beside_paced, beside_fair) = (median(&paced, |s| s.cubic), median(&fair, |s| s.cubic));
    assert!(
        beside_paced > beside_fair + 0.1,
        "CUBIC has {beside_paced:.3}, and {beside_fair:.3} beside fair"
    );
}

#[test]
fn alone_it_takes_the_time_that_it_has_and_leaves_the_queue_empty() {
    for seen in (Scene { cubic: None, ..SLOW }).play_all("alone") {
        assert!((40 * SEC..=60 * SEC).contains(&seen.took), "{seen:?}");
        assert!(seen.queue < MS && seen.lost == 0, "{seen:?}");
    }
}

#[test]
fn somebody_who_goes_again_is_given_way_to_and_made_up_for() {
    let guest = Scene { cubic: Some((2 * SEC, 15 * SEC)), ..SLOW };
    let all = guest.play_all("CUBIC to 15 s");
    for seen in &all {
        assert!(seen.took <= 60 * SEC, "{seen:?}");
    }
    assert!(median(&all, |s| s.cubic) > 0.75, "{all:?}");
}

#[test]
fn a_deadline_that_cannot_be_met_is_a_fair_transfer() {
    let short = Scene { deadline: Some(10 * SEC), ..SLOW };
    let fair = Scene { deadline: None, ..SLOW };
    for seed in SEEDS {
        let (short, fair) = (short.play(seed), fair.play(seed));
        assert_eq!(short.took, fair.took, "seed {seed}: packet by packet the same");
    }
}
