//! The arguments of `fobs cp`: the table's.

use std::ops::{Deref, DerefMut};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};
use fobs::options::flag::CommandName;

use crate::flags::Line;

/// Examples of `fobs cp`, for its help and its man page.
pub const CP_EXAMPLES: &str = "\
Examples:
  fobs cp big.tar host:                        to the home directory on host, over SSH
  fobs cp -rp data/ me@host:/srv/data          the contents of data/, with modes and times
  fobs cp host:results.h5 .                    from host to the current directory
  fobs cp -r fobs://host/sets/2026 /scratch    from a daemon (fobs serve)
  tar c dir | fobs cp - host:dir.tar           standard input
  fobs cp --deadline 06:00 -r set/ host:/data  complete by 06:00; gives way to other traffic
  fobs cp --cc fixed --rate 2Gbit x host:      at exactly 2 Gbit/s, on reserved capacity
  fobs cp --transport ssh x host:              through the ssh connection alone";

/// What it does, for its help.
const ABOUT: &str = "Copy files and directory trees to or from another host";
const ABOUT_MORE: &str = "\
A source or destination is one of: a local path; [user@]host:path or ssh://[user@]host[:port]/path over SSH; \
fobs://host[:port]/path below the directory that a daemon serves; '-' for standard input or output. Over SSH, a \
path that does not start with '/' is relative to the home directory; in the URL, an absolute path needs a second \
slash. Write an IPv6 address in brackets, and a local name with a colon as ./a:b. In URLs, %XX stands for a byte. \
Of a destination that does not exist the last name is made (with a '/' behind it as a directory), those above it \
are not. Names over SSH may have a shell's patterns (host:'*.txt') and ~user, which the other host expands. Sources may be \
on several hosts, and both sides on others: then the data goes directly between them. fobs --help lists the exit \
codes.";

/// What was typed.
#[derive(Debug)]
pub struct CpArgs(pub Line);

impl Deref for CpArgs {
    type Target = Line;

    fn deref(&self) -> &Line {
        &self.0
    }
}

impl DerefMut for CpArgs {
    fn deref_mut(&mut self) -> &mut Line {
        &mut self.0
    }
}

impl Args for CpArgs {
    fn augment_args(command: Command) -> Command {
        let command = command
            .about(ABOUT)
            .long_about(format!("{ABOUT}.\n\n{ABOUT_MORE}"))
            .override_usage("fobs cp [OPTIONS] SRC... DST")
            .after_help(CP_EXAMPLES)
            .args_override_self(true);
        Line::arguments(CommandName::Cp, command).arg(locations())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for CpArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<CpArgs, Error> {
        Ok(CpArgs(Line::read(CommandName::Cp, matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// One list, not two: the parser takes no `--` between a list and what follows it.
pub fn locations() -> Arg {
    Arg::new("paths")
        .value_name("PATH")
        .help("Sources, then the destination: SRC... DST")
        .required(true)
        .num_args(1..)
        .action(ArgAction::Append)
        .value_parser(clap::value_parser!(std::ffi::OsString))
        .value_hint(ValueHint::AnyPath)
}
