//! `auto` beside bursts that take all of the link half of the time and never yield: 1 Gbit/s, 65 ms, a queue of one bandwidth-delay
//! product, phases of 100 ms on average, the path of `lab/plans/cross-traffic.toml`. `FOBS_SHOW=1` prints the figures.

use fobs_proto::congestion::CongestionControl;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::source::{Pattern, SourceConfig};
use fobs_sim::flow::{FlowConfig, Traffic};
use fobs_sim::host::HostConfig;
use fobs_sim::link::LinkConfig;
use fobs_sim::time::{MS, Nanos, SEC};
use fobs_sim::topology::Dumbbell;
use fobs_sim::world::{Config, World};

const RTT: Nanos = 65 * MS;

/// What one transfer came to.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Its goodput as a part of what the bursts left while it ran.
    share: f64,
    waste: f64,
}

fn play(rate: u64, bytes: u64, seed: u64) -> Seen {
    let bottleneck = LinkConfig::new("bottleneck", rate, RTT / 2, rate / 8 * RTT / SEC);
    let back = LinkConfig::wire("back", RTT / 2);
    let bell = Dumbbell { pairs: 2, interface_rate: 10 * rate, bottleneck, back };
    let mut config = Config::new("bursts", seed, 60 * SEC);
    config.edges = bell.edges();
    for host in ["s0", "r0", "s1", "r1"] {
        config.hosts.push(HostConfig::ordinary(host));
    }
    let fobs = FobsConfig::new(Object::Bytes(bytes), CongestionControl::Auto);
    config.flows.push(FlowConfig::new("fobs", "s0", "r0", Traffic::Fobs(Box::new(fobs))));
    let pattern = Pattern::OnOff { on: 100 * MS, off: 100 * MS };
    let source = Traffic::Source(SourceConfig { rate, packet: 1500, pattern });
    config.flows.push(FlowConfig::new("bursts", "s1", "r1", source));
    let mut world = World::new(config).expect("hosts and routes exist");
    let mut at = 0;
    while world.flow(0).outcome.is_running() {
        at += 100 * MS;
        world.run_until(at).unwrap_or_else(|violation| panic!("{violation}\n{}", world.describe()));
        if std::env::var("FOBS_TRACE").is_ok_and(|wanted| wanted == seed.to_string()) {
            trace(&mut world, at);
        }
    }
    let figures = world.flow(0).figures;
    let took = figures.ended.expect("it is complete") - figures.began.expect("it has begun");
    let sent = world.flow(1).figures.sent as f64 * 1500.0 * 8.0 / (at as f64 / SEC as f64);
    let goodput = bytes as f64 * 8.0 / (took as f64 / SEC as f64);
    Seen { share: goodput / (rate as f64 - sent), waste: figures.waste() }
}

fn trace(world: &mut World, at: Nanos) {
    let (figures, others) = (world.flow(0).figures, world.flow(1).figures.sent);
    let states = world.describe();
    let state = states.split("auto ").nth(1).and_then(|rest| rest.split(" at ").next()).unwrap_or("");
    println!(
        "{:>6} ms delivered {:>4} MB lost {:>6} repeated {:>6} rtt {:>5.1} pacing {:>4} window {:>6} kB {state} others {others}",
        at / MS,
        figures.delivered / 1_000_000,
        figures.lost,
        figures.repeated,
        figures.rtt.unwrap_or(0) as f64 / MS as f64,
        figures.pacing.unwrap_or(0) / 1_000_000,
        figures.window.unwrap_or(0) / 1000,
    );
}

/// Medians of so many seeds.
fn medians(rate: u64, bytes: u64, seeds: u64) -> Seen {
    let next = std::sync::atomic::AtomicU64::new(1);
    let mut all: Vec<Seen> = std::thread::scope(|scope| {
        let work = || {
            let mut seen = Vec::new();
            loop {
                let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if seed > seeds {
                    return seen;
                }
                seen.push(play(rate, bytes, seed));
            }
        };
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().flat_map(|worker| worker.join().expect("no rule breaks")).collect()
    });
    let mut median = |figure: fn(&Seen) -> f64| {
        all.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
        (figure(&all[all.len() / 2]), figure(&all[0]), figure(&all[all.len() - 1]))
    };
    let (share, waste) = (median(|s| s.share), median(|s| s.waste));
    if std::env::var("FOBS_SHOW").is_ok() {
        let percent = |(median, least, most): (f64, f64, f64)| {
            format!("{:.1}% ({:.1} to {:.1})", median * 100.0, least * 100.0, most * 100.0)
        };
        println!(
            "{} MB over {} Mbit/s: {} of what is left, waste {}",
            bytes / 1_000_000,
            rate / 1_000_000,
            percent(share),
            percent(waste)
        );
    }
    Seen { share: share.0, waste: waste.0 }
}

/// At least so much of what is left: the bar of the issue that asked for it.
const TAKES: f64 = 0.65;
/// At most so much waste: the bar too.
const WASTES: f64 = 0.10;

#[test]
fn most_of_what_bursts_leave_is_taken() {
    let (gigabit, mb) = (1_000_000_000, 1_000_000);
    for (rate, bytes, seeds) in
        [(gigabit, 128 * mb, 15), (gigabit, 1000 * mb, 7), (gigabit / 10, 32 * mb, 15)]
    {
        let Seen { share, waste } = medians(rate, bytes, seeds);
        assert!(share >= TAKES && waste <= WASTES, "{bytes} bytes at {rate}: {share:.3}, waste {waste:.3}");
    }
}
