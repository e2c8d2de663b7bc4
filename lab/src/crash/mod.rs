//! `fobs-lab crash`: real copies over the loopback whose ends are killed at random points, and gone on with.

mod trial;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use clap::ValueHint;

use crate::failure::{self, EXIT_INTERNAL, Failure};
use trial::{Disk, Figures, Place, TWICE_MAX};

use crate::link::shut_down;

/// Set in the process that runs in a network of its own.
const INSIDE: &str = "FOBS_CRASH_INSIDE";
/// Its values: for root, and for another user, who is root in there only.
const AS_ROOT: &str = "root";
const AS_USER: &str = "user";
/// Copies between two lines of progress.
const COPIES_A_LINE: u64 = 10;
/// Kills of which one may exceed it: where other programs keep the disk busy, chunks wait for it in the
/// receiver's buffers, and die with it.
const ONE_OF: usize = 20;

/// Kill either side of real copies at random points, go on with them, and compare every byte.
///
/// A copy into or from a daemon on this host, or over ssh to this host, is killed (SIGKILL) on one side after
/// a random time, and the same command is run again, until it is complete; trees and single files, pushed and
/// pulled. What was sent twice is the payload that the loopback carried between two kills, less what the
/// journal gained meanwhile: so it runs in a network namespace of its own where it may make one, and counts
/// nothing otherwise. Copies over ssh need root and an sshd.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program to test
    #[arg(long, value_name = "FILE", default_value = "target/release/fobs", value_hint = ValueHint::FilePath)]
    fobs: PathBuf,

    /// Kills in all
    #[arg(long, value_name = "COUNT", default_value_t = 300)]
    kills: u64,

    /// Cut the power of the destination's disk instead: a file system of its own on a loop device is shut
    /// down without a flush and mounted again, in the same boot or in another one. Needs root
    #[arg(long, value_name = "FILE SYSTEM,...", num_args = 0..=1, default_missing_value = "ext4,xfs", value_delimiter = ',')]
    power: Option<Vec<String>>,

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
    // sshd cannot serve in a user namespace, which only those need who are not root.
    let unshare: &[&str] = if rustix::process::geteuid().is_root() {
        &["--net", "--"]
    } else {
        &["--user", "--map-root-user", "--net", "--"]
    };
    let usable = Command::new("unshare").args(unshare).args(["ip", "link", "set", "lo", "up"]).status();
    if !usable.is_ok_and(|status| status.success()) {
        eprintln!("fobs-lab crash: no network namespace can be made here, so nothing is counted");
        return None;
    }
    let script = "ip link set lo up && exec \"$0\" \"$@\"";
    let mut inside = Command::new("unshare");
    inside.args(unshare).args(["sh", "-c", script]).arg(program).arg("crash");
    inside.arg("--fobs").arg(&args.fobs).arg("--kills").arg(args.kills.to_string());
    if let Some(kind) = &args.power {
        inside.arg(format!("--power={}", kind.join(",")));
    }
    if let Some(seed) = args.seed {
        inside.arg("--seed").arg(seed.to_string());
    }
    let value = if unshare.contains(&"--user") { AS_USER } else { AS_ROOT };
    let code = inside.env(INSIDE, value).status().ok()?.code()?;
    Some(ExitCode::from(u8::try_from(code).unwrap_or(failure::EXIT_USAGE)))
}

fn run(args: &Args) -> Result<(), Failure> {
    let clock = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    let seed = args.seed.unwrap_or_else(clock);
    println!("seed {seed}");
    let mut directory =
        tempfile::tempdir().map_err(|error| Failure::new(format!("no directory: {error}")))?;
    let fobs = args.fobs.canonicalize().map_err(|error| {
        Failure::new(format!("cannot run '{}': {error}; build it first", args.fobs.display()))
    })?;
    let is_inside = std::env::var(INSIDE).ok();
    // Root by its own right: root of a user namespace cannot run an sshd.
    let may_ssh = rustix::process::geteuid().is_root() && is_inside.as_deref() != Some(AS_USER);
    let mut place =
        Place::new(directory.path(), &fobs, seed, is_inside.is_some(), may_ssh).map_err(Failure::new)?;
    if !place.has_ssh() {
        println!("no copies over ssh: that needs root and an sshd");
    }
    let mut figures = Figures::default();
    if let Some(kinds) = &args.power {
        return cut_power(args, kinds, seed, &mut directory, &mut place);
    }
    while figures.kills < args.kills {
        let left = args.kills - figures.kills;
        if let Err(message) = place.copy(left, &mut figures) {
            // What both ends left behind is the evidence.
            directory.disable_cleanup(true);
            let here = directory.path().display();
            let message =
                format!("seed {seed}, copy {}: {message}\nall files are kept in {here}", figures.copies);
            return Err(Failure::with_code(EXIT_INTERNAL, message));
        }
        if figures.copies.is_multiple_of(COPIES_A_LINE) {
            println!("{}", figures.summary());
        }
    }
    println!("all: {}", figures.summary());
    let above = figures.twice.iter().filter(|&&twice| twice > TWICE_MAX).count();
    if above <= figures.twice.len().div_ceil(ONE_OF) {
        Ok(())
    } else {
        let kills = figures.twice.len();
        let message = format!(
            "seed {seed}: more than {TWICE_MAX} bytes were sent twice after {above} of {kills} kills"
        );
        Err(Failure::with_code(EXIT_INTERNAL, message))
    }
}

/// Copies whose destination loses its power, on one file system after the other.
fn cut_power(
    args: &Args,
    kinds: &[String],
    seed: u64,
    directory: &mut tempfile::TempDir,
    place: &mut Place,
) -> Result<(), Failure> {
    let mut left = args.kills;
    let mut tried = 0;
    for (kind, following) in kinds.iter().zip((0..kinds.len()).rev()) {
        let cuts = left / (following as u64 + 1);
        let served = directory.path().join("served");
        let disk = Disk::make(directory.path(), &served, kind, shut_down).map_err(Failure::new)?;
        let Some(disk) = disk else {
            println!(
                "skipped: {kind}, which needs root, a loop device, mkfs.{kind} and this kernel's support"
            );
            continue;
        };
        tried += 1;
        left -= cuts;
        cut_power_of(disk, kind, cuts, place).map_err(|message| {
            directory.disable_cleanup(true);
            let here = directory.path().display();
            let message = format!("seed {seed}, {kind}, {message}\nall files are kept in {here}");
            Failure::with_code(EXIT_INTERNAL, message)
        })?;
    }
    if tried == 0 {
        return Err(Failure::new("no power to cut: run it as root where loop devices are".to_owned()));
    }
    Ok(())
}

fn cut_power_of(mut disk: Disk, kind: &str, cuts: u64, place: &mut Place) -> Result<(), String> {
    let mut figures = Figures::default();
    while figures.kills < cuts {
        let copied = place.push_through_cuts(cuts - figures.kills, &mut disk, &mut figures);
        copied.map_err(|message| format!("copy {}: {message}", figures.copies))?;
        if figures.copies.is_multiple_of(COPIES_A_LINE) {
            println!("{kind}: {} power cuts in {} copies", figures.kills, figures.copies);
        }
    }
    println!(
        "all: {} power cuts of {kind} in {} copies of {} bytes, every byte compared; {} runs went on where one had ended",
        figures.kills, figures.copies, figures.bytes, figures.resumed
    );
    Ok(())
}
