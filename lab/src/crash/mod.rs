//! `fobs-lab crash`: real copies over the loopback whose ends are killed at random points, and gone on with.

mod trial;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use clap::ValueHint;

use crate::failure::{self, EXIT_INTERNAL, Failure};
use trial::{Figures, Place};

/// Set in the process that runs in a network of its own.
const INSIDE: &str = "FOBS_CRASH_INSIDE";
/// Most that may be sent twice at a kill, bytes: a chunk (4 MiB), and as much for what is in flight, verified
/// or written but not recorded at that moment.
const TWICE_MAX: u64 = 8 << 20;

/// Kill either side of real copies at random points, go on with them, and compare every byte.
///
/// A copy into or from a daemon on this host is killed (SIGKILL) on one side after a random time, and the
/// same command is run again, until it is complete; trees and single files, pushed and pulled. What was sent
/// twice is the payload that the loopback carried between two kills, less what the journal gained meanwhile:
/// so it runs in a network namespace of its own where it may make one, and counts nothing otherwise.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program to test
    #[arg(long, value_name = "FILE", default_value = "target/release/fobs", value_hint = ValueHint::FilePath)]
    fobs: PathBuf,

    /// Kills in all
    #[arg(long, value_name = "COUNT", default_value_t = 300)]
    kills: u64,

    /// Seed of sizes, sides and times [default: the clock]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

/// Runs `fobs-lab crash`.
pub fn main(args: &Args) -> ExitCode {
    if std::env::var_os(INSIDE).is_none()
        && let Some(code) = in_own_network(args)
    {
        return code;
    }
    failure::exit_code(run(args))
}

/// Runs this program again in a network namespace; `None` where none can be made.
fn in_own_network(args: &Args) -> Option<ExitCode> {
    let program = std::env::current_exe().ok()?;
    let unshare = ["--user", "--map-root-user", "--net", "--"];
    let usable = Command::new("unshare").args(unshare).args(["ip", "link", "set", "lo", "up"]).status();
    if !usable.is_ok_and(|status| status.success()) {
        eprintln!("fobs-lab crash: no network namespace can be made here, so nothing is counted");
        return None;
    }
    let script = "ip link set lo up && exec \"$0\" \"$@\"";
    let mut inside = Command::new("unshare");
    inside.args(unshare).args(["sh", "-c", script]).arg(program).arg("crash");
    inside.arg("--fobs").arg(&args.fobs).arg("--kills").arg(args.kills.to_string());
    if let Some(seed) = args.seed {
        inside.arg("--seed").arg(seed.to_string());
    }
    let code = inside.env(INSIDE, "1").status().ok()?.code()?;
    Some(ExitCode::from(u8::try_from(code).unwrap_or(failure::EXIT_USAGE)))
}

fn run(args: &Args) -> Result<(), Failure> {
    let clock = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    let seed = args.seed.unwrap_or_else(clock);
    println!("seed {seed}");
    let directory = tempfile::tempdir().map_err(|error| Failure::new(format!("no directory: {error}")))?;
    let fobs = args.fobs.canonicalize().map_err(|error| {
        Failure::new(format!("cannot run '{}': {error}; build it first", args.fobs.display()))
    })?;
    let mut place = Place::new(directory.path(), &fobs, seed, std::env::var_os(INSIDE).is_some())
        .map_err(Failure::new)?;
    let mut figures = Figures::default();
    while figures.kills < args.kills {
        let left = args.kills - figures.kills;
        place.copy(left, &mut figures).map_err(|message| {
            Failure::with_code(EXIT_INTERNAL, format!("seed {seed}, copy {}: {message}", figures.copies))
        })?;
    }
    println!("{}", figures.summary());
    match figures.twice.iter().max() {
        Some(&most) if most > TWICE_MAX => Err(Failure::with_code(
            EXIT_INTERNAL,
            format!("seed {seed}: {most} bytes were sent twice after one kill, more than {TWICE_MAX}"),
        )),
        _ => Ok(()),
    }
}
