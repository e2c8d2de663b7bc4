//! Arguments of `fobs submit`.

use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use clap::Args;
use fobs_jobs::Window;

use crate::times::{parse_every, parse_moment};

/// Examples of `fobs submit`.
const SUBMIT_EXAMPLES: &str = "\
Examples:
  fobs submit sync -a data/ host:data             prints a number, and returns
  fobs submit --between 20:00-06:00 cp -r set/ host:/data
  fobs submit --every 1d --name nightly sync -a --delete data/ host:data
  fobs submit --after 12 cp result.h5 host:       once job 12 has succeeded
  fobs submit --key run7 cp -r run7/ host:        twice is one job
  fobs jobs                                       what became of them";

/// Hand in a copy or a sync that a keeper runs, and go.
///
/// The arguments of cp or sync follow; they are checked at once. The keeper (fobs jobs serve) is started if
/// none runs. It tries again what may pass by itself, and goes on after its own end or the host's. Prints the
/// job's number.
#[derive(Debug, Args)]
#[command(
    override_usage = "fobs submit [OPTIONS] cp|sync ARGS...",
    after_help = SUBMIT_EXAMPLES,
    args_override_self = true
)]
pub struct SubmitArgs {
    /// Name of the job, for lists
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub name: String,

    /// Jobs of each label have the same share of the keeper
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub label: String,

    /// From -10 to 10; higher begins first [default: 0]
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    pub priority: i8,

    /// Once this job has succeeded (repeatable)
    #[arg(long, value_name = "ID")]
    pub after: Vec<u64>,

    /// Not before: a time from now (2h) or a moment (06:00, 2026-11-23T06:00)
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub at: Option<SystemTime>,

    /// Only in this part of each day, as in 20:00-06:00; what runs at its end goes on in the next one
    #[arg(long, value_name = "FROM-TO", value_parser = Window::parse)]
    pub between: Option<Window>,

    /// Again and again, from begin to begin (1d, 6h); left out while the last run still runs
    #[arg(long, value_name = "TIME", value_parser = parse_every)]
    pub every: Option<Duration>,

    /// How often it is tried again after a failure that may pass by itself [default: 50]
    #[arg(long, value_name = "N", default_value_t = 50, hide_default_value = true)]
    pub retries: u32,

    /// Ended by then, whether it is done or not: as --at
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub deadline: Option<SystemTime>,

    /// When the job ends: program with arguments (no shell), which FOBS_JOB_ID and others tell; or URL that
    /// gets it as JSON
    #[arg(long, value_name = "COMMAND|URL")]
    pub notify: Option<String>,

    /// The same key and command twice is one job; another command is refused
    #[arg(long, value_name = "TEXT")]
    pub key: Option<String>,

    /// To the keeper of this host, which an operator runs for all users, and not to one of this user
    #[arg(long)]
    pub system: bool,

    /// Print a JSON object
    #[arg(long)]
    pub json: bool,

    /// cp or sync, with its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "COMMAND")]
    pub words: Vec<OsString>,
}
