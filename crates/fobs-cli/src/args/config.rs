//! The arguments of `fobs config`.

use std::ffi::OsString;

use clap::{Args, ValueHint};

/// Examples of `fobs config`.
pub const CONFIG_EXAMPLES: &str = "\
Examples:
  fobs config                                  what is set, and where
  fobs config --path                           which files are read
  fobs config --why host:                      what copies over SSH to host use
  fobs config --why fobs://host                the same for a daemon";

/// Show the configuration: where it is read from, each effective value, and its origin.
///
/// Every option of fobs cp that can have a default is set under its long name (rate = "1Gbit") in
/// $XDG_CONFIG_HOME/fobs/config.toml, then in /etc/fobs/config.toml; a block [host."*.example.org"] is for
/// some hosts only. A variable such as FOBS_RATE takes precedence over both files, the command line over all.
#[derive(Debug, Args)]
#[command(after_help = CONFIG_EXAMPLES, args_override_self = true)]
pub struct ConfigArgs {
    /// Print every key, set or not, with its value and origin: a file and line, a variable, or the default
    #[arg(long)]
    pub why: bool,

    /// Print the files that are read, the one with the highest precedence first
    #[arg(long, conflicts_with_all = ["why", "host"])]
    pub path: bool,

    /// Host for which blocks are chosen: host:, [user@]host or fobs://host
    #[arg(value_name = "HOST", value_hint = ValueHint::Hostname)]
    pub host: Option<OsString>,
}
