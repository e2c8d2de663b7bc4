//! The arguments of `fobs pipe`.

use std::ffi::OsString;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};
use fobs::options::flag::CommandName;

use crate::flags::Line;

/// Examples of `fobs pipe`.
const PIPE_EXAMPLES: &str = "\
Examples:
  zfs send tank/db@monday | fobs pipe host -- zfs receive tank/db    to a command on host, over SSH
  fobs pipe host -- 'cd /srv && tar c data' | tar x                  from one
  zfs send tank/db@monday | fobs pipe fobs://host/db                 to the command of this key's line at a daemon
  fobs pipe --listen db fobs://host > db.tar                         waits at a daemon for
  tar c /srv/db | fobs pipe fobs://host/db                           the other end of the same name";

/// Connect standard input and output to a command on another host.
///
/// Standard input goes to the command's, its output comes to standard output and its errors to standard
/// error, each verified and at the rate that the path can carry. The exit code is the command's, 128 and the
/// number of a signal that ended it; failures of the pipe itself have the codes of fobs --help, and a
/// sentence on standard error. As with ssh, the words of COMMAND are joined with blanks and read by the shell
/// of the user there. A pipe that fails ends the command before its input ends, so that no half of a stream
/// is taken for a whole one.
///
/// At a daemon (fobs://host/NAME) the command is that of the key's line (pipe=), to which NAME is given; for
/// a key without one, NAME is what another client listens as.
#[derive(Debug, Args)]
#[command(
    override_usage = "fobs pipe [OPTIONS] HOST -- COMMAND...\n       fobs pipe [OPTIONS] fobs://HOST/NAME\n       fobs pipe \
                      [OPTIONS] --listen NAME [fobs://HOST]",
    after_help = PIPE_EXAMPLES,
    args_override_self = true
)]
pub struct PipeArgs {
    /// Wait at a daemon for the client that asks for NAME, for as long as --timeout says
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub listen: Option<String>,

    /// Those of the table.
    #[command(flatten)]
    pub way: PipeWay,

    /// The other host: [user@]host, ssh://host or fobs://host/NAME [default with --listen: fobs://localhost]
    #[arg(value_name = "HOST", value_hint = ValueHint::Hostname, required_unless_present = "listen")]
    pub host: Option<OsString>,

    /// Command for the shell there
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// The table's options of `fobs pipe`.
#[derive(Debug)]
pub struct PipeWay(pub Line);

impl Args for PipeWay {
    fn augment_args(command: Command) -> Command {
        Line::arguments(CommandName::Pipe, command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PipeWay {
    fn from_arg_matches(matches: &ArgMatches) -> Result<PipeWay, Error> {
        Ok(PipeWay(Line::read(CommandName::Pipe, matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
