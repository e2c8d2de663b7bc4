//! `fobs-lab hostile`: hostile clients against a daemon and against `fobs server`, by thousands; and a
//! hostile neighbour on the host that stores or sends.
//!
//! The laboratory links no `fobs`: a program of that crate, the example `hostile`, plays the clients, and
//! tells of each finding in a line of JSON.

mod neighbour;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::ValueHint;
use serde::Deserialize;

use crate::failure::{self, EXIT_INTERNAL, Failure};
use crate::tool::Programs;

/// Findings that are shown of each rule; the others are counted.
const SHOWN_MAX: usize = 20;

/// Play hostile clients against a server, and check after each that nothing happened that must not.
///
/// Good sessions (pushes, pulls, syncs, objects in messages, requests by name, tickets; over ssh's streams
/// and to a daemon) are played again with each member of each message replaced, in turn, by each value of
/// a list for its kind, under each right of a key. After every case nothing outside of the key's part of the
/// tree has changed or was told, the server lives and serves the next client, memory and time are within what
/// is promised, and what was said is a sentence. Attacks that have names are played first, always.
///
/// With --neighbour, root and a plain user have trees stored and pulled in which another user may write in a
/// directory, with the letters of cp and sync in turn, some killed and gone on with. After each run nothing
/// outside that directory changed, was read, or gained a name, an owner or a bit.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The fobs program to attack [default: beside this program, then in PATH]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    fobs: Option<PathBuf>,

    /// The example `hostile` of the crate fobs [default: examples/hostile beside this program]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    player: Option<PathBuf>,

    /// Cases to play, of about half a million; each kind in turn
    #[arg(long, value_name = "COUNT", default_value_t = 24_000)]
    cases: u64,

    /// Which of them: another seed plays others
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,

    /// Only cases whose names hold this, as a finding shows one
    #[arg(long, value_name = "NAME")]
    only: Option<String>,

    /// Servers beside each other
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    jobs: u64,

    /// Number of runs beside a second user of the receiving host, who exchanges, replaces, links and
    /// truncates files, instead of hostile clients; needs root
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["only", "list", "player"])]
    neighbour: Option<u64>,

    /// Print the names of the cases, and play none
    #[arg(long)]
    list: bool,
}

/// A line of the player.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum Line {
    Finding { case: String, rule: String, what: String },
    Tally(Tally),
}

/// Its last line.
#[derive(Debug, Deserialize, PartialEq)]
struct Tally {
    known: u64,
    played: u64,
    through: u64,
    ended: u64,
    waited: u64,
    memory_max: u64,
    cpu_max: f64,
    findings: u64,
    seconds: f64,
}

/// Runs `fobs-lab hostile`.
pub fn main(args: &Args) -> ExitCode {
    failure::exit_code(run(args))
}

fn run(args: &Args) -> Result<(), Failure> {
    if let Some(runs) = args.neighbour {
        return beside_a_neighbour(args, runs);
    }
    let player = player(args).map_err(Failure::new)?;
    let mut command = Command::new(&player);
    if args.list {
        command.arg("list").arg(args.seed.to_string()).args(&args.only);
        let status = command.status().map_err(|error| cannot_run(&player, &error))?;
        return if status.success() { Ok(()) } else { Err(Failure::new("the player failed")) };
    }
    let programs = Programs::new(args.fobs.as_deref());
    let fobs = programs.find("fobs", "build it with `cargo build --release`").map_err(Failure::new)?;
    command.arg("play").arg(fobs).args([args.cases, args.seed, args.jobs].map(|number| number.to_string()));
    let mut running = command
        .args(&args.only)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_run(&player, &error))?;
    let mut told = Told::default();
    if let Some(output) = running.stdout.take() {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            told.take(&line);
        }
    }
    let status = running.wait().map_err(|error| cannot_run(&player, &error))?;
    match (told.tally, status.code()) {
        (Some(tally), Some(0)) => {
            println!("{}", summary(&tally, &told.rules));
            Ok(())
        }
        (Some(tally), _) => {
            println!("{}", summary(&tally, &told.rules));
            let (broken, seed) = (tally.findings, args.seed);
            let again = format!("{broken} rules were broken; `--seed {seed}` plays the same cases again");
            Err(Failure::with_code(EXIT_INTERNAL, again))
        }
        (None, _) => {
            let seed = args.seed;
            Err(Failure::new(format!("the player failed in the cases of `--seed {seed}`: {status}")))
        }
    }
}

/// Plays runs beside another user.
fn beside_a_neighbour(args: &Args, runs: u64) -> Result<(), Failure> {
    if let Some(missing) = neighbour::missing() {
        println!("skipped: the neighbour needs {missing}");
        return Ok(());
    }
    let fobs = Programs::new(args.fobs.as_deref())
        .find("fobs", "build it with `cargo build --release`")
        .map_err(Failure::new)?;
    let directory = tempfile::tempdir().map_err(|error| Failure::new(format!("no directory: {error}")))?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).map_err(|error| Failure::new(error.to_string()))?;
    let figures = neighbour::play(directory.path(), &fobs, args.seed, runs).map_err(Failure::new)?;
    figures.findings.iter().take(SHOWN_MAX).for_each(|finding| println!("{finding}"));
    println!("{}", figures.summary());
    if figures.findings.is_empty() {
        return Ok(());
    }
    let again = format!("something happened that must not; `--seed {}` draws the same runs again", args.seed);
    Err(Failure::with_code(EXIT_INTERNAL, again))
}

fn cannot_run(player: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot run {}: {error}", player.display()))
}

/// The program that plays.
fn player(args: &Args) -> Result<PathBuf, String> {
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("examples/hostile")));
    let path = args.player.clone().or(beside).unwrap_or_default();
    let found = std::path::absolute(&path).ok().filter(|path| path.is_file());
    found.ok_or_else(|| {
        let path = path.display();
        format!(
            "there is no {path}: build it with `cargo build --release -p fobs-daemon --features hostile --example \
             hostile`"
        )
    })
}

/// What the player has said so far.
#[derive(Default)]
struct Told {
    /// Findings of each rule.
    rules: BTreeMap<String, usize>,
    tally: Option<Tally>,
}

impl Told {
    fn take(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(Line::Finding { case, rule, what }) => {
                let count = self.rules.entry(rule.clone()).or_default();
                *count += 1;
                if *count <= SHOWN_MAX {
                    println!("{case}\n    {rule}: {what}");
                }
            }
            Ok(Line::Tally(tally)) => self.tally = Some(tally),
            Err(_) => println!("{line}"),
        }
    }
}

fn summary(tally: &Tally, rules: &BTreeMap<String, usize>) -> String {
    let Tally { known, played, through, ended, waited, memory_max, cpu_max, seconds, .. } = tally;
    let broken = if rules.is_empty() {
        "no rule was broken".to_owned()
    } else {
        rules.iter().map(|(rule, count)| format!("{rule} {count}")).collect::<Vec<_>>().join(", ")
    };
    format!(
        "{played} cases of {known} and the named ones, in {seconds:.0} s: {through} went through, {ended} were \
         ended, {waited} left waiting; at most {} MiB and {cpu_max:.1} s of CPU; {broken}",
        memory_max >> 20
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_counted_by_their_rules() {
        let mut told = Told::default();
        for _ in 0..3 {
            told.take(r#"{"case":"tls/read-write/push/open.paths=up","rule":"outside","what":"x is new"}"#);
        }
        told.take(
            r#"{"known":9,"played":3,"through":1,"ended":1,"waited":1,"memory_max":2097152,"cpu_max":0.5,"findings":3,"seconds":1.0}"#,
        );
        assert_eq!(told.rules["outside"], 3);
        let text = summary(&told.tally.expect("it was told"), &told.rules);
        assert!(text.contains("outside 3") && text.contains("2 MiB"), "{text}");
    }
}
