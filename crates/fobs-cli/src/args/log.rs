//! The arguments of `fobs log`.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Args, ValueHint};

use crate::moment::parse_since;

/// Examples of `fobs log`.
const LOG_EXAMPLES: &str = "\
Examples:
  journalctl -u fobs -o cat | fobs log --event deleted --path sets/   who deleted what below sets
  fobs log --key ann --since 2h /var/log/fobs.json                     what ann did in the last two hours
  fobs log --code denied --json serve.log                              what was refused, for a program";

/// Show what a daemon's log says of a key, a path, a kind of work or an outcome.
///
/// Reads what fobs serve --log-json has written, from files or standard input. Each record that fits is
/// printed as its time and its sentence; lines that are no records are skipped. Conditions are combined.
#[derive(Debug, Args)]
#[command(after_help = LOG_EXAMPLES, args_override_self = true)]
pub struct LogArgs {
    /// Records of keys whose comment or fingerprint contains TEXT
    #[arg(long, value_name = "TEXT")]
    pub key: Option<String>,

    /// Records that name a path that begins with PATH; a part of a name is none
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,

    /// Records of this event: request, file, deleted, done, answered, failed, refused
    #[arg(long, value_name = "EVENT")]
    pub event: Option<String>,

    /// Records of this work: copy, sync, dry_run, probe, files
    #[arg(long, value_name = "WORK")]
    pub work: Option<String>,

    /// Outcomes with this code: ok, partial, or that of an error, such as denied
    #[arg(long, value_name = "CODE")]
    pub code: Option<String>,

    /// Records since then: a time such as 2026-11-27T02:00:00Z, or how long ago, as in 90s, 10m, 8h
    #[arg(long, value_name = "WHEN", value_parser = parse_since)]
    pub since: Option<SystemTime>,

    /// Print the records as they are
    #[arg(long)]
    pub json: bool,

    /// Files; none or - is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
}
