//! `fobs-lab sim`: the protocol in virtual time (docs/simulator.md).
//!
//! ```text
//!   run      a scenario: table, JSON, plot
//!   swarm    random worlds, each checked at every step
//!   forecast what auto makes of paths of known rate, round trip and loss
//!   explain  what `--explain` says against the truth by counterfactual
//!   direct   a virtual transfer that recorded losses drive
//!   gauntlet random paths, each played by several controllers
//!   sharing  several flows of `auto` on one link, or one beside TCP
//! ```

mod direct;
pub mod explain;
mod forecast;
mod gauntlet;
mod sharing;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::{Subcommand, ValueHint};
use fobs_sim::{Scenario, SimReport, World, plot, swarm};

use crate::failure::{self, EXIT_INTERNAL, EXIT_NO_SOURCE, Failure};
use crate::output::{People, write_file};

const EXAMPLES: &str = "\
Examples:
  fobs-lab sim run scenarios/neighbours.toml       a table on standard output
  fobs-lab sim run --seed 7 --json run.json --plot run.svg scenarios/lossy.toml
  fobs-lab sim run --json - scenarios/lossy.toml   for a program: lab/notebooks/controllers.ipynb
  fobs-lab sim swarm --seeds 500                   random worlds, each checked at every step
  fobs-lab sim swarm --seeds 1 --from 17           one of them again
  fobs-lab sim direct --loss-rate 0.00035 windows.jsonl.gz
  fobs-lab sim gauntlet --cells 200                random paths, every controller on the same
  fobs-lab sim sharing --mbit 100 --counts 2,4     several flows of auto on one link
  fobs-lab sim explain --cells 100                 is fobs explain right, by counterfactual";

/// Run the protocol in virtual time.
///
/// The sender and receiver are the state machines that copy files, on simulated links and hosts and beside
/// models of TCP; every rule of the protocol is checked at every step. Nothing touches the network.
/// docs/simulator.md describes scenario files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(RunArgs),
    Swarm(SwarmArgs),
    Direct(direct::DirectArgs),
    Sharing(sharing::SharingArgs),
    Explain(explain::ExplainArgs),
    Forecast(forecast::ForecastArgs),
    Gauntlet(gauntlet::GauntletArgs),
}

/// Run a scenario and print a table.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
struct RunArgs {
    /// Seed to use instead of the scenario's
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,

    /// Write all measurements as JSON; - is standard output, without the table
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    json: Option<PathBuf>,

    /// Write a plot (SVG) of rate, window and queue of each flow over time; - is standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    plot: Option<PathBuf>,

    /// The scenario, a TOML file; - is standard input
    #[arg(value_name = "SCENARIO", value_hint = ValueHint::FilePath)]
    scenario: PathBuf,
}

/// Run random worlds, first with faults and then without, until one breaks a rule.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
struct SwarmArgs {
    /// Number of worlds
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    seeds: u64,

    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,

    /// Write all measurements of the last world, or of the one that broke a rule, as JSON; - as for run
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    json: Option<PathBuf>,

    /// Print a line for each world
    #[arg(short = 'v')]
    verbose: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> ExitCode {
    failure::exit_code(match &args.command {
        Command::Run(args) => run_scenario(args),
        Command::Swarm(args) => run_swarm(args),
        Command::Direct(args) => direct::run(args),
        Command::Sharing(args) => sharing::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Forecast(args) => forecast::run(args),
        Command::Gauntlet(args) => gauntlet::run(args),
    })
}

fn run_scenario(args: &RunArgs) -> Result<(), Failure> {
    let shown = args.scenario.display();
    if [&args.json, &args.plot].iter().all(|file| file.as_deref() == Some(Path::new("-"))) {
        return Err(Failure::new("--json and --plot cannot both be standard output: name a file for one"));
    }
    let people = People::beside(&[&args.json, &args.plot]);
    let (name, text) = read_scenario(&args.scenario)?;
    let invalid = |what: String| Failure::new(format!("the scenario {shown} is invalid: {what}"));
    let mut config = Scenario::parse(&name, &text).map_err(|error| invalid(error.to_string()))?.config;
    config.seed = args.seed.unwrap_or(config.seed);
    let seed = config.seed;
    let mut world = World::new(config).map_err(|error| invalid(error.to_string()))?;
    world.run().map_err(|violation| {
        let message =
            format!("a rule was broken: {violation}; to repeat it: fobs-lab sim run --seed {seed} {shown}");
        Failure::with_code(EXIT_INTERNAL, message)
    })?;
    let report = SimReport::of(&mut world);
    if let Some(path) = &args.json {
        write_file(path, &report.json())?;
    }
    if let Some(path) = &args.plot {
        let svg = plot::svg(&report).map_err(|error| Failure::with_code(EXIT_INTERNAL, error.to_string()))?;
        write_file(path, &svg)?;
    }
    people.print(&report.table())
}

/// A scenario's name (its file's, until it names itself) and text.
fn read_scenario(path: &Path) -> Result<(String, String), Failure> {
    if path.as_os_str() == "-" {
        let text = io::read_to_string(io::stdin()).map_err(|error| unreadable(path, &error))?;
        return Ok(("stdin".to_owned(), text));
    }
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    Ok((path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned()), text))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot read the scenario {}: {error}; check the path", path.display());
    Failure::with_code(EXIT_NO_SOURCE, message)
}

fn run_swarm(args: &SwarmArgs) -> Result<(), Failure> {
    let people = People::beside(&[&args.json]);
    let (mut packets, mut counts) = (0u64, Vec::<(&str, u64)>::new());
    for i in 0..args.seeds {
        let seed = args.from.wrapping_add(i);
        let played = swarm::play(seed);
        if let Some(path) = args.json.as_ref().filter(|_| played.is_err() || i + 1 == args.seeds)
            && let Some(report) = swarm::observe(seed)
        {
            write_file(path, &report.json())?;
        }
        let world = played.map_err(|failure| Failure::with_code(EXIT_INTERNAL, failure.to_string()))?;
        packets += world.packets;
        let word = world.outcome.word();
        match counts.iter_mut().find(|(other, _)| *other == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((word, 1)),
        }
        if args.verbose {
            people.print(&format!("{}\n", world.line()))?;
        }
    }
    counts.sort_unstable();
    let counts: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let (seeds, from) = (args.seeds, args.from);
    people.print(&format!("{seeds} worlds from seed {from}, {packets} packets: {}\n", counts.join(", ")))
}
