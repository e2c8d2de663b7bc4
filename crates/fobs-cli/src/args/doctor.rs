//! The arguments of `fobs doctor`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};
use fobs::options::flag::CommandName;

use crate::flags::Line;

/// Examples of `fobs doctor`.
pub const DOCTOR_EXAMPLES: &str = "\
Examples:
  fobs doctor                                  this host; its disk in the current directory
  fobs doctor --dir /data host:/srv/data       both hosts, their disks there, and the path between them
  fobs doctor --json fobs://host/              the same for a daemon, as one JSON object";

/// Longest probe of the path in each direction, seconds.
const SECONDS_MAX: u64 = fobs::doctor::PROBE_MAX.as_secs();

/// Find out what will limit copies, and what would help.
///
/// Examines this host, and with HOST the other one and the path between them: socket buffers, offloads,
/// packet size, whether UDP passes both ways, how fast it carries data, and the speeds of ciphers, hash,
/// packets and disks. For each it prints the rate that it allows and the command that mends it; the last
/// three lines say what is fine, what will limit a copy and what to type. The path is tried with data that is
/// thrown away, for up to two seconds in each direction; over SSH that takes two connections. A disk is
/// tried with a file of up to 267 MB that has no name and does not stay. At a daemon the disk is tried only
/// with the right to write.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES, args_override_self = true)]
pub struct DoctorArgs {
    /// Directory here whose disk is tried
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,

    /// How long data is sent in each direction, seconds [default: 2 at most, so that all takes 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub seconds: Option<u64>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// Those of the table.
    #[command(flatten)]
    pub way: WayArgs,

    /// The other host and a directory there: host:[DIR], [user@]host or fobs://host/[DIR]
    #[arg(value_name = "HOST", value_hint = ValueHint::Hostname)]
    pub host: Option<OsString>,
}

/// The table's options of `fobs doctor`: how the other host is reached.
#[derive(Debug)]
pub struct WayArgs(pub Line);

impl Args for WayArgs {
    fn augment_args(command: Command) -> Command {
        Line::arguments(CommandName::Doctor, command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for WayArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<WayArgs, Error> {
        Ok(WayArgs(Line::read(CommandName::Doctor, matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
