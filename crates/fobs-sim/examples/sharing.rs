//! How several flows of `auto` share a link, and what one of them leaves a TCP flow, over seeds.
//!
//! ```text
//! cargo run --release -p fobs-sim --example sharing -- [counts=2,4,8] [rtts=26,65,200] [mbit=100,1000] [quarters=4] [seeds=1..16] [lasts=40]
//! cargo run --release -p fobs-sim --example sharing -- beside=bbr,cubic [rtts=..] [mbit=..] [quarters=..] [seeds=..] [lasts=60]
//! ```
//!
//! Several join about every 2 s, each later by up to a second that the seed draws; `lasts` counts from the last. The index is
//! Jain's, of 10 s at a time from 5 s after the last; `even after` is when the last 4 s first have an index of 0.9 for good. Beside a TCP
//! flow the second comes after 5 to 6 s, and shares are those of the last 40 s. `trace=<ms>` prints every flow's rate and state so often.

use fobs_proto::congestion::CongestionControl;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::tcp::{Algorithm, TcpConfig};
use fobs_sim::flow::{FlowConfig, Traffic};
use fobs_sim::host::HostConfig;
use fobs_sim::link::LinkConfig;
use fobs_sim::report::jain;
use fobs_sim::rng::Rng;
use fobs_sim::time::{MS, Nanos, SEC};
use fobs_sim::topology::Dumbbell;
use fobs_sim::world::{Config, World};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// From one that joins to the next, and by how much more a seed can delay each of them.
const JOIN_EVERY: Nanos = 2 * SEC;
const JOIN_JITTER: Nanos = SEC;
/// Who comes second to or before a TCP flow.
const BESIDE_AFTER: Nanos = 5 * SEC;
const BESIDE_SHARES: Nanos = 40 * SEC;
/// Shares are taken so often, over so long a time, and first so long after the last has joined.
const TICK: Nanos = SEC;
const WINDOW: usize = 10;
const SETTLE: usize = 5;
/// An index of this over so many ticks is an even share.
const EVEN: f64 = 0.9;
const EVEN_TICKS: usize = 4;
/// The queue is looked at so often.
const SAMPLE: Nanos = 21 * MS;
/// An object that nobody finishes.
const ENDLESS: Object = Object::Bytes(1 << 50);
/// The stream of the seed's draws; far from those that a world gives its actors.
const DRAWS: u64 = 1 << 40;

#[derive(Debug, Clone, Copy)]
enum Who {
    Auto,
    Tcp(Algorithm),
}

#[derive(Debug, Clone, Copy)]
struct Path {
    mbit: u64,
    rtt: Nanos,
    queue_quarters: u64,
}

fn main() {
    let options = Options::of_command_line();
    for mbit in options.numbers("mbit", "100,1000") {
        for rtt in options.numbers("rtts", "26,65,200") {
            for queue_quarters in options.numbers("quarters", "4") {
                let path = Path { mbit, rtt: rtt * MS, queue_quarters };
                match options.0.get("beside") {
                    Some(names) => names.split(',').for_each(|name| beside(&options, path, name)),
                    None => among(&options, path),
                }
            }
        }
    }
}

/// What is asked for, by name.
struct Options(HashMap<String, String>);

impl Options {
    fn of_command_line() -> Options {
        let pair = |arg: String| arg.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Options(std::env::args().skip(1).map(|arg| pair(arg).expect("name=value")).collect())
    }

    /// Numbers with commas between them, or `first..last`.
    fn numbers(&self, name: &str, default: &str) -> Vec<u64> {
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let text = self.0.get(name).map_or(default, String::as_str);
        match text.split_once("..") {
            Some((first, last)) => (number(first)..=number(last)).collect(),
            None => text.split(',').map(number).collect(),
        }
    }
}

fn among(options: &Options, path: Path) {
    let lasts = options.numbers("lasts", "40")[0] as usize;
    for count in options.numbers("counts", "2,4,8") {
        let seeds = options.numbers("seeds", "1..16");
        let play = |seed: u64| {
            let mut draws = Rng::stream(seed, DRAWS);
            let joins = (0..count)
                .map(|i| if i == 0 { 0 } else { i * JOIN_EVERY + draws.range(0, JOIN_JITTER) })
                .collect::<Vec<_>>();
            let last = joins[joins.len() - 1].div_ceil(TICK) as usize;
            let flows: Vec<_> = joins.into_iter().map(|at| (Who::Auto, at)).collect();
            let seen = seen(path, seed, &flows, last + lasts, options);
            let index = |from: usize, until: usize| jain(&seen.shares(last + from, last + until));
            let windows: Vec<f64> =
                (SETTLE..=lasts - WINDOW).step_by(WINDOW).map(|from| index(from, from + WINDOW)).collect();
            let uneven = (0..=lasts - EVEN_TICKS).rev().find(|from| index(*from, from + EVEN_TICKS) < EVEN);
            let even = uneven.map_or(0, |from| from + EVEN_TICKS + 1).min(lasts);
            let used = seen.shares(last + SETTLE, last + lasts).iter().sum::<f64>();
            Shared { windows, even: even as f64, used, seen }
        };
        let all = on_all_cores(&seeds, play);
        let windows = all[0].windows.len();
        let mut line = format!(
            "{count} of auto, {} Mbit/s, {:>3} ms, {}/4 BDP:",
            path.mbit,
            path.rtt / MS,
            path.queue_quarters
        );
        for i in 0..windows {
            let each: Vec<f64> = all.iter().map(|one| one.windows[i]).collect();
            line += &format!(" {:.3} (least {:.3})", mean(&each), each.iter().copied().fold(1.0, f64::min));
        }
        let of = |figure: fn(&Shared) -> f64| all.iter().map(figure).collect::<Vec<_>>();
        let (even, queue) = (of(|one| one.even), of(|one| one.seen.queue_ms));
        println!(
            "{line} | even after {:.0} s (most {:.0}) | link {:.1}% | queue {:.1} ms = {:.0}% of RTT (most {:.1}) | waste {:.2}% | competed {:.1}",
            median(&even),
            even.iter().copied().fold(0.0, f64::max),
            mean(&of(|one| one.used)) * 100.0,
            median(&queue),
            median(&queue) * 100.0 / (path.rtt as f64 / MS as f64),
            queue.iter().copied().fold(0.0, f64::max),
            mean(&of(|one| one.seen.waste)) * 100.0,
            mean(&of(|one| one.seen.competed)),
        );
    }
}

fn beside(options: &Options, path: Path, name: &str) {
    let algorithm = Algorithm::ALL.into_iter().find(|a| a.name() == name).expect("an algorithm");
    let until = options.numbers("lasts", "60")[0] as usize;
    for tcp_first in [true, false] {
        let play = |seed: u64| {
            let second = BESIDE_AFTER + Rng::stream(seed, DRAWS).range(0, JOIN_JITTER);
            let (tcp, auto) = if tcp_first { (0, second) } else { (second, 0) };
            let flows = vec![(Who::Tcp(algorithm), tcp), (Who::Auto, auto)];
            let seen = seen(path, seed, &flows, until, options);
            let shares = seen.shares(until - (BESIDE_SHARES / TICK) as usize, until);
            (shares[0], shares[1], seen.waste, seen.queue_ms)
        };
        let seeds = options.numbers("seeds", "1..16");
        let all = on_all_cores(&seeds, play);
        let of = |figure: fn(&(f64, f64, f64, f64)) -> f64| all.iter().map(figure).collect::<Vec<_>>();
        let (tcp, auto) = (of(|one| one.0), of(|one| one.1));
        let each: Vec<String> =
            all.iter().map(|one| format!("{:.0}/{:.0}", one.0 * 100.0, one.1 * 100.0)).collect();
        println!(
            "{name} {}, {} Mbit/s, {:>3} ms, {}/4 BDP: tcp keeps {:.1}% (least {:.1}, mean {:.1}), auto {:.1}% (least {:.1}) | waste {:.2}% | queue {:.1} ms | {}",
            if tcp_first { "first " } else { "second" },
            path.mbit,
            path.rtt / MS,
            path.queue_quarters,
            median(&tcp) * 100.0,
            tcp.iter().copied().fold(1.0, f64::min) * 100.0,
            mean(&tcp) * 100.0,
            median(&auto) * 100.0,
            auto.iter().copied().fold(1.0, f64::min) * 100.0,
            median(&of(|one| one.2)) * 100.0,
            median(&of(|one| one.3)),
            each.join(" ")
        );
    }
}

/// What several came to: the index of each window, when their shares were even for good, and their part of the link.
struct Shared {
    windows: Vec<f64>,
    even: f64,
    used: f64,
    seen: Seen,
}

/// What was seen of one run.
struct Seen {
    /// What each flow got in each tick, share of the link.
    ticks: Vec<Vec<f64>>,
    /// Median of the delay in the queue once the last has settled.
    queue_ms: f64,
    /// Of the last flow.
    waste: f64,
    /// Times that a flow took others for somebody who fills the queue.
    competed: f64,
}

impl Seen {
    /// Each flow's share of the link between two ticks.
    fn shares(&self, from: usize, until: usize) -> Vec<f64> {
        let share = |flow: &Vec<f64>| flow[from..until].iter().sum::<f64>() / (until - from) as f64;
        self.ticks.iter().map(share).collect()
    }
}

fn seen(path: Path, seed: u64, flows: &[(Who, Nanos)], ticks: usize, options: &Options) -> Seen {
    let rate = path.mbit * 1_000_000;
    let product = rate / 8 * path.rtt / SEC;
    let queue = (product * path.queue_quarters / 4).max(30_000);
    let bottleneck = LinkConfig::new("bottleneck", rate, path.rtt / 2, queue);
    let back = LinkConfig::wire("back", path.rtt / 2);
    let bell = Dumbbell { pairs: flows.len(), interface_rate: 10 * rate, bottleneck, back };
    let mut config = Config::new("sharing", seed, ticks as u64 * TICK);
    config.sample = SAMPLE;
    config.edges = bell.edges();
    for (i, (who, start)) in flows.iter().enumerate() {
        let (from, to) = (format!("s{i}"), format!("r{i}"));
        config.hosts.push(HostConfig::ordinary(&from));
        config.hosts.push(HostConfig::ordinary(&to));
        let traffic = match who {
            Who::Auto => Traffic::Fobs(Box::new(FobsConfig::new(ENDLESS, CongestionControl::Auto))),
            Who::Tcp(algorithm) => Traffic::Tcp(TcpConfig::endless(*algorithm)),
        };
        config.flows.push(FlowConfig { start: *start, ..FlowConfig::new(&from, &from, &to, traffic) });
    }
    let mut world = World::new(config).expect("hosts and routes exist");
    let trace = options.0.get("trace").map(|every| every.parse::<u64>().expect("milliseconds") * MS);
    let mut got = vec![Vec::new(); flows.len()];
    let mut before = vec![0; flows.len()];
    for tick in 0..ticks as u64 {
        let until = (tick + 1) * TICK;
        if let Some(every) = trace {
            for at in (tick * TICK..until).step_by(every as usize).skip(1) {
                traced(&mut world, at, flows.len());
            }
            traced(&mut world, until, flows.len());
        }
        world.run_until(until).unwrap_or_else(|violation| panic!("{violation}\n{}", world.describe()));
        for (i, before) in before.iter_mut().enumerate() {
            let delivered = world.flow(i).figures.delivered;
            got[i].push((delivered - *before) as f64 * 8.0 / (rate as f64 * (TICK as f64 / SEC as f64)));
            *before = delivered;
        }
    }
    let settled = flows.iter().map(|(_, start)| *start).fold(0, Nanos::max) + SETTLE as Nanos * TICK;
    let samples = world.link(0).samples;
    let waits =
        samples.iter().filter(|sample| sample.at >= settled).map(|sample| sample.waiting as f64 / MS as f64);
    let competed = |i: usize| world.flow(i).modes.iter().filter(|change| change.to == "as cubic").count();
    Seen {
        ticks: got,
        competed: (0..flows.len()).map(competed).sum::<usize>() as f64,
        waste: world.flow(flows.len() - 1).figures.waste(),
        queue_ms: median(&waits.collect::<Vec<_>>()),
    }
}

fn traced(world: &mut World, at: Nanos, flows: usize) {
    world.run_until(at).expect("no rule breaks");
    let mut line = format!("{:>6} ms", at / MS);
    for i in 0..flows {
        let figures = world.flow(i).figures;
        let pacing = figures.pacing.unwrap_or(0) as f64 / 1e6;
        let rtt = figures.rtt.unwrap_or(0) as f64 / MS as f64;
        line += &format!(" |{pacing:>6.1} {rtt:>5.1}");
    }
    let states = world.describe();
    let states: Vec<&str> =
        states.split("auto ").skip(1).filter_map(|rest| rest.split(" at ").next()).collect();
    println!("{line} | {}", states.join(","));
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

/// The results of `work` for each seed, in the order of the seeds.
fn on_all_cores<T: Send>(seeds: &[u64], work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let work_through = || {
            let mut done = Vec::new();
            while let Some((i, seed)) = seeds.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((i, work(*seed)));
            }
            done
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work_through)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a world failed; see above")).collect()
    });
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}
