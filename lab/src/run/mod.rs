//! `fobs-lab run`: puts the tools of a plan over its paths, in turns, and writes a record of every run.
//!
//! A repetition goes over all paths and each path over all contests before anything comes a second time, so
//! whatever disturbs the machine for a while disturbs all alike. For each path an [`emulator`] is started; a
//! [`contest`] then runs its [`flow`]s over it. What a flow costs is counted by control groups, what crosses
//! by the emulator, what arrives is compared, and the round trip is probed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::plan::{Contest, Plan, Turn};
use crate::record::{End, Header, Record, Run, SCHEMA, Skip};
use crate::tool::Programs;

mod contest;
pub mod data;
pub mod emulator;
mod flow;
pub mod group;
mod load;
pub mod machine;
pub mod namespace;
pub mod over;
pub mod pair;
pub mod places;
pub mod process;
pub mod ready;
mod round_trips;
mod series;
pub mod shaping;
mod stage;
pub mod tuning;
mod verdict;

use contest::{Common, NoRun};
use data::Data;
use stage::Stage;

/// Pause after an invalid run: a disturbance of the machine may pass meanwhile.
const CALM: Duration = Duration::from_secs(1);

/// Options of `run`.
#[derive(clap::Args)]
#[command(
    about = "Run transfer tools over emulated paths as a plan says, and write a record of every run (needs root)"
)]
pub struct Args {
    /// Plan of the experiment
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// Write records to FILE [default: NAME.jsonl in the current directory]; an existing file is replaced
    #[arg(long, value_name = "FILE.jsonl")]
    out: Option<PathBuf>,
    /// Run only contests with TEXT in their label, their path's name or a tool's name
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Repeat every run N times, instead of as often as the plan says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Repeat an invalid run up to N times; all records are kept, the report uses the valid ones
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(..=100))]
    again: u32,
    /// Path of fobs [default: beside this program, then in PATH]
    #[arg(long, value_name = "PATH")]
    fobs: Option<PathBuf>,
    /// Check the plan and print its runs without running them
    #[arg(long)]
    dry_run: bool,
}

/// Runs a plan; errors are one sentence on standard error.
pub fn main(args: &Args) -> ExitCode {
    match read(args).and_then(|plan| if args.dry_run { list(&plan, args) } else { run(&plan, args) }) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fobs-lab: {error}");
            ExitCode::from(crate::failure::EXIT_USAGE)
        }
    }
}

fn read(args: &Args) -> Result<Plan, String> {
    let name = args.plan.display();
    let text = std::fs::read_to_string(&args.plan).map_err(|error| format!("cannot read {name}: {error}"))?;
    let mut plan = Plan::read(&text).map_err(|error| format!("{name}: {error}"))?;
    plan.repetitions = args.repetitions.unwrap_or(plan.repetitions);
    Ok(plan)
}

/// The turns that are wanted.
fn turns(plan: &Plan, only: Option<&str>) -> Result<Vec<Turn>, String> {
    let mut turns = plan.turns();
    if let Some(text) = only {
        turns.retain(|turn| plan.contests[turn.contest].chosen_by(text, &plan.paths[turn.path].spec.name));
        if turns.is_empty() {
            return Err(format!("no contest, path or tool of the plan has {text:?} in its name (--only)"));
        }
    }
    Ok(turns)
}

fn list(plan: &Plan, args: &Args) -> Result<ExitCode, String> {
    for (order, turn) in turns(plan, args.only.as_deref())?.iter().enumerate() {
        println!("{} {}", order + 1, describe(plan, turn));
    }
    Ok(ExitCode::SUCCESS)
}

fn run(plan: &Plan, args: &Args) -> Result<ExitCode, String> {
    let turns = turns(plan, args.only.as_deref())?;
    if !rustix::process::geteuid().is_root() {
        eprintln!("fobs-lab: run needs root, for network namespaces and TUN devices: use sudo");
        return Ok(ExitCode::from(crate::failure::EXIT_NO_ROOT));
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| format!("cannot handle signals: {error}"))?;
    }
    let programs = Programs::new(args.fobs.as_deref());
    let (versions, skipped) = survey(plan, &programs);
    let header = Header {
        schema: SCHEMA,
        plan: plan.text.clone(),
        time: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        repetitions: plan.repetitions,
        machine: machine::machine(),
        versions,
    };
    let name = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}.jsonl", plan.name)));
    let mut out = Out::create(&name)?;
    out.write(&Record::Header(Box::new(header)))?;
    let chosen: BTreeSet<usize> = turns.iter().map(|turn| turn.contest).collect();
    for (contest, reason) in skipped.iter().filter(|(contest, _)| chosen.contains(contest)) {
        let contest = plan.contests[*contest].label.clone();
        eprintln!("skipped: {contest}: {reason}");
        out.write(&Record::Skip(Skip { contest, path: "*".to_owned(), reason: reason.clone() }))?;
    }
    let turns: Vec<Turn> = turns.into_iter().filter(|turn| !skipped.contains_key(&turn.contest)).collect();
    let common = Common { programs: &programs, interrupted: &interrupted };
    let failures = play(plan, &turns, args.again, &common, &mut out)?;
    eprintln!("{} runs are in {}", out.runs, name.display());
    if interrupted.load(Ordering::Relaxed) {
        return Err(
            "stopped by a signal before all runs were made; the records of those that were are kept".into()
        );
    }
    match failures {
        0 => Ok(ExitCode::SUCCESS),
        failures => Err(format!("{failures} runs could not be made; the result file says why")),
    }
}

/// Makes the runs, invalid ones up to `again` times more, and returns how many could not be made.
fn play(plan: &Plan, turns: &[Turn], again: u32, common: &Common, out: &mut Out) -> Result<usize, String> {
    group::remove_leftovers();
    data::remove_leftovers();
    let _allowed = tuning::AllAllowed::new()?;
    let mut data = Data::new(plan.seed)?;
    let mut up: Option<(usize, Stage)> = None;
    let mut failures = 0;
    for (index, turn) in turns.iter().enumerate() {
        let (path, contest) = (&plan.paths[turn.path], &plan.contests[turn.contest]);
        let order = index as u32 + 1;
        let place = format!("{order}/{} {}", turns.len(), describe(plan, turn));
        for left in (0..=again).rev() {
            if common.interrupted.load(Ordering::Relaxed) {
                return Ok(failures);
            }
            let made = stage_for(&mut up, turn.path, plan, data.folder()).map_err(NoRun::Failed);
            let made = made.and_then(|stage| {
                contest::run(common, stage, &mut data, (path, contest), (turn.repetition, order))
            });
            match made {
                Ok(run) => {
                    eprintln!("{place}: {}", summary(&run));
                    let valid = run.valid;
                    out.write(&Record::Run(Box::new(run)))?;
                    if valid {
                        break;
                    }
                    if left > 0 {
                        sleep(CALM);
                    }
                }
                Err(NoRun::Interrupted) => return Ok(failures),
                Err(NoRun::Failed(reason)) => {
                    eprintln!("{place}: not run: {reason}");
                    failures += 1;
                    // Whatever it was, the next run gets a path that is whole.
                    up = None;
                    let (contest, path) = (contest.label.clone(), path.spec.name.clone());
                    out.write(&Record::Skip(Skip { contest, path, reason }))?;
                    break;
                }
            }
        }
    }
    Ok(failures)
}

/// The path that a turn needs: the one that is up, or a new one.
fn stage_for<'a>(
    up: &'a mut Option<(usize, Stage)>,
    path: usize,
    plan: &Plan,
    folder: &Path,
) -> Result<&'a Stage, String> {
    if up.as_ref().is_none_or(|(index, _)| *index != path) {
        // The old one goes before the new one comes: names and addresses may be the same.
        *up = None;
        *up = Some((path, Stage::new(&plan.paths[path], folder)?));
    }
    up.as_ref().map(|(_, stage)| stage).ok_or_else(|| "no path is up".to_owned())
}

/// The versions of the plan's tools, and for contests that cannot be run here, why.
fn survey(plan: &Plan, programs: &Programs) -> (BTreeMap<String, String>, BTreeMap<usize, String>) {
    let mut answers: BTreeMap<&str, Result<String, String>> = BTreeMap::new();
    let mut skipped = BTreeMap::new();
    for (index, contest) in plan.contests.iter().enumerate() {
        for flow in &contest.flows {
            let answer = answers.entry(flow.tool.name()).or_insert_with(|| flow.tool.version(programs));
            let reason = match answer {
                Err(reason) => Some(reason.clone()),
                Ok(_) => flow.tool.supports(programs, &flow.options).err(),
            };
            if let Some(reason) = reason {
                skipped.entry(index).or_insert(reason);
            }
        }
    }
    let versions = answers.into_iter().filter_map(|(tool, answer)| Some((tool.to_owned(), answer.ok()?)));
    (versions.collect(), skipped)
}

/// A turn in words.
fn describe(plan: &Plan, turn: &Turn) -> String {
    let Contest { label, parameters, .. } = &plan.contests[turn.contest];
    // Values that the label has already are left out.
    let values = parameters.iter().map(|(name, value)| (name, value.to_string()));
    let more = values.filter(|(_, value)| !label.contains(value.trim_matches('"')));
    let values: Vec<String> = more.map(|(name, value)| format!(" {name}={value}")).collect();
    format!("[{}] {}: {label}{}", turn.repetition, plan.paths[turn.path].spec.name, values.concat())
}

/// A run in words.
fn summary(run: &Run) -> String {
    let flows: Vec<String> = run
        .flows
        .iter()
        .map(|flow| {
            let rate = flow.goodput_bps.map_or("-".to_owned(), |rate| format!("{:.1} Mbit/s", rate / 1e6));
            let share = flow.share.map_or(String::new(), |share| format!(" ({:.1}%)", share * 100.0));
            let end = match flow.end {
                End::Complete | End::Stopped => String::new(),
                End::TimedOut | End::Failed => format!(" {}", flow.error.as_deref().unwrap_or("failed")),
            };
            format!("{rate}{share} in {:.2} s{end}", flow.wall_s)
        })
        .collect();
    let invalid =
        if run.valid { String::new() } else { format!("; INVALID: {}", run.invalid_because.join("; ")) };
    format!("{}{invalid}", flows.join(", "))
}

/// The result file: whole lines, written at once, so that a stopped run keeps what it has.
struct Out {
    file: File,
    name: String,
    runs: usize,
}

impl Out {
    fn create(path: &Path) -> Result<Out, String> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(|error| format!("cannot write {name}: {error}"))?;
        Ok(Out { file, name, runs: 0 })
    }

    fn write(&mut self, record: &Record) -> Result<(), String> {
        let line = record.to_line().map_err(|error| format!("cannot write a record: {error}"))?;
        self.runs += usize::from(matches!(record, Record::Run(_)));
        self.file.write_all(line.as_bytes()).map_err(|error| format!("cannot write {}: {error}", self.name))
    }
}
