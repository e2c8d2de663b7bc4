//! The command line: parsing, help, manual pages and completions are all made from these definitions, and
//! for commands that call another host from the table of options (`flags`).

mod clean;
mod complete;
pub mod config;
mod copy;
pub mod doctor;
pub mod jobs;
mod log;
pub mod pipe;
mod rights;
mod serve;
pub mod submit;
pub mod sync;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

pub use self::clean::CleanArgs;
pub use self::complete::CompleteArgs;
pub use self::copy::CpArgs;
pub use self::log::LogArgs;
pub use self::serve::{ServeArgs, ServerArgs};
use crate::cluster::ClusterArgs;
use crate::exit;
use crate::moved::MovedArgs;

/// Examples of `fobs ctl`.
pub const CTL_EXAMPLES: &str = "\
Examples:
  fobs ctl 4711 rate=200M             at most 200 Mbit/s from now on
  fobs ctl 4711 priority=scavenger    gives way to all other traffic
  fobs ctl 4711 pause                 sends nothing until fobs ctl 4711 resume";

/// Copies files and directory trees between hosts at the rate the path can carry.
///
/// Data is sent over UDP, or over TCP where UDP does not get through; it is encrypted, and every byte is
/// verified. Another host is reached over SSH (host:path; fobs must be installed there) or at a daemon
/// (fobs://host/path).
#[derive(Debug, Parser)]
#[command(name = "fobs", version, after_help = exit::table(), args_override_self = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands. Help texts are at their arguments: a text here would replace the longer one there.
#[derive(Debug, Subcommand)]
pub enum Command {
    Cp(Box<CpArgs>),
    Sync(Box<sync::SyncArgs>),
    Serve(ServeArgs),
    Log(LogArgs),
    Keygen(KeygenArgs),
    Explain(ExplainArgs),
    Config(config::ConfigArgs),
    Doctor(Box<doctor::DoctorArgs>),
    Pipe(Box<pipe::PipeArgs>),
    Submit(Box<submit::SubmitArgs>),
    Jobs(jobs::JobsArgs),
    Ctl(CtlArgs),
    Top(TopArgs),
    Clean(CleanArgs),
    Cluster(ClusterArgs),
    Man(ManArgs),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Server(ServerArgs),
    #[command(hide = true)]
    Complete(CompleteArgs),
    /// A copy that another host has started here: its request comes on standard input.
    #[command(hide = true)]
    FarCopy,
    /// Whether this program has the BLAKE3 hash HASH, by its exit code.
    #[command(hide = true)]
    SelfCheck {
        /// 64 hexadecimal digits.
        hash: String,
    },
    /// Moved to fobs-lab sim: build it with cargo build --release -p fobs-lab.
    #[command(hide = true)]
    Sim(MovedArgs),
    /// Moved to fobs-lab diagnose: build it with cargo build --release -p fobs-lab.
    #[command(hide = true)]
    Diagnose(MovedArgs),
}

/// Examples of `fobs keygen`.
const KEYGEN_EXAMPLES: &str = "\
Examples:
  fobs keygen                                     a key; its line lets it pull
  fobs keygen --for-upload --comment ann@laptop   its line lets it store new names only
  fobs keygen --show                              the line of the key that is there";

/// Create a key pair that identifies this client to daemons.
///
/// The public key, a line for the daemon's file of authorized keys, is printed on standard output; the
/// private key's file and fingerprint on standard error. Its comment names the key in the daemon's log.
#[derive(Debug, Args)]
#[command(after_help = KEYGEN_EXAMPLES)]
pub struct KeygenArgs {
    /// File to write the private key to, instead of the default file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,

    /// Print the public key of a key that exists, and make none: the default one, or that in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with = "out", value_hint = ValueHint::FilePath)]
    pub show: Option<Option<PathBuf>>,

    /// Print a line that lets the key store new names only: for backups that its owner cannot destroy
    #[arg(long)]
    pub for_upload: bool,

    /// Comment of the line, instead of USER@HOST
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
}

/// Examples of `fobs top`.
const TOP_EXAMPLES: &str = "\
Examples:
  fobs top           the running copies and the jobs; keys pause, limit and end the one that is marked
  fobs top --once    the same as text, and the end
  fobs top --json    the copies for a program; jobs: fobs jobs --json";

/// Show the copies that run on this host and your jobs, and change them.
///
/// Each copy with its rate, round-trip time, loss and remaining time, and where its time goes; each job that
/// is not over with what it does or waits for. Root sees the copies of all users.
#[derive(Debug, Args)]
#[command(after_help = TOP_EXAMPLES)]
pub struct TopArgs {
    /// Print the copies once, and end
    #[arg(long)]
    pub once: bool,

    /// Print the copies once, one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// Change a copy that runs on this host.
///
/// Only its user and root may. A change takes effect within two round trips.
#[derive(Debug, Args)]
#[command(after_help = CTL_EXAMPLES)]
pub struct CtlArgs {
    /// The copy's number: that of its process, as fobs top shows it
    #[arg(value_name = "ID")]
    pub id: u32,

    /// rate=RATE or rate=none, priority=PRIORITY, pause, resume, cancel
    #[arg(value_name = "CHANGE", required = true)]
    pub changes: Vec<String>,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  fobs explain copy.jsonl                          a copy recorded with fobs cp --trace copy.jsonl
  fobs explain -- rsync -a big host:               another program, while it runs
  fobs explain --pid 4711                          one that runs already; Ctrl-C ends the watching";

/// Explain what limited the rate of a copy: a recorded one, or that of another program.
///
/// Reads a file written by fobs cp --trace and prints the explanation that fobs cp --explain prints. Or runs
/// a COMMAND that copies over TCP (rsync, scp, sftp, curl), or watches a process that does, without changing
/// it, and explains what limited that. What a program's processes do is shown to their user; of the far end
/// only what its TCP says is known. Not for programs that use UDP. The explanation of a COMMAND goes to
/// standard error, and the exit code is the command's.
#[derive(Debug, Args)]
#[command(
    override_usage = "fobs explain [OPTIONS] TRACE\n       fobs explain [OPTIONS] --pid PID\n       fobs explain \
                      [OPTIONS] -- COMMAND...",
    after_help = EXPLAIN_EXAMPLES,
    args_override_self = true
)]
pub struct ExplainArgs {
    /// Also write a page with figures over time (self-contained HTML)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,

    /// Print one JSON object, as in the done event of fobs cp --json
    #[arg(long)]
    pub json: bool,

    /// Watch this process and its children until it ends
    #[arg(long, value_name = "PID", conflicts_with_all = ["trace", "command"])]
    pub pid: Option<u32>,

    /// Record what was measured of the watched program, as fobs cp --trace does
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "trace")]
    pub record: Option<PathBuf>,

    /// Trace file
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath, required_unless_present_any = ["pid", "command"])]
    pub trace: Option<PathBuf>,

    /// Program to run and watch, with its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "trace", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Examples of `fobs man`.
const MAN_EXAMPLES: &str = "\
Examples:
  fobs man fobs-cp | man -l -    a page, where none are installed
  fobs man --out DIR             all of them, for a package";

/// Print or write the manual pages, in roff.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct ManArgs {
    /// Write each page to a file in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,

    /// Print only this subcommand's page [default: all pages]
    #[arg(value_name = "COMMAND")]
    pub page: Option<String>,
}

/// Examples of `fobs completions`.
const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(fobs completions bash)                                         for this shell
  fobs completions fish > ~/.config/fish/completions/fobs.fish
  fobs completions zsh > ~/.zsh/_fobs                                     below a directory of $fpath";

/// Print the completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_for_newcomers_is_one() {
        let text = include_str!("../../../docs/coming-from.md");
        let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        let commands: Vec<&str> = rows
            .flat_map(|(_, ours)| ours.split('`').skip(1).step_by(2))
            .filter(|words| words.starts_with("fobs ") && words.contains(' ') && *words != "fobs serve")
            .collect();
        assert!(commands.len() > 15, "{commands:?}");
        for command in commands {
            let mut words = Vec::new();
            for (index, part) in command.split('\'').enumerate() {
                // What stands in quotes is one word.
                if index % 2 == 1 { words.push(part) } else { words.extend(part.split_whitespace()) }
            }
            Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
        }
    }
}
