//! `fobs-lab sim gauntlet`: random paths that nobody tuned for (docs/simulator.md).
//!
//! Every controller plays the same cells. Rates are compared within a cell, so that a cell is as hard for
//! all; what is reported are distributions over cells, with the worst by name.

mod ablation;
mod kinds;
mod table;
mod trace;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueHint;
use fobs_proto::congestion::{CongestionControl, Params};
use fobs_sim::flow::tcp::Algorithm;
use fobs_sim::gauntlet::{
    Beside, Cell, Contestant, Outcomes, TRAINING_BELOW, draw, play_tuned, play_watched,
};
use fobs_sim::time::MS;
use serde::Serialize;

use crate::failure::{EXIT_FILE_IO, EXIT_INTERNAL, Failure};
use crate::output::{People, write_file};

/// Play random paths with several controllers, and compare them cell by cell.
///
/// A cell is drawn from its seed: rate, round trip, queue, what goes wrong, neighbours, size. Seeds below
/// 1000 are for development; without --seed they are drawn from the clock and printed.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct GauntletArgs {
    /// Number of cells
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cells: u64,

    /// Seed of the first cell
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,

    /// Controllers to play, with commas; or all, of which greedy and rbudp take what they are given
    #[arg(long, value_name = "LIST", default_value = "auto,cubic,bbr,hstfrc,scalable,fast,udt", value_parser = Contestants::from_str)]
    cc: Contestants,

    /// Only cells without neighbours, or only those with
    #[arg(long, value_name = "KIND")]
    only: Option<Only>,

    /// Play paths of these kinds, with commas, or of all, instead of random ones: as many of each as --cells
    /// says, with TCP's BBR and CUBIC beside the controllers
    #[arg(long, value_name = "KINDS", value_parser = kinds::Kinds::from_str, conflicts_with_all = ["only", "ablate"])]
    kinds: Option<kinds::Kinds>,

    /// Play auto with each of its rules removed in turn, and print what each is worth
    #[arg(long, conflicts_with_all = ["trace", "json"])]
    ablate: bool,

    /// Play auto without these of its rules, with commas
    #[arg(long, value_name = "RULES", value_delimiter = ',', conflicts_with = "ablate")]
    without: Vec<String>,

    /// Print what each contestant does, this often in ms; for one cell
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    trace: Option<u64>,

    /// Numbers of auto, as in queue_gain=0.4; may be repeated (docs/controllers.md)
    #[arg(long = "param", value_name = "NAME=NUMBER")]
    params: Vec<String>,

    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,

    /// Write a line of JSON for each cell and controller; - is standard output, without the table
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    json: Option<PathBuf>,

    /// Print a line for each cell and controller
    #[arg(short = 'v')]
    verbose: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    Alone,
    Beside,
}

impl Only {
    fn has(self, cell: &Cell) -> bool {
        cell.neighbours.is_empty() == (self == Only::Alone)
    }
}

#[derive(Debug, Clone)]
struct Contestants(Vec<CongestionControl>);

impl FromStr for Contestants {
    type Err = String;

    fn from_str(text: &str) -> Result<Contestants, String> {
        let one = |name: &str| {
            let cc = CongestionControl::from_str(name).map_err(|_| format!("{name} is no controller"))?;
            match cc {
                CongestionControl::Fixed { .. } => Err("fixed is told its rate and cannot play".to_owned()),
                cc => Ok(cc),
            }
        };
        if text == "all" {
            let told = |cc: &CongestionControl| matches!(cc, CongestionControl::Fixed { .. });
            let names = CongestionControl::ALL.into_iter().filter(|cc| !told(cc));
            return Ok(Contestants(names.collect()));
        }
        text.split(',').map(one).collect::<Result<_, _>>().map(Contestants)
    }
}

/// What one contestant made of one cell.
#[derive(Debug)]
struct Played {
    cell: Cell,
    name: String,
    outcomes: Outcomes,
}

/// A line of JSON.
#[derive(Serialize)]
struct Record<'a> {
    seed: u64,
    cell: String,
    cc: &'a str,
    end: &'a str,
    complete: bool,
    link_mbit: f64,
    goodput_mbit: f64,
    of_best: f64,
    seconds: f64,
    first_byte_ms: f64,
    silence_ms: f64,
    waste: f64,
    excess: f64,
    queue_ms: f64,
    of_link: f64,
    beside_own_mbit: Option<f64>,
    beside_neighbour_mbit: Option<f64>,
}

pub fn run(args: &GauntletArgs) -> Result<(), Failure> {
    let from = args.seed.unwrap_or_else(clock_seed);
    let params = ablation::without(parse_params(&args.params)?, &args.without)?;
    if args.ablate {
        return ablation::run(from, args, &params);
    }
    if let Some(chosen) = &args.kinds {
        return kinds::run(from, args, chosen, &params);
    }
    let people = People::beside(&[&args.json]);
    let mut contestants: Vec<Contestant> = args.cc.0.iter().map(|cc| Contestant::Fobs(*cc)).collect();
    contestants.push(Contestant::Tcp(Algorithm::Cubic));
    let played = play_all(from, args, &contestants, &params);
    let best = best_of(&played);
    if args.verbose {
        for one in &played {
            people.print(&table::line(one, best[&one.cell.seed]))?;
        }
    }
    if let Some(path) = &args.json {
        let mut text = String::new();
        for one in &played {
            let line = serde_json::to_string(&record(one, best[&one.cell.seed]));
            text.push_str(&line.map_err(|error| Failure::with_code(EXIT_FILE_IO, error.to_string()))?);
            text.push('\n');
        }
        write_file(path, &text)?;
    }
    let kind = if from < TRAINING_BELOW { "training" } else { "examination" };
    people.print(&format!("{} cells from seed {from} ({kind})\n", args.cells))?;
    people.print(&table::table(&played, &best))?;
    let broken = played.iter().find(|one| one.outcomes.end.starts_with("broken rule"));
    broken.map_or(Ok(()), |one| {
        let (cell, end) = (&one.cell, &one.outcomes.end);
        let replay = table::replay(cell);
        Err(Failure::with_code(EXIT_INTERNAL, format!("{}, {cell}: {end}; {replay}", one.name)))
    })
}

/// Another seed for each run, above those for development.
fn clock_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TRAINING_BELOW + now.as_secs() * 100_000
}

fn parse_params(list: &[String]) -> Result<Params, Failure> {
    let mut params = Params::default();
    for text in list {
        let parsed = text.split_once('=').and_then(|(name, value)| Some((name, value.parse::<f64>().ok()?)));
        let Some((name, value)) = parsed else {
            return Err(Failure::new(format!("--param {text} is not NAME=NUMBER, as queue_gain=0.4 is")));
        };
        params.set(name, value).map_err(|error| Failure::new(format!("--param {text}: {error}")))?;
    }
    Ok(params)
}

fn play_all(from: u64, args: &GauntletArgs, contestants: &[Contestant], params: &Params) -> Vec<Played> {
    let cells: Vec<Cell> = (0..args.cells).map(|index| draw(from.wrapping_add(index))).collect();
    let drawn = cells.iter().filter(|cell| args.only.is_none_or(|only| only.has(cell)));
    let jobs: Vec<(&Cell, Contestant)> = drawn
        .flat_map(|cell| contestants.iter().filter(|who| plays(cell, **who)).map(move |who| (cell, *who)))
        .collect();
    let trace = args.trace.map(|ms| ms * MS);
    on_threads(args.threads, &jobs, |(cell, who)| {
        let outcomes = match trace {
            Some(every) => play_watched(cell, *who, params, &mut trace::printer(&who.name(), every)),
            None => play_tuned(cell, *who, params),
        };
        Played { cell: (*cell).clone(), name: who.name(), outcomes }
    })
}

/// What `work` makes of each job, in their order.
fn on_threads<J: Sync, T: Send>(threads: u64, jobs: &[J], work: impl Fn(&J) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((index, job)) =
                    jobs.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed))
                {
                    let made = work(job);
                    done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((index, made));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, made)| made).collect()
}

/// TCP only takes our place beside neighbours: what it leaves them is what a transfer is compared with.
fn plays(cell: &Cell, who: Contestant) -> bool {
    matches!(who, Contestant::Fobs(_)) || !cell.neighbours.is_empty()
}

/// The best goodput of a FOBS controller in each cell.
fn best_of(played: &[Played]) -> BTreeMap<u64, f64> {
    let mut best = BTreeMap::new();
    for one in played {
        let goodput = if one.name.starts_with("tcp-") { 0.0 } else { one.outcomes.goodput };
        let most = best.entry(one.cell.seed).or_insert(0.0f64);
        *most = most.max(goodput);
    }
    best
}

fn record(one: &Played, best: f64) -> Record<'_> {
    let Outcomes {
        end,
        complete,
        goodput,
        seconds,
        first_byte_ms,
        silence_ms,
        waste,
        excess,
        queue_ms,
        of_link,
        beside,
    } = &one.outcomes;
    Record {
        seed: one.cell.seed,
        cell: one.cell.to_string(),
        cc: &one.name,
        end,
        complete: *complete,
        link_mbit: one.cell.rate as f64 / 1e6,
        goodput_mbit: *goodput,
        of_best: goodput / best.max(f64::MIN_POSITIVE),
        seconds: *seconds,
        first_byte_ms: *first_byte_ms,
        silence_ms: *silence_ms,
        waste: *waste,
        excess: *excess,
        queue_ms: *queue_ms,
        of_link: *of_link,
        beside_own_mbit: beside.map(|Beside { own, .. }| own),
        beside_neighbour_mbit: beside.map(|Beside { neighbour, .. }| neighbour),
    }
}
