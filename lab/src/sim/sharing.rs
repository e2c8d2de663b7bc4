//! `fobs-lab sim sharing`: how several flows of `auto` share a link, and what one leaves a TCP flow, over
//! seeds.
//!
//! Several flows start about every 2 s, each later by up to a second that the seed draws. The index is
//! Jain's, over windows of 10 s from 5 s after the last start; "even after" is when the last 4 s first have
//! an index of 0.9 and keep it. Beside a TCP flow, the second flow starts after 5 to 6 s, and shares are
//! those of the last 40 s.

use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::builder::{PossibleValuesParser, TypedValueParser};
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

use crate::failure::Failure;
use crate::output::print;

/// Time between two starts, and the largest further delay that the seed draws for each.
const JOIN_EVERY: Nanos = 2 * SEC;
const JOIN_JITTER: Nanos = SEC;
/// Start of the second flow beside a TCP flow, and the time at the end that shares are taken over.
const BESIDE_AFTER: Nanos = 5 * SEC;
const BESIDE_SHARES: Nanos = 40 * SEC;
/// Length of one measurement of the shares; the units of [`WINDOW`], [`SETTLE`] and [`EVEN_TICKS`].
const TICK: Nanos = SEC;
/// Ticks that one index is taken over.
const WINDOW: usize = 10;
/// Ticks from the last start to the first index.
const SETTLE: usize = 5;
/// Smallest index of an even share, and the ticks it is taken over.
const EVEN: f64 = 0.9;
const EVEN_TICKS: usize = 4;
/// Time between two samples of the queue.
const SAMPLE: Nanos = 21 * MS;
/// An object that no flow completes.
const ENDLESS: Object = Object::Bytes(1 << 50);
/// The random stream of the starts; far from those that a world gives its actors.
const DRAWS: u64 = 1 << 40;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Auto,
    Tcp(Algorithm),
}

#[derive(Debug, Clone, Copy)]
struct Path {
    mbit: u64,
    rtt: Nanos,
    queue_quarters: u64,
}

/// Measure how flows of auto share a link with each other or with TCP.
///
/// Prints a line for each path and number of flows, with figures over all seeds. Lists are numbers with
/// commas, or a range as in 1..16.
#[derive(Debug, clap::Args)]
pub struct SharingArgs {
    /// Rates of the link, Mbit/s
    #[arg(long, value_name = "LIST", value_parser = positive, default_value = "100,1000")]
    mbit: Numbers,

    /// Round-trip times, ms
    #[arg(long, value_name = "LIST", value_parser = positive, default_value = "26,65,200")]
    rtts: Numbers,

    /// Queue lengths, quarters of the bandwidth-delay product
    #[arg(long, value_name = "LIST", value_parser = positive, default_value = "4")]
    quarters: Numbers,

    /// Seeds
    #[arg(long, value_name = "LIST", default_value = "1..16")]
    seeds: Numbers,

    /// Numbers of flows
    #[arg(long, value_name = "LIST", value_parser = positive, default_value = "2,4,8", conflicts_with = "beside")]
    counts: Numbers,

    /// One flow of auto beside one TCP flow with each of these congestion controls
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = algorithms())]
    beside: Vec<Algorithm>,

    /// Duration in seconds, from the last start [default: 40; with --beside from the first: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(15..=100_000))]
    lasts: Option<u64>,

    /// Print rate, round-trip time and state of every flow this often, ms
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    trace: Option<u64>,
}

fn algorithms() -> impl TypedValueParser<Value = Algorithm> {
    PossibleValuesParser::new(Algorithm::ALL.iter().map(|algorithm| algorithm.name())).try_map(|name| {
        Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name).ok_or("unknown")
    })
}

/// Numbers with commas between them, or a range `first..last` with both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Numbers(Vec<u64>);

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Numbers, String> {
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("{text:?} is not a number; write a list like 2,4,8 or 1..16"))
        };
        let numbers = match text.split_once("..") {
            Some((first, last)) => (number(first)?..=number(last)?).collect(),
            None => text.split(',').map(number).collect::<Result<Vec<u64>, String>>()?,
        };
        if numbers.is_empty() {
            return Err("the range is empty; give the smaller number first".to_owned());
        }
        Ok(Numbers(numbers))
    }
}

fn positive(text: &str) -> Result<Numbers, String> {
    let numbers: Numbers = text.parse()?;
    if numbers.0.contains(&0) {
        return Err("0 is not possible; give numbers from 1 on".to_owned());
    }
    Ok(numbers)
}

/// Runs the command.
pub fn run(args: &SharingArgs) -> Result<(), Failure> {
    let beside_min = (BESIDE_AFTER + BESIDE_SHARES) / SEC;
    if !args.beside.is_empty() && args.lasts.is_some_and(|lasts| lasts < beside_min) {
        return Err(Failure::new(format!("--beside needs --lasts of at least {beside_min} seconds")));
    }
    for mbit in &args.mbit.0 {
        for rtt in &args.rtts.0 {
            for queue_quarters in &args.quarters.0 {
                let path = Path { mbit: *mbit, rtt: *rtt * MS, queue_quarters: *queue_quarters };
                if args.beside.is_empty() {
                    among(args, path)?;
                }
                for algorithm in &args.beside {
                    beside(args, path, *algorithm)?;
                }
            }
        }
    }
    Ok(())
}

/// Prints how flows of `auto` share the path.
fn among(args: &SharingArgs, path: Path) -> Result<(), Failure> {
    let lasts = args.lasts.unwrap_or(40) as usize;
    for count in args.counts.0.iter().copied() {
        let play = |seed: u64| {
            let mut draws = Rng::stream(seed, DRAWS);
            let joins = (0..count)
                .map(|i| if i == 0 { 0 } else { i * JOIN_EVERY + draws.range(0, JOIN_JITTER) })
                .collect::<Vec<_>>();
            let last = joins[joins.len() - 1].div_ceil(TICK) as usize;
            let flows: Vec<_> = joins.into_iter().map(|at| (Kind::Auto, at)).collect();
            let seen = seen(path, seed, &flows, last + lasts, args);
            let index = |from: usize, until: usize| jain(&seen.shares(last + from, last + until));
            let windows: Vec<f64> =
                (SETTLE..=lasts - WINDOW).step_by(WINDOW).map(|from| index(from, from + WINDOW)).collect();
            let uneven = (0..=lasts - EVEN_TICKS).rev().find(|from| index(*from, from + EVEN_TICKS) < EVEN);
            let even = uneven.map_or(0, |from| from + EVEN_TICKS + 1).min(lasts);
            let used = seen.shares(last + SETTLE, last + lasts).iter().sum::<f64>();
            Shared { windows, even: even as f64, used, seen }
        };
        let all = on_all_cores(&args.seeds.0, play);
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
        print(&format!(
            "{line} | even after {:.0} s (most {:.0}) | link {:.1}% | queue {:.1} ms = {:.0}% of RTT (most {:.1}) | waste {:.2}% | competed {:.1}\n",
            median(&even),
            even.iter().copied().fold(0.0, f64::max),
            mean(&of(|one| one.used)) * 100.0,
            median(&queue),
            median(&queue) * 100.0 / (path.rtt as f64 / MS as f64),
            queue.iter().copied().fold(0.0, f64::max),
            mean(&of(|one| one.seen.waste)) * 100.0,
            mean(&of(|one| one.seen.competed)),
        ))?;
    }
    Ok(())
}

/// Prints how a flow of `auto` and a TCP flow share the path.
fn beside(args: &SharingArgs, path: Path, algorithm: Algorithm) -> Result<(), Failure> {
    let name = algorithm.name();
    let until = args.lasts.unwrap_or(60) as usize;
    for tcp_first in [true, false] {
        let play = |seed: u64| {
            let second = BESIDE_AFTER + Rng::stream(seed, DRAWS).range(0, JOIN_JITTER);
            let (tcp, auto) = if tcp_first { (0, second) } else { (second, 0) };
            let flows = vec![(Kind::Tcp(algorithm), tcp), (Kind::Auto, auto)];
            let seen = seen(path, seed, &flows, until, args);
            let shares = seen.shares(until - (BESIDE_SHARES / TICK) as usize, until);
            (shares[0], shares[1], seen.waste, seen.queue_ms)
        };
        let all = on_all_cores(&args.seeds.0, play);
        let of = |figure: fn(&(f64, f64, f64, f64)) -> f64| all.iter().map(figure).collect::<Vec<_>>();
        let (tcp, auto) = (of(|one| one.0), of(|one| one.1));
        let each: Vec<String> =
            all.iter().map(|one| format!("{:.0}/{:.0}", one.0 * 100.0, one.1 * 100.0)).collect();
        print(&format!(
            "{name} {}, {} Mbit/s, {:>3} ms, {}/4 BDP: tcp keeps {:.1}% (least {:.1}, mean {:.1}), auto {:.1}% (least {:.1}) | waste {:.2}% | queue {:.1} ms | {}\n",
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
        ))?;
    }
    Ok(())
}

/// One run of several flows: the index of each window, when shares became even (s), and their part of the
/// link.
struct Shared {
    windows: Vec<f64>,
    even: f64,
    used: f64,
    seen: Seen,
}

/// Measurements of one run.
struct Seen {
    /// Each flow's share of the link in each tick.
    ticks: Vec<Vec<f64>>,
    /// Median delay in the queue after the last start and [`SETTLE`], ms.
    queue_ms: f64,
    /// Packets of repeated data of the last flow, as a share of its others.
    waste: f64,
    /// Number of times that flows changed to competing with traffic that fills the queue.
    competed: f64,
}

impl Seen {
    /// Each flow's mean share of the link between two ticks.
    fn shares(&self, from: usize, until: usize) -> Vec<f64> {
        let share = |flow: &Vec<f64>| flow[from..until].iter().sum::<f64>() / (until - from) as f64;
        self.ticks.iter().map(share).collect()
    }
}

fn seen(path: Path, seed: u64, flows: &[(Kind, Nanos)], ticks: usize, args: &SharingArgs) -> Seen {
    let rate = path.mbit * 1_000_000;
    let product = rate / 8 * path.rtt / SEC;
    let queue = (product * path.queue_quarters / 4).max(30_000);
    let bottleneck = LinkConfig::new("bottleneck", rate, path.rtt / 2, queue);
    let back = LinkConfig::wire("back", path.rtt / 2);
    let bell = Dumbbell { pairs: flows.len(), interface_rate: 10 * rate, bottleneck, back };
    let mut config = Config::new("sharing", seed, ticks as u64 * TICK);
    config.sample = SAMPLE;
    config.edges = bell.edges();
    for (i, (kind, start)) in flows.iter().enumerate() {
        let (from, to) = (format!("s{i}"), format!("r{i}"));
        config.hosts.push(HostConfig::ordinary(&from));
        config.hosts.push(HostConfig::ordinary(&to));
        let traffic = match kind {
            Kind::Auto => Traffic::Fobs(Box::new(FobsConfig::new(ENDLESS, CongestionControl::Auto))),
            Kind::Tcp(algorithm) => Traffic::Tcp(TcpConfig::endless(*algorithm)),
        };
        config.flows.push(FlowConfig { start: *start, ..FlowConfig::new(&from, &from, &to, traffic) });
    }
    let mut world = World::new(config).expect("hosts and routes exist");
    let trace = args.trace.map(|every| every * MS);
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
    // A failure to print also ends the figures that follow.
    let _ = print(&format!("{line} | {}\n", states.join(",")));
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
