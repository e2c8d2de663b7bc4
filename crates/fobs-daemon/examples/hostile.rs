//! Hostile clients against a server: `fobs-lab hostile` runs this program.
//!
//!     hostile play FOBS CASES SEED JOBS [PART-OF-A-NAME]
//!     hostile list SEED [PART-OF-A-NAME]
//!     hostile record FOBS DIRECTORY
//!
//! `play` plays a given number of cases against `FOBS serve` and `FOBS server`, and prints each finding and
//! the tally as a line of JSON. `record` records the good sessions that cases are made of, into
//! `src/hostile/sessions`.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use fobs_daemon::hostile::{Finding, Plan, Program, Tally, good_sessions, names, recorder, run};
use serde_json::json;

/// How long a server may be silent before the client goes on: a small session takes a few milliseconds.
const QUIET: Duration = Duration::from_millis(300);
/// Cases between two lines about how far it is.
const TOLD_EVERY: usize = 500;

fn main() -> ExitCode {
    match answer() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("hostile: {error}");
            ExitCode::from(2)
        }
    }
}

fn answer() -> io::Result<ExitCode> {
    if recorder::is_relay() {
        return recorder::relay().map(|()| ExitCode::SUCCESS);
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number =
        |text: &str| text.parse::<u64>().map_err(|error| io::Error::other(format!("{text}: {error}")));
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["record", program, directory] => {
            recorder::record(Path::new(program), &env::current_exe()?, Path::new(directory))?;
            Ok(ExitCode::SUCCESS)
        }
        ["list", seed, ref only @ ..] => {
            let mut out = io::BufWriter::new(io::stdout().lock());
            names(number(seed)?, only.first().copied()).try_for_each(|name| writeln!(out, "{name}"))?;
            Ok(ExitCode::SUCCESS)
        }
        ["play", program, cases, seed, jobs, ref only @ ..] => play(&Plan {
            program: Program::Installed(fs::canonicalize(program)?),
            cases: number(cases)? as usize,
            seed: number(seed)?,
            only: only.first().map(|&only| only.to_owned()),
            jobs: number(jobs)? as usize,
            quiet: QUIET,
        }),
        _ => Err(io::Error::other("say play, list or record; the top of examples/hostile.rs shows how")),
    }
}

fn play(plan: &Plan) -> io::Result<ExitCode> {
    if plan.only.is_none() {
        eprintln!("{} good sessions go through", good_sessions(&plan.program)?);
    }
    let tell = |tally: &Tally, finding: Option<&Finding>| match finding {
        Some(Finding { case, breach }) => {
            let rule = breach.rule.to_string();
            println!("{}", json!({ "seed": plan.seed, "case": case, "rule": rule, "what": breach.what }));
        }
        None if tally.played.is_multiple_of(TOLD_EVERY) => {
            eprintln!(
                "{} played, {} findings, {:.0} s",
                tally.played,
                tally.findings.len(),
                tally.took.as_secs_f64()
            );
        }
        None => {}
    };
    let tally = run(plan, &tell)?;
    println!(
        "{}",
        json!({
            "seed": plan.seed, "known": tally.known, "played": tally.played, "through": tally.through, "ended": tally.ended,
            "waited": tally.waited, "memory_max": tally.memory_max, "cpu_max": tally.cpu_max.as_secs_f64(), "findings": tally.findings.len(), "seconds": tally.took.as_secs_f64(),
        })
    );
    Ok(if tally.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
