//! `fobs-lab sim explain`: is `--explain` right? The truth by counterfactual.
//!
//! Each cell is played as it is, and again with the same seed and one thing relieved at a time: what disturbs
//! is taken away, an amount (the link's rate, the round trip) is bettered by a factor of two. What limits is
//! what helps most when it is relieved; the ratio of the two times is the true gain. The recorded cell is
//! explained by the installed `fobs explain`, as a trace of a copy is.

mod cell;
mod record;
mod score;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueHint;
use fobs_sim::gauntlet::TRAINING_BELOW;
use serde_json::Value;

use crate::failure::{EXIT_FILE_IO, EXIT_INTERNAL, Failure};
use crate::output::{People, write_file};
use crate::tool::Programs;
use cell::{Cell, Relief};
use score::{Answer, Scored, Truth};
pub use score::{GAIN_MIN, TIE};

/// Score what `fobs explain` says against the truth by counterfactual.
///
/// Seeds below 1000 are for development; without --seed they are drawn from the clock and printed.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct ExplainArgs {
    /// Number of cells
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cells: u64,

    /// Seed of the first cell
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,

    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,

    /// The fobs program [default: beside this program, then in PATH]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    fobs: Option<PathBuf>,

    /// Write a line of JSON for each cell; - is standard output, without the table
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    json: Option<PathBuf>,

    /// Keep the traces in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    traces: Option<PathBuf>,

    /// Print a line for each cell that was not answered rightly
    #[arg(short = 'v')]
    verbose: bool,
}

pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let from = args.seed.unwrap_or_else(clock_seed);
    let programs = Programs::new(args.fobs.as_deref());
    let fobs = programs
        .find("fobs", "build it (cargo build --release) and name it with --fobs")
        .map_err(Failure::new)?;
    let own = std::env::temp_dir().join(format!("fobs-lab-explain-{}", std::process::id()));
    let folder = args.traces.clone().unwrap_or_else(|| own.clone());
    fs::create_dir_all(&folder).map_err(|error| {
        Failure::with_code(EXIT_FILE_IO, format!("cannot make {}: {error}", folder.display()))
    })?;
    let people = People::beside(&[&args.json]);
    let all = score_all(from, args, &programs, &fobs, &folder)?;
    if args.verbose {
        for one in all.iter().filter(|one| !one.is_right()) {
            people.print(&format!("{}\n", one.line()))?;
        }
    }
    if args.traces.is_none() {
        // What is left lies in the system's directory for such things.
        let _ = fs::remove_dir_all(&own);
    }
    if let Some(path) = &args.json {
        let lines: String = all.iter().map(|one| one.json() + "\n").collect();
        write_file(path, &lines)?;
    }
    people.print(&score::table(from, &all))
}

/// All cells, in the order of their seeds; the first that cannot be scored ends it.
fn score_all(
    from: u64,
    args: &ExplainArgs,
    programs: &Programs,
    fobs: &Path,
    folder: &Path,
) -> Result<Vec<Scored>, Failure> {
    let (next, done) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= args.cells {
                return Ok(());
            }
            let one = scored(from.saturating_add(index), args, (programs, fobs), folder);
            let one = one.inspect_err(|_| next.store(args.cells, Ordering::Relaxed))?;
            done.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.threads).map(|_| scope.spawn(work)).collect();
        let lost = || Err(Failure::with_code(EXIT_INTERNAL, "a thread panicked".to_owned()));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| lost()))
    })?;
    let mut all = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by_key(|one| one.seed);
    Ok(all)
}

/// Plays a cell with all reliefs, and explains it.
fn scored(
    seed: u64,
    args: &ExplainArgs,
    (programs, fobs): (&Programs, &Path),
    folder: &Path,
) -> Result<Scored, Failure> {
    let broken = |error: String| Failure::with_code(EXIT_INTERNAL, error);
    let cell = Cell::draw(seed);
    let recorded = record::record(&cell).map_err(broken)?;
    let mut reliefs: Vec<(Relief, f64)> = Vec::new();
    if let Some(took) = recorded.seconds {
        for relief in cell.reliefs() {
            let (cell, took) = match cell.compared(relief) {
                Some(other) => match record::play(&other).map_err(broken)? {
                    Some(took) => (other, took),
                    None => continue,
                },
                None => (cell.clone(), took),
            };
            if let Some(relieved) = record::play(&cell.relieved(relief)).map_err(broken)? {
                reliefs.push((relief, took / relieved));
            }
        }
    }
    let truth = Truth::of(&cell, &reliefs);
    let path = folder.join(format!("{seed}.jsonl"));
    write_file(&path, &recorded.trace)?;
    let answer = programs
        .ask(&[fobs.as_os_str(), "explain".as_ref(), "--json".as_ref(), path.as_os_str()])
        .map_err(Failure::new)?;
    if args.traces.is_none() {
        // Thousands of them fill a disk.
        let _ = fs::remove_file(&path);
    }
    let why: Value = answer.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    Ok(Scored { cell: cell.to_string(), seed, truth, answer: Answer::of(&why) })
}

/// A first seed that nobody chose, beyond those for development.
fn clock_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    TRAINING_BELOW + since
}
