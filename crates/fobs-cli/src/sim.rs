//! `fobs sim`: the protocol in virtual time. Reads scenarios, writes what they have shown, and draws worlds from seeds.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use fobs::{Error, ErrorKind, Result};
use fobs_diagnose::direct::{self, Physical, Row};
use fobs_diagnose::window::read_all;
use fobs_sim::{Report, Scenario, World, plot, swarm};

use crate::diagnose::args::MethodArgs;
use crate::diagnose::{classifier, unreadable};

/// Examples of `fobs sim`, for its help and its man page.
const SIM_EXAMPLES: &str = "\
Examples:
  fobs sim run scenarios/neighbours.toml       a table on standard output
  fobs sim run --seed 7 --json run.json --plot run.svg scenarios/lossy.toml
  fobs sim swarm --seeds 500                   random worlds, each checked at every step
  fobs sim swarm --seeds 1 --from 17           one of them again
  fobs sim direct --loss-rate 0.00035 windows.jsonl.gz";

/// Run the protocol in virtual time.
///
/// The very sender and receiver that copy files run on simulated links and hosts, next to models of TCP, with every
/// rule of the protocol checked at every step. Nothing touches the network. docs/simulator.md describes scenario files.
#[derive(Debug, Args)]
#[command(after_help = SIM_EXAMPLES, args_override_self = true)]
pub struct SimArgs {
    /// What to simulate.
    #[command(subcommand)]
    pub what: SimCommand,
}

/// What `fobs sim` does.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    Run(RunArgs),
    Swarm(SwarmArgs),
    Direct(DirectArgs),
}

/// Run a scenario: print a table, and write JSON and a plot where that is asked for.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Another seed than the scenario's
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,

    /// Write everything that was seen, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,

    /// Write a picture (SVG) of goodput and queues
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plot: Option<PathBuf>,

    /// The scenario, a TOML file
    #[arg(value_name = "SCENARIO", value_hint = ValueHint::FilePath)]
    pub scenario: PathBuf,
}

/// Draw worlds from seeds and run them: first with faults, then without; the first that breaks a rule ends the run.
#[derive(Debug, Args)]
pub struct SwarmArgs {
    /// How many worlds
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub seeds: u64,

    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub from: u64,

    /// Write everything that was seen of the last world, as JSON; where a rule broke that is the world to look at
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,

    /// Name every world
    #[arg(short = 'v')]
    pub verbose: bool,
}

/// Drive a virtual transfer of 10 Gbit/s by recorded losses: what a classifier of loss causes is worth.
///
/// Each recorded window stands for one window of a virtual transfer with HighSpeed TCP's response. One such transfer spares
/// losses that the classifier puts down to the receiver, its twin spares none (docs/simulator.md).
#[derive(Debug, Args)]
pub struct DirectArgs {
    /// Long-term loss rates to make of the recorded windows, clean ones between them; without it they are played as they are
    #[arg(long, value_name = "P", value_delimiter = ',')]
    pub loss_rate: Vec<f64>,

    /// Windows of each transfer
    #[arg(long, value_name = "N", default_value_t = 16_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub windows: u32,

    /// What draws the windows
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub method: MethodArgs,

    /// Print one JSON object a rate
    #[arg(long)]
    pub json: bool,

    /// Files of windows, as for fobs diagnose
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
}

/// `fobs sim`.
///
/// # Errors
/// `Usage` for a scenario that makes no sense, `NoSource` or `FileIo` for files that cannot be read or written, `Internal` for a
/// broken rule.
pub fn run(args: &SimArgs) -> Result<()> {
    match &args.what {
        SimCommand::Run(args) => run_scenario(args),
        SimCommand::Swarm(args) => run_swarm(args),
        SimCommand::Direct(args) => run_direct(args),
    }
}

fn run_direct(args: &DirectArgs) -> Result<()> {
    let recorded = read_all(&args.files).map_err(unreadable)?;
    let mut classifier = classifier(&args.method)?;
    let rates: Vec<Option<f64>> = match args.loss_rate.is_empty() {
        true => vec![None],
        false => args.loss_rate.iter().copied().map(Some).collect(),
    };
    let link = direct::Link::default();
    let mut table = String::from(
        "loss rate  events / in range  receiver  network  inconclusive  with, Mbit/s  ledger, Mbit/s  without, Mbit/s  ratio\n",
    );
    for loss_rate in rates {
        let physical = Physical { loss_rate, windows: args.windows, seed: args.seed };
        let row = direct::simulate(&recorded, &physical, &link, &mut classifier)
            .map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
        if args.json {
            let line = serde_json::to_string(&row)
                .map_err(|error| Error::new(ErrorKind::Internal, format!("cannot print a row: {error}")))?;
            print(&format!("{line}\n"))?;
        } else {
            table.push_str(&line(&row));
        }
    }
    if args.json { Ok(()) } else { print(&table) }
}

/// A row in the columns of `seeds/001` Table 1.
fn line(row: &Row) -> String {
    let share = |count: u32| 100.0 * f64::from(count) / f64::from(row.in_range.max(1));
    format!(
        "{:<9.6}  {:>8} / {:<8}  {:>7.2}%  {:>6.2}%  {:>11.2}%  {:>12.1}  {:>14}  {:>15.1}  {:>5.1}\n",
        row.loss_rate,
        row.events,
        row.in_range,
        share(row.receiver),
        share(row.network),
        share(row.inconclusive),
        row.with_bps / 1e6,
        row.ledger_bps.map_or_else(|| "-".to_owned(), |rate| format!("{:.1}", rate / 1e6)),
        row.without_bps / 1e6,
        row.with_bps / row.without_bps,
    )
}

fn run_scenario(args: &RunArgs) -> Result<()> {
    let shown = args.scenario.display();
    let text = fs::read_to_string(&args.scenario).map_err(|error| {
        Error::new(ErrorKind::NoSource, format!("cannot read the scenario {shown}: {error}"))
    })?;
    let name = args.scenario.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let usage =
        |what: String| Error::new(ErrorKind::Usage, format!("the scenario {shown} makes no sense: {what}"));
    let mut config = Scenario::parse(&name, &text).map_err(|error| usage(error.to_string()))?.config;
    config.seed = args.seed.unwrap_or(config.seed);
    let seed = config.seed;
    let mut world = World::new(config).map_err(|error| usage(error.to_string()))?;
    world.run().map_err(|violation| {
        let message =
            format!("a rule broke {violation}; run it again with: fobs sim run --seed {seed} {shown}");
        Error::new(ErrorKind::Internal, message)
    })?;
    let report = Report::of(&mut world);
    if let Some(path) = &args.json {
        write(path, &report.json())?;
    }
    if let Some(path) = &args.plot {
        let picture =
            plot::svg(&report).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        write(path, &picture)?;
    }
    print(&report.table())
}

fn run_swarm(args: &SwarmArgs) -> Result<()> {
    let (mut packets, mut counts) = (0u64, Vec::<(&str, u64)>::new());
    for i in 0..args.seeds {
        let seed = args.from.wrapping_add(i);
        let played = swarm::play(seed);
        if let Some(path) = args.json.as_ref().filter(|_| played.is_err() || i + 1 == args.seeds)
            && let Some(report) = swarm::observe(seed)
        {
            write(path, &report.json())?;
        }
        let verdict = played.map_err(|failure| Error::new(ErrorKind::Internal, failure.to_string()))?;
        packets += verdict.packets;
        let word = verdict.outcome.word();
        match counts.iter_mut().find(|(other, _)| *other == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((word, 1)),
        }
        if args.verbose {
            print(&format!("{}\n", verdict.line()))?;
        }
    }
    counts.sort_unstable();
    let counts: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    print(&format!(
        "{} worlds from seed {}, {packets} packets: {}\n",
        args.seeds,
        args.from,
        counts.join(", ")
    ))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)
        .map_err(|error| Error::new(ErrorKind::FileIo, format!("cannot write {}: {error}", path.display())))
}

/// Writes to standard output; a reader that left is no error.
fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::FileIo, format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
