//! The arguments of `fobs sync`: the table's. They are those of rsync where it has one, those of `fobs cp`
//! for the path between the hosts.

use std::ops::Deref;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use fobs::options::flag::CommandName;

use super::copy::locations;
use crate::flags::Line;

/// Examples of `fobs sync`.
pub const SYNC_EXAMPLES: &str = "\
Examples:
  fobs sync -a data/ host:/srv/data            what changed below data, with rights and times
  fobs sync -ain --delete data/ host:/srv/data show what that would change and delete, and change nothing
  fobs sync -aH --exclude '*.tmp' host:set .   from host, without temporary files, hard links kept
  fobs sync -a --backup --suffix=.old data/ host:/srv/data  keep what is replaced";

/// What it does, for its help.
const ABOUT: &str = "Bring a tree at another host up to date: send only what changed";
const ABOUT_MORE: &str = "\
Names, letters and semantics are rsync's; docs/guide.md lists the differences. Sources and destination are written \
as for fobs cp. SRC/ means the contents of SRC. An option of rsync that is not built is refused.";

/// What a `-h` alone stands for.
pub const HELP_ALONE: &str = "help-of-letters";

/// What follows the program's name in rsync's form, which programs read.
const VERSION: &str = concat!(
    " version ",
    env!("CARGO_PKG_VERSION"),
    "  protocol version 1\n\
     Capabilities:\n    \
     64-bit files, 64-bit inums, 64-bit timestamps, 64-bit long ints,\n    \
     no socketpairs, symlinks, symtimes, hardlinks, hardlink-specials,\n    \
     hardlink-symlinks, IPv6, atimes, no batchfiles, inplace, append, ACLs,\n    \
     xattrs, optional secluded-args, no iconv, prealloc, stop-at, no crtimes\n"
);

/// What was typed.
#[derive(Debug)]
pub struct SyncArgs(pub Line);

impl Deref for SyncArgs {
    type Target = Line;

    fn deref(&self) -> &Line {
        &self.0
    }
}

impl Args for SyncArgs {
    fn augment_args(command: Command) -> Command {
        let command = command
            .about(ABOUT)
            .long_about(format!("{ABOUT}.\n\n{ABOUT_MORE}"))
            .override_usage("fobs sync [OPTIONS] SRC... DST")
            .after_help(SYNC_EXAMPLES)
            .args_override_self(true)
            // As rsync: its -h is about figures, and help only alone (`config::parse`).
            .disable_help_flag(true)
            .disable_version_flag(true);
        let help = Arg::new("help").long("help").action(ArgAction::Help).help("Print help, as -h alone does");
        let short = Arg::new("help-short").long(HELP_ALONE).action(ArgAction::HelpShort).hide(true);
        let version = Arg::new("version").short('V').long("version").action(ArgAction::Version);
        let version = version.help("Print the version, and what rsync calls its capabilities");
        let command = command.version(VERSION).display_name("fobs");
        Line::arguments(CommandName::Sync, command).args([help, short, version, locations().required(false)])
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SyncArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SyncArgs, Error> {
        Ok(SyncArgs(Line::read(CommandName::Sync, matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
