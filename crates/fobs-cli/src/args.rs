//! The command line: parsing, help, manual pages and completions are all made from these definitions.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use fobs::options::{CongestionControl, DEFAULT_UDP_PORTS, JudgeMethod, PACKET_SIZE_RANGE, Priority};

use crate::exit;
use crate::moment::parse_deadline;
use crate::moved::MovedArgs;
use crate::ports::{Listen, PortRange, parse_listen, parse_range};
use crate::units::{parse_rate, parse_size};

/// Examples of `fobs cp`, for its help and its man page.
pub const CP_EXAMPLES: &str = "\
Examples:
  fobs cp big.tar host:                        to the home directory on host, over SSH
  fobs cp -rp data/ me@host:/srv/data          the contents of data/, with modes and times
  fobs cp host:results.h5 .                    from host to the current directory
  fobs cp -r fobs://host/sets/2026 /scratch    from a daemon (fobs serve)
  tar c dir | fobs cp - host:dir.tar           standard input
  fobs cp --deadline 06:00 -r set/ host:/data  complete by 06:00; gives way to other traffic
  fobs cp --cc fixed --rate 2Gbit x host:      at exactly 2 Gbit/s, on reserved capacity";

/// Examples of `fobs serve`.
pub const SERVE_EXAMPLES: &str = "\
Examples:
  fobs keygen                                  on the client: prints the public key
  fobs serve --root /srv --authorized-keys keys
  fobs serve --listen 192.0.2.1 --root /srv --read-only --authorized-keys keys";

/// Copies files and directory trees between hosts at the rate the path can carry.
///
/// Data is sent over UDP, encrypted, and every byte is verified. Another host is reached over SSH (host:path;
/// fobs must be installed there) or at a daemon (fobs://host/path).
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
    Serve(ServeArgs),
    Keygen(KeygenArgs),
    Explain(ExplainArgs),
    Man(ManArgs),
    Completions(CompletionsArgs),
    /// The remote end of a copy over SSH, on standard input and output.
    #[command(hide = true)]
    Server,
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
/// URLs, %XX stands for a byte. Exactly one side is on another host. fobs --help lists the exit codes.
#[derive(Debug, Args)]
#[command(override_usage = "fobs cp [OPTIONS] SRC... DST", after_help = CP_EXAMPLES, args_override_self = true)]
pub struct CpArgs {
    /// Copy directories recursively
    #[arg(short = 'r')]
    pub recursive: bool,

    /// Preserve modes and modification times
    #[arg(short = 'p')]
    pub preserve: bool,

    /// Quiet: no progress, summary or notices; errors are still shown
    #[arg(short = 'q')]
    pub quiet: bool,

    /// Verbose: print a line for every file; repeat for more messages from ssh
    #[arg(short = 'v', action = ArgAction::Count)]
    pub verbose: u8,

    /// Compress data (zstd) where that makes it smaller
    #[arg(short = 'C')]
    pub compress: bool,

    /// fsync each file at the destination before renaming it, then its directory; slower
    #[arg(long)]
    pub fsync: bool,

    /// Maximum rate in Kbit/s (1000 bits per second), as --rate
    #[arg(short = 'l', value_name = "KBIT", value_parser = clap::value_parser!(u64).range(1..=KBIT_MAX),
          conflicts_with = "rate")]
    pub limit_kbit: Option<u64>,

    /// Port of the other host's SSH server or daemon, unless the location has one
    #[arg(short = 'P', value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// Private key: an SSH identity file, or for fobs:// a file made by fobs keygen
    #[arg(short = 'i', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub identity: Option<PathBuf>,

    /// Configuration file for ssh
    #[arg(short = 'F', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ssh_config: Option<PathBuf>,

    /// Jump host for the control channel (ssh -J); the data goes directly to the other host
    #[arg(short = 'J', value_name = "HOST", value_hint = ValueHint::Hostname)]
    pub jump: Option<String>,

    /// Option for ssh, as in its configuration file; repeatable
    #[arg(short = 'o', value_name = "OPT", action = ArgAction::Append)]
    pub ssh_options: Vec<String>,

    /// Use IPv4 only
    #[arg(short = '4', overrides_with = "ipv6")]
    pub ipv4: bool,

    /// Use IPv6 only
    #[arg(short = '6', overrides_with = "ipv4")]
    pub ipv6: bool,

    /// Congestion control algorithm
    #[arg(long, value_name = "CC", value_parser = cc_names(), default_value_t = CongestionControl::Auto)]
    pub cc: CongestionControl,

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

    /// Number of new packets per acknowledgement
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub ack_every: Option<u32>,

    /// Maximum packets per burst
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: Option<u32>,

    /// Data bytes per packet [default: as many as the path carries]
    ///
    /// A number without a unit is bytes; units as in 1.4k or 8KiB.
    #[arg(long, value_name = "BYTES", value_parser = parse_packet_size)]
    pub packet_size: Option<u16>,

    /// UDP ports for the data on the other host, as in 45601-45664, if a firewall restricts them
    #[arg(long, value_name = "A-B", value_parser = parse_range)]
    pub udp_ports: Option<PortRange>,

    /// Path of fobs on the other host [default: fobs]
    #[arg(long, value_name = "PATH")]
    pub fobs_path: Option<String>,

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

    /// File with the pinned keys of daemons, instead of the default file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub known_hosts: Option<PathBuf>,

    /// ssh program to run [default: ssh]
    #[arg(short = 'S', long = "ssh", value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub ssh_program: Option<PathBuf>,

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

/// The methods of `--loss-cause`, each with its line of help.
fn method_names() -> impl TypedValueParser<Value = JudgeMethod> {
    let names = JudgeMethod::ALL.map(|method| PossibleValue::new(method.name()).help(method.summary()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<JudgeMethod>())
}

/// Serve a directory to clients with known keys.
///
/// Clients use it as fobs://host/path. The control channel is TLS 1.3 on a TCP port; each session has its own
/// UDP port for the data. The addresses, the directory and the fingerprint of the server's key are printed on
/// standard error, then a line for each event.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES, args_override_self = true)]
pub struct ServeArgs {
    /// Address, port or both to listen at, as in [::1]:45600; repeatable [default: port 45600 on all
    /// addresses]
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen, action = ArgAction::Append)]
    pub listen: Vec<Listen>,

    /// Directory to serve; nothing outside it is accessible
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: PathBuf,

    /// Refuse all writes, regardless of the rights of keys
    #[arg(long)]
    pub read_only: bool,

    /// File with the clients' public keys and their rights, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub authorized_keys: PathBuf,

    /// File with the server's private key, instead of the default file; created if it does not exist
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub identity: Option<PathBuf>,

    /// UDP ports for the data, one for each session
    #[arg(long, value_name = "A-B", value_parser = parse_range, default_value_t = DEFAULT_UDP)]
    pub udp_ports: PortRange,

    /// Maximum number of concurrent sessions [default: the number of UDP ports]
    #[arg(long, value_name = "N")]
    pub sessions_max: Option<usize>,
}

/// Create a key pair that identifies this client to daemons.
///
/// The public key, a line for the daemon's file of authorized keys, is printed on standard output; the
/// private key's file and fingerprint on standard error.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// File to write the private key to, instead of the default file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
}

/// Explain what limited the rate of a recorded copy.
///
/// Reads a file written by fobs cp --trace and prints the explanation that fobs cp --explain prints.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub struct ExplainArgs {
    /// Also write a page with figures over time (self-contained HTML)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,

    /// Print one JSON object, as in the done event of fobs cp --json
    #[arg(long)]
    pub json: bool,

    /// Trace file
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
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

/// The default of `--udp-ports`.
const DEFAULT_UDP: PortRange = PortRange { first: DEFAULT_UDP_PORTS.0, last: DEFAULT_UDP_PORTS.1 };

fn parse_packet_size(text: &str) -> Result<u16, String> {
    let (smallest, largest) = PACKET_SIZE_RANGE;
    let size = parse_size(text)?;
    u16::try_from(size)
        .ok()
        .filter(|size| (smallest..=largest).contains(size))
        .ok_or_else(|| format!("a packet carries {smallest} to {largest} bytes"))
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
