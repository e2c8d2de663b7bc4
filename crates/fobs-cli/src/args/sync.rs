//! The arguments of `fobs sync`: those of rsync where it has one, those of `fobs cp` for the path between the
//! hosts.

mod refused;
mod rules;
mod switches;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Arg, ArgAction, Args, ValueHint};
use fobs::options::{CongestionControl, MinRate, Priority, Transport};

use super::{RouteArgs, cc_names, priority_names};
use crate::endurance::{parse_min_rate, parse_timeout};
use crate::moment::parse_deadline;
pub use refused::Refused;
pub use rules::{RuleOption, RuleWords};
pub use switches::{Directories, Recursion, Switches};

/// Examples of `fobs sync`.
pub const SYNC_EXAMPLES: &str = "\
Examples:
  fobs sync -a data/ host:/srv/data            what changed below data, with rights and times
  fobs sync -ain --delete data/ host:/srv/data show what that would change and delete, and change nothing
  fobs sync -aH --exclude '*.tmp' host:set .   from host, without temporary files, hard links kept
  fobs sync -a --backup --suffix=.old data/ host:/srv/data  keep what is replaced";

/// Bring a tree at another host up to date: send only what changed.
///
/// Names, letters and semantics are rsync's; docs/guide.md lists the differences. Sources and destination are
/// written as for fobs cp. SRC/ means the contents of SRC. An option of rsync that is not built is refused.
#[derive(Debug, Args)]
#[command(override_usage = "fobs sync [OPTIONS] SRC... DST", after_help = SYNC_EXAMPLES,
          args_override_self = true)]
#[command(mut_args(with_the_letters_of_rsync))]
pub struct SyncArgs {
    #[command(flatten)]
    pub switches: Switches,

    #[command(flatten)]
    pub rules: RuleWords,

    #[command(flatten)]
    pub refused: Refused,

    /// Read the names to transfer, below the one source, from FILE ('-': standard input)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files_from: Option<PathBuf>,

    /// Link what is unchanged from DIR, relative to the destination, instead of sending it; repeatable
    #[arg(long, value_name = "DIR", action = ArgAction::Append, value_hint = ValueHint::DirPath)]
    pub link_dest: Vec<PathBuf>,

    /// Delete at most N files; further ones are left, exit code 25
    #[arg(long, value_name = "N")]
    pub max_delete: Option<u64>,

    /// End of a backup's name [default: ~]
    #[arg(long, value_name = "SUFFIX", allow_hyphen_values = true)]
    pub suffix: Option<OsString>,

    /// Change modes, as in D2755,F644 or go-w; repeatable
    #[arg(long, value_name = "CHANGES", action = ArgAction::Append, allow_hyphen_values = true)]
    pub chmod: Vec<String>,

    /// Times that differ by up to N seconds are equal
    #[arg(short = '@', long, value_name = "N")]
    pub modify_window: Option<u32>,

    /// Maximum rate, in KiB per second without a unit; K M G are powers of 1024, KB MB GB of 1000
    #[arg(long, value_name = "RATE", value_parser = parse_bandwidth, conflicts_with = "rate")]
    pub bwlimit: Option<Bandwidth>,

    /// Maximum rate as for fobs cp, or the rate of --cc fixed
    #[arg(long, value_name = "RATE", value_parser = crate::units::parse_rate)]
    pub rate: Option<u64>,

    /// Congestion control algorithm
    #[arg(long, value_name = "CC", value_parser = cc_names(), default_value_t = CongestionControl::Auto)]
    pub cc: CongestionControl,

    /// What carries the data: auto, udp, tcp, tcp:N or ssh, as for fobs cp
    #[arg(long, value_name = "TRANSPORT", value_parser = str::parse::<Transport>, default_value_t = Transport::Auto)]
    pub transport: Transport,

    /// Priority of --cc auto on a shared link
    #[arg(long, value_name = "PRIORITY", value_parser = priority_names(), default_value_t = Priority::Fair)]
    pub priority: Priority,

    /// Time by which the sync should be complete, as for fobs cp
    #[arg(long, value_name = "WHEN", value_parser = parse_deadline)]
    pub deadline: Option<SystemTime>,

    /// How long to wait for the other host once data has flowed, as for fobs cp
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub timeout: Option<Duration>,

    /// End a sync that is slower than this over this time, as in 1Mbit/30s
    #[arg(long, value_name = "RATE/TIME", value_parser = parse_min_rate)]
    pub min_rate: Option<MinRate>,

    /// Memory that this side may hold, as for fobs cp
    #[arg(long, value_name = "BYTES", value_parser = crate::units::parse_memory)]
    pub memory: Option<u64>,

    #[command(flatten)]
    pub route: RouteArgs,

    /// Write events to standard output, one JSON object per line, as fobs cp does
    #[arg(long)]
    pub json: bool,

    /// Sources, then the destination: SRC... DST
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub paths: Vec<OsString>,
}

/// Takes the letter of arguments whose letter is rsync's for something else.
fn with_the_letters_of_rsync(argument: Arg) -> Arg {
    match argument.get_id().as_str() {
        "port" | "identity" | "ssh_config" | "jump" | "ssh_options" | "ssh_program" => argument.short(None),
        _ => argument,
    }
}

/// A value of `--bwlimit`; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bandwidth {
    /// Bits per second, or no limit.
    pub bits_per_second: Option<u64>,
}

/// Parses a value of `--bwlimit`: rsync's sizes per second.
///
/// # Errors
/// A sentence with the valid forms.
fn parse_bandwidth(text: &str) -> Result<Bandwidth, String> {
    let wrong =
        || format!("{text:?} is not a rate: write KiB per second, or a number with K, M, G, KB, MB or GB");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "k" | "kib" => 1024.0,
        "b" => 1.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return Err(wrong()),
    };
    // Saturates far above any link.
    let bits = (number * factor * 8.0) as u64;
    Ok(Bandwidth { bits_per_second: (bits > 0).then_some(bits) })
}

#[cfg(test)]
mod tests;
