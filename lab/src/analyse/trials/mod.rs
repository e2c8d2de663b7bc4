//! One limit at a time put into real copies, and what `fobs cp --explain` names.
//!
//! Every trial is a copy between two network namespaces with one thing made scarce, drawn from its number: a
//! disk (a loop device that blkio.throttle holds back), a CPU (a cpu cgroup's quota), the receive buffer
//! (net.core.rmem_max, for a process that may not exceed it), the path (the emulator), or the rate
//! (`--rate`).

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::tool::Programs;

mod case;
mod copy;
mod disturbance;
mod draw;
mod limits;
mod matrix;
mod other;
mod truth;
mod unrehearsed;

use case::{CASES, Case, Drawn};
use copy::{Common, Direction, Trial, TrialLimit};
use matrix::Line;
use other::Copier;
use truth::Compared;

/// Options of `explain-trials`.
#[derive(clap::Args)]
#[command(about = "Put one limit at a time into real copies and count what fobs cp --explain names (root)")]
pub struct Args {
    /// The fobs program [default: beside this program, then in PATH]
    #[arg(long, value_name = "PATH")]
    fobs: Option<PathBuf>,
    /// Trials of each case
    #[arg(long, value_name = "N", default_value_t = 20)]
    trials: u64,
    /// Number of the first trial: everything random of a trial comes from its number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    first: u64,
    /// Which cases, by commas [default: all]
    #[arg(long, value_name = "CASE,...", value_delimiter = ',', value_parser = Case::named)]
    cases: Vec<Case>,
    /// What copies; of programs of another make, fobs explain -- PROGRAM is tried
    #[arg(long, value_enum, default_value = "fobs")]
    copier: Copier,
    /// Which way the data goes
    #[arg(long, value_enum, default_value = "both")]
    direction: Directions,
    /// Append a JSON line for each trial to FILE
    #[arg(long, value_name = "FILE.jsonl")]
    out: Option<PathBuf>,
    /// Directory for the traces
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Explain the traces in --traces instead of running anything
    #[arg(long, requires_all = ["traces", "out"])]
    again: bool,
    /// Print the table of this file's trials instead of running anything
    #[arg(long, value_name = "FILE.jsonl")]
    report: Option<PathBuf>,
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Directions {
    Push,
    Pull,
    /// In turns
    Both,
}

impl Directions {
    fn of(self, number: u64) -> Direction {
        match self {
            Directions::Push => Direction::Push,
            Directions::Pull => Direction::Pull,
            Directions::Both if number.is_multiple_of(2) => Direction::Push,
            Directions::Both => Direction::Pull,
        }
    }
}

/// Runs the trials; errors are one sentence on standard error.
pub fn main(args: &Args) -> ExitCode {
    if let Some(file) = &args.report {
        return super::finish(matrix::read(file).map(|lines| print!("{}", matrix::tables(&lines))));
    }
    let programs = Programs::new(args.fobs.as_deref());
    if let (true, Some(traces), Some(out)) = (args.again, &args.traces, &args.out) {
        return super::finish(again(&programs, traces, out));
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!(
            "fobs-lab: explain-trials needs root, for namespaces, control groups and loop devices; skipped"
        );
        return ExitCode::from(crate::failure::EXIT_NO_ROOT);
    }
    super::finish(run(args, &programs))
}

fn run(args: &Args, programs: &Programs) -> Result<(), String> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| format!("cannot handle signals: {error}"))?;
    }
    crate::run::group::remove_leftovers();
    crate::run::data::remove_leftovers();
    let all = CASES.map(|(case, ..)| case);
    let cases = if args.cases.is_empty() { &all[..] } else { &args.cases };
    let common = Common { programs, traces: args.traces.as_deref(), interrupted: &interrupted };
    for number in args.first..args.first.saturating_add(args.trials) {
        for case in cases.iter().filter(|case| args.copier.meets(**case)) {
            // A program of another make is watched where the data comes from.
            let pushed = case.is_pushed_only() || args.copier != Copier::Fobs;
            let direction = if pushed { Direction::Push } else { args.direction.of(number) };
            let drawn = Drawn::of(*case, number);
            let trial = Trial { case: *case, number, direction, drawn, copier: args.copier };
            let line = made(&trial, &common);
            if interrupted.load(Ordering::Relaxed) {
                return Err("stopped by a signal; the lines of the trials so far are kept".to_owned());
            }
            let word = if line.is_right() { "ok " } else { "NOT" };
            let said = line.sentence.as_deref().or(line.error.as_deref()).unwrap_or("nothing was named");
            println!("{word} {number:3} {:22} {said}", case.name());
            if let Some(out) = &args.out {
                append(out, &line)?;
            }
        }
    }
    Ok(())
}

/// The trial's line; a trial that could not be made has an error in it.
fn made(trial: &Trial, common: &Common) -> Line {
    let run = || {
        let mut line = trial.run(common, TrialLimit::Injected)?;
        let Some(compared) = trial.case.compared() else { return Ok(line) };
        line.control_bps = trial.run(common, TrialLimit::Ample)?.goodput_bps;
        if matches!(compared, Compared::Disturbance | Compared::Others) {
            line.wider_bps = trial.run(common, TrialLimit::Wider)?.goodput_bps;
        }
        if compared != Compared::Recorded {
            line.expected = trial.case.expected_of(&line);
        }
        Ok(line)
    };
    run().unwrap_or_else(|error: String| Line { error: Some(error), ..trial.line() })
}

/// What this fobs says of recorded trials: a trace's name has the case and the number.
fn again(programs: &Programs, traces: &Path, out: &Path) -> Result<(), String> {
    let fobs = programs.find("fobs", "build it (cargo build --release) and name it with --fobs")?;
    let failed = |error| format!("cannot read {}: {error}", traces.display());
    let entries = std::fs::read_dir(traces).map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<_, String>>()?;
    paths.sort();
    for path in paths {
        let named = || format!("{} is not named CASE-NUMBER.jsonl", path.display());
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (case, number) = stem.rsplit_once('-').ok_or_else(named)?;
        let (case, number) = (Case::named(&case.replace('-', " "))?, number.parse().map_err(|_| named())?);
        let answer =
            programs.ask(&[fobs.as_os_str(), "explain".as_ref(), "--json".as_ref(), path.as_os_str()])?;
        let why: Value = answer.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap_or_default();
        let text = |key: &str| why[key].as_str().map(str::to_owned);
        let line = Line {
            case: case.name().to_owned(),
            expected: case.expected().to_owned(),
            trial: number,
            drawn: Drawn::of(case, number),
            limit: text("limit"),
            share: why["share"].as_f64(),
            sentence: text("sentence"),
            ..Line::default()
        };
        append(out, &line)?;
    }
    Ok(())
}

fn append(out: &Path, line: &Line) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", out.display());
    let mut text = serde_json::to_string(line).map_err(|error| failed(error.into()))?;
    text.push('\n');
    let mut file = OpenOptions::new().create(true).append(true).open(out).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
