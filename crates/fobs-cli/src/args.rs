//! The command line: parsing, help, manual pages and completions are all made from these definitions.

mod clean;
pub mod config;
pub mod doctor;
mod far;
mod resume;
mod rights;
mod route;
mod serve;
pub mod sync;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use fobs::options::{
    CongestionControl, JudgeMethod, MinRate, PACKET_SIZE_RANGE, Priority, StreamAllotment, TCP_BUFFER_RANGE,
    Transport,
};

pub use self::clean::CleanArgs;
pub use self::resume::ResumeArgs;
pub use self::route::{Naming, RouteArgs};
pub use self::serve::{ServeArgs, ServerArgs};
use crate::cluster::ClusterArgs;
use crate::endurance::{parse_min_rate, parse_timeout};
use crate::exit;
use crate::moment::parse_deadline;
use crate::moved::MovedArgs;
use crate::units::{parse_memory, parse_rate, parse_size};

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
    Keygen(KeygenArgs),
    Explain(ExplainArgs),
    Config(config::ConfigArgs),
    Doctor(Box<doctor::DoctorArgs>),
    Ctl(CtlArgs),
    Top(TopArgs),
    Clean(CleanArgs),
    Cluster(ClusterArgs),
    Man(ManArgs),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Server(ServerArgs),
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

/// Copy files and directory trees to or from another host.
///
/// A source or destination is one of: a local path; [user@]host:path or ssh://[user@]host[:port]/path over
/// SSH; fobs://host[:port]/path below the directory that a daemon serves; '-' for standard input or output.
/// Over SSH, a path that does not start with '/' is relative to the home directory; in the URL, an absolute
/// path needs a second slash. Write an IPv6 address in brackets, and a local name with a colon as ./a:b. In
/// URLs, %XX stands for a byte. Names over SSH may have a shell's patterns (host:'*.txt') and ~user, which
/// the other host expands. Sources may be on several hosts, and both sides on others: then the data goes
/// directly between them. fobs --help lists the exit codes.
#[derive(Debug, Args)]
#[command(override_usage = "fobs cp [OPTIONS] SRC... DST", after_help = CP_EXAMPLES, args_override_self = true)]
pub struct CpArgs {
    /// Copy directories recursively
    #[arg(short = 'r', long)]
    pub recursive: bool,

    /// Preserve modes and modification times
    #[arg(short = 'p', long)]
    pub preserve: bool,

    /// Quiet: no progress, summary or notices; errors are still shown
    #[arg(short = 'q', long)]
    pub quiet: bool,

    /// Verbose: print a line for every file; ssh's own messages come with -o LogLevel=DEBUG
    #[arg(short = 'v', long, action = ArgAction::Count)]
    pub verbose: u8,

    /// Compress data (zstd) where that makes it smaller
    #[arg(short = 'C', long)]
    pub compress: bool,

    /// fsync each file at the destination before renaming it, then its directory; slower
    #[arg(long)]
    pub fsync: bool,

    #[command(flatten)]
    pub resume: ResumeArgs,

    #[command(flatten)]
    pub route: RouteArgs,

    /// Between two other hosts, send the data through this one
    ///
    /// Without it, data goes from one to the other where a way is open, and only otherwise through here.
    /// Either way, this host needs ssh to both of them, and they need none to each other.
    #[arg(short = '3', long)]
    pub through_here: bool,

    /// Maximum rate in Kbit/s (1000 bits per second), as --rate
    #[arg(short = 'l', value_name = "KBIT", value_parser = clap::value_parser!(u64).range(1..=KBIT_MAX),
          conflicts_with = "rate")]
    pub limit_kbit: Option<u64>,

    /// Congestion control algorithm
    #[arg(long, value_name = "CC", value_parser = cc_names(), default_value_t = CongestionControl::Auto)]
    pub cc: CongestionControl,

    /// What carries the data
    ///
    /// auto: UDP, and TCP where UDP is blocked or much slower. udp: UDP alone. tcp: TCP alone, with as many
    /// connections as the path needs; tcp:N: with N of them, at most 64. ssh: one stream inside the control
    /// connection (ssh, or that to a daemon), which gets through wherever that does.
    #[arg(long, value_name = "TRANSPORT", value_parser = str::parse::<Transport>, default_value_t = Transport::Auto)]
    pub transport: Transport,

    /// Congestion control of TCP connections that carry data [default: the sending host's]
    ///
    /// One that the sending host's kernel has loaded and permits: net.ipv4.tcp_allowed_congestion_control.
    #[arg(long, value_name = "NAME")]
    pub tcp_cc: Option<String>,

    /// Send and receive buffers of TCP connections that carry data [default: the kernels adapt them]
    ///
    /// Both kernels cut it to net.core.wmem_max and rmem_max. Units as in 64KiB or 4MiB.
    #[arg(long, value_name = "BYTES", value_parser = parse_tcp_buffer)]
    pub tcp_buffer: Option<u32>,

    /// How data is given to TCP connections: next-free, or equal-parts fixed in advance to compare with
    #[arg(long, value_name = "ALLOTMENT", value_parser = str::parse::<StreamAllotment>,
          hide_short_help = true, default_value_t = StreamAllotment::NextFree)]
    pub stream_allotment: StreamAllotment,

    /// Priority of --cc auto on a shared link
    #[arg(long, value_name = "PRIORITY", value_parser = priority_names(), default_value_t = Priority::Fair)]
    pub priority: Priority,

    /// Time by which the copy should be complete; until then, use no more of the path than necessary
    ///
    /// A duration (90s, 30m, 2h, 1d12h) or a point in time (06:00, 2026-11-23T06:00, 2026-11-23T06:00Z; local
    /// time without a zone). The copy gives way to other traffic while it is ahead of schedule and shares
    /// fairly when it is behind, up to --priority. It continues after a missed deadline.
    #[arg(long, value_name = "WHEN", value_parser = parse_deadline)]
    pub deadline: Option<SystemTime>,

    /// Method that attributes packet losses to the network or to the receiver
    #[arg(long, value_name = "METHOD", value_parser = method_names(), default_value_t = JudgeMethod::On)]
    pub loss_cause: JudgeMethod,

    /// Rate of --cc fixed; maximum rate of the other algorithms
    ///
    /// A number without a unit is bits per second. Units: k M G T (powers of 1000) and Ki Mi Gi Ti (powers of
    /// 1024), alone or with 'bit' for bits per second, with 'B' for bytes per second: 100M, 10Gbit, 64MiB.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<u64>,

    /// How long to wait for the other host when the network fails [default: 10m]
    ///
    /// While the path is silent, both ends probe it and the copy goes on as soon as it is back, also if an
    /// address has changed. A number without a unit is seconds; units as in 90s, 10m, 2h.
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub timeout: Option<Duration>,

    /// End the copy when it is slower than this, as in 1Mbit/30s: on average over the last 30 s
    #[arg(long, value_name = "RATE/TIME", value_parser = parse_min_rate)]
    pub min_rate: Option<MinRate>,

    /// Number of new packets per acknowledgement
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub ack_every: Option<u32>,

    /// Maximum packets per burst
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: Option<u32>,

    /// Memory that this side of the copy may hold, 64 MiB to 64 GiB [default: 256MiB]
    ///
    /// Long paths need about two bandwidth-delay products: 400 MB at 10 Gbit/s and 160 ms. The other side has
    /// its own. A number without a unit is bytes; units as in 512MiB or 2G.
    #[arg(long, value_name = "BYTES", value_parser = parse_memory)]
    pub memory: Option<u64>,

    /// Data bytes per packet [default: as many as the path carries]
    ///
    /// A number without a unit is bytes; units as in 1.4k or 8KiB.
    #[arg(long, value_name = "BYTES", value_parser = parse_packet_size)]
    pub packet_size: Option<u16>,

    /// Write events to standard output, one JSON object per line, instead of progress
    ///
    /// Every line has "v": 1 and an "event": start, progress (about once a second), file, error or notice.
    /// The last line is done (with all figures) or failed (code, message, exit_code). Sizes are in bytes,
    /// rates in bits per second.
    #[arg(long)]
    pub json: bool,

    /// Explain what limits the copy's rate: during the copy (after 5, 10, 20 s, ...) and at its end, with
    /// remedies
    #[arg(long)]
    pub explain: bool,

    /// Write the measurements of both ends to FILE, for fobs explain
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,

    /// Sources, then the destination: SRC... DST
    // One list, not two: clap takes no `--` between a list and what follows it.
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub paths: Vec<OsString>,
}

/// Largest `-l`: more does not fit in a `u64` of bits per second.
const KBIT_MAX: u64 = u64::MAX / 1000;

/// The names of the congestion control algorithms, each with its line of help.
fn cc_names() -> impl TypedValueParser<Value = CongestionControl> {
    let names = CongestionControl::ALL.map(|cc| PossibleValue::new(cc.name()).help(cc.summary()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<CongestionControl>())
}

/// The priorities, each with its line of help.
fn priority_names() -> impl TypedValueParser<Value = Priority> {
    let names = Priority::ALL.map(|priority| PossibleValue::new(priority.name()).help(priority.summary()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Priority>())
}

/// Examples of `fobs keygen`.
const KEYGEN_EXAMPLES: &str = "\
Examples:
  fobs keygen                                     a key; its line lets it pull
  fobs keygen --for-upload --comment ann@laptop   its line lets it store new names only
  fobs keygen --show                              the line of the key that is there";

/// The methods of `--loss-cause`, each with its line of help.
fn method_names() -> impl TypedValueParser<Value = JudgeMethod> {
    let names = JudgeMethod::ALL.map(|method| PossibleValue::new(method.name()).help(method.summary()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<JudgeMethod>())
}

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
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "", conflicts_with = "out",
          value_hint = ValueHint::FilePath)]
    pub show: Option<PathBuf>,

    /// Print a line that lets the key store new names only: for backups that its owner cannot destroy
    #[arg(long)]
    pub for_upload: bool,

    /// Comment of the line, instead of USER@HOST
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
}

/// Show the copies that run on this host, and change them.
///
/// Each with its rate, round-trip time, loss and remaining time, and where its time goes. Root sees the
/// copies of all users.
#[derive(Debug, Args)]
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

/// Print or write the manual pages, in roff.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write each page to a file in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,

    /// Print only this subcommand's page [default: all pages]
    #[arg(value_name = "COMMAND")]
    pub page: Option<String>,
}

/// Print the completion script for a shell.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

fn parse_packet_size(text: &str) -> Result<u16, String> {
    let (smallest, largest) = PACKET_SIZE_RANGE;
    let size = parse_size(text)?;
    u16::try_from(size)
        .ok()
        .filter(|size| (smallest..=largest).contains(size))
        .ok_or_else(|| format!("a packet carries {smallest} to {largest} bytes"))
}

fn parse_tcp_buffer(text: &str) -> Result<u32, String> {
    let (smallest, largest) = TCP_BUFFER_RANGE;
    u32::try_from(parse_size(text)?)
        .ok()
        .filter(|size| (smallest..=largest).contains(size))
        .ok_or_else(|| "a buffer holds 4KiB to 1GiB".to_owned())
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
    fn packet_sizes_out_of_range_are_refused() {
        for (text, size) in [("512", Some(512)), ("1.4k", Some(1400)), ("65000", Some(65_000))] {
            assert_eq!(parse_packet_size(text).ok(), size, "{text}");
        }
        for text in ["511", "65001", "65536", "1M", "0", "x"] {
            parse_packet_size(text).expect_err(text);
        }
    }
}
