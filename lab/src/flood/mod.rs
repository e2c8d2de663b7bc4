//! `fobs-lab flood`: the speed of a copy while an attacker sends forged datagrams to its ends, beside the
//! same copy without.
//!
//! The attacker sees all that leaves an end, and sends datagrams in that end's name: replayed, with a bit
//! changed, cut short, from elsewhere, made up, and noise ([`attack::forgery`]). Copies with and without the
//! attack alternate, so that a disturbance of the machine hits both alike.

pub mod attack;
mod place;
mod trial;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use clap::ValueHint;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::{self, EXIT_INTERNAL, EXIT_NO_ROOT, Failure};
use crate::run::data::Data;
use crate::run::pair::Pair;
use crate::tool::{Amount, Options, PathFacts, Programs, Side, Task, by_name};
use crate::units::{Rate, Size};
use trial::{Plan, Trial};

/// Seed of the file's content.
const CONTENT_SEED: u64 = 3;
/// An attacker that achieves less than this share of its rate did not make the attack that is reported.
const ACHIEVED_MIN: f64 = 0.9;

/// Measure a copy while forged datagrams arrive at its ends, beside the same copy without (root).
///
/// Two network namespaces are joined by a path of a limited rate, which the forged datagrams go around. A
/// copy is pushed to a daemon, alternately with and without the attack, and every byte is compared. Fails
/// where a copy under attack has less than `--at-least` of the speed without, by the median of the pairs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The fobs program to test [default: beside this program, then in PATH]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    fobs: Option<PathBuf>,

    /// Rate of the path
    #[arg(long, value_name = "RATE", default_value = "200Mbit")]
    rate: Rate,

    /// Forged datagrams a second, at each end that is attacked
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    forged: u64,

    /// The end that gets them
    #[arg(long, value_name = "END", value_enum, default_value = "receiver")]
    at: At,

    /// Size of the file
    #[arg(long, value_name = "SIZE", default_value = "200MB")]
    bytes: Size,

    /// Copies of each kind
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,

    /// Least speed under attack, relative to that without
    #[arg(long, value_name = "RATIO", default_value_t = 0.8)]
    at_least: f64,

    /// Seed of what is forged [default: the clock]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

/// Which ends are attacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum At {
    /// Forged data
    Receiver,
    /// Forged acks
    Sender,
    /// Both
    Both,
}

impl At {
    fn sides(self) -> &'static [Side] {
        match self {
            At::Receiver => &[Side::Receiver],
            At::Sender => &[Side::Sender],
            At::Both => &[Side::Receiver, Side::Sender],
        }
    }
}

/// Runs `fobs-lab flood`.
pub fn main(args: &Args) -> ExitCode {
    failure::exit_code(run(args))
}

fn run(args: &Args) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        let why = "flood makes network namespaces and forges addresses: run it as root";
        return Err(Failure::with_code(EXIT_NO_ROOT, why));
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| Failure::new(format!("cannot handle signals: {error}")))?;
    }
    let clock = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    let seed = args.seed.unwrap_or_else(clock);
    println!("seed {seed}");
    let pairs = measure(args, seed, &interrupted).map_err(Failure::new)?;
    judge(args, &pairs)
}

/// The pairs of copies: without the attack, and with it.
fn measure(args: &Args, seed: u64, interrupted: &AtomicBool) -> Result<Vec<[Trial; 2]>, String> {
    crate::run::group::remove_leftovers();
    crate::run::data::remove_leftovers();
    let hosts = place::hosts(args.rate)?;
    let mut data = Data::new(CONTENT_SEED)?;
    let source = data.source(args.bytes.bytes(), 1)?;
    let destination = data.folder().join("target");
    std::fs::create_dir_all(&destination).map_err(|error| format!("cannot make a directory: {error}"))?;
    let (programs, options) = (Programs::new(args.fobs.as_deref()), Options::new());
    let tool = by_name("fobs").ok_or("there is no tool fobs")?;
    let one = |index: u32, plan: Option<Plan>| {
        let directory = data.folder().join(format!("run{index}"));
        std::fs::create_dir_all(&directory).map_err(|error| format!("cannot make a directory: {error}"))?;
        let paths = (source.path.clone(), destination.clone(), directory);
        let task = task(&hosts, (&programs, &options), paths, source.bytes);
        let launch = tool.launch(&task)?;
        let trial = trial::run(&hosts, &task, (&launch, &source), plan, interrupted)?;
        println!("{}", line(&trial));
        Ok::<Trial, String>(trial)
    };
    let mut pairs = Vec::new();
    for pair in 0..args.pairs {
        let plan =
            Plan { at: args.at.sides(), per_second: args.forged, seed: seed.wrapping_add(u64::from(pair)) };
        // The one that goes first alternates.
        pairs.push(if pair % 2 == 0 {
            let quiet = one(2 * pair, None)?;
            [quiet, one(2 * pair + 1, Some(plan))?]
        } else {
            let attacked = one(2 * pair, Some(plan))?;
            [one(2 * pair + 1, None)?, attacked]
        });
    }
    Ok(pairs)
}

/// The push of a file from the first host to the second.
fn task<'a>(
    hosts: &Pair,
    (programs, options): (&'a Programs, &'a Options),
    (source, destination, directory): (PathBuf, PathBuf, PathBuf),
    bytes: u64,
) -> Task<'a> {
    let [sender, receiver] = hosts.hosts().clone();
    Task {
        options,
        programs,
        // Its figures are for tools that must be given a rate; fobs is not.
        path: PathFacts {
            rate_bps: f64::INFINITY,
            return_rate_bps: f64::INFINITY,
            rtt: std::time::Duration::ZERO,
            queue_bytes: 0,
            mtu: 1500,
        },
        sender,
        receiver,
        amount: Amount::Bytes(bytes),
        source,
        destination,
        directory,
        index: 0,
    }
}

/// A copy in a line.
fn line(trial: &Trial) -> String {
    let Trial { goodput_bps, seconds, cpu_s: [client, server], rejected, socket_drops, waste, forged } =
        trial;
    let copy = format!(
        "{:7.1} Mbit/s, {seconds:5.1} s, CPU {client:.2} + {server:.2} s, {:.2}% sent in vain",
        goodput_bps / 1e6,
        100.0 * waste
    );
    if forged.is_empty() {
        return format!("quiet   {copy}");
    }
    let rates: Vec<String> =
        forged.iter().map(|sent| format!("{:.0} forged/s ({})", rate(sent), sent.datagrams)).collect();
    format!(
        "attack  {copy}; {}; {rejected} rejected, {socket_drops} found the receiver's socket full",
        rates.join(" and ")
    )
}

fn rate(sent: &attack::Sent) -> f64 {
    sent.datagrams as f64 / sent.elapsed.as_secs_f64().max(1e-9)
}

/// Prints what the pairs say, and fails where it is not enough.
fn judge(args: &Args, pairs: &[[Trial; 2]]) -> Result<(), Failure> {
    let mut ratios: Vec<f64> =
        pairs.iter().map(|[quiet, attacked]| attacked.goodput_bps / quiet.goodput_bps).collect();
    ratios.sort_by(f64::total_cmp);
    let (median, worst) = (ratios[ratios.len() / 2], ratios[0]);
    let forged = pairs.iter().flat_map(|[_, attacked]| &attacked.forged).map(rate);
    let least = forged.fold(f64::INFINITY, f64::min);
    println!(
        "speed under attack, relative to without: median {median:.3}, worst {worst:.3} of {} pairs; at least {least:.0} forged a second",
        pairs.len()
    );
    if least < ACHIEVED_MIN * args.forged as f64 {
        return Err(Failure::new(format!(
            "this machine sent only {least:.0} forged datagrams a second of {}: ask for fewer, or leave the machine alone",
            args.forged
        )));
    }
    if median < args.at_least {
        return Err(Failure::with_code(
            EXIT_INTERNAL,
            format!("a copy under attack has {median:.3} of its speed, less than {}", args.at_least),
        ));
    }
    Ok(())
}
