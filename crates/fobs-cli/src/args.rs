//! The command line, said once: parsing, help, the man pages and the completions all come from here.

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
  fobs cp -rp data/ me@host:/srv/data          what is in data/, with modes and times
  fobs cp host:results.h5 .                    from there to here
  fobs cp -r fobs://host/sets/2026 /scratch    from a daemon (fobs serve)
  tar c dir | fobs cp - host:dir.tar           a stream
  fobs cp --deadline 06:00 -r set/ host:/data  done by the morning, and in nobody's way until then
  fobs cp --cc fixed --rate 2Gbit x host:      at exactly this rate, on a path that is yours";

/// Examples of `fobs serve`.
pub const SERVE_EXAMPLES: &str = "\
Examples:
  fobs keygen                                  on the client: prints its public line
  fobs serve --root /srv --authorized-keys keys
  fobs serve --listen 192.0.2.1 --root /srv --read-only --authorized-keys keys";

/// Copies files and trees between hosts at the rate the path can carry.
///
/// The data travels over UDP, encrypted, and every byte is verified. Another host is reached over SSH
/// (host:path, nothing to set up but fobs itself over there) or at a daemon (fobs://host/path).
#[derive(Debug, Parser)]
#[command(name = "fobs", version, after_help = exit::table(), args_override_self = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands; what each is for is said at its arguments, because a text here would replace the longer one there.
#[derive(Debug, Subcommand)]
pub enum Command {
    Cp(Box<CpArgs>),
    Serve(ServeArgs),
    Keygen(KeygenArgs),
    Explain(ExplainArgs),
    Man(ManArgs),
    Completions(CompletionsArgs),
    /// The other end of a copy over SSH, on standard input and output.
    #[command(hide = true)]
    Server,
    /// Moved to fobs-lab.
    #[command(hide = true)]
    Sim(MovedArgs),
    /// Moved to fobs-lab.
    #[command(hide = true)]
    Diagnose(MovedArgs),
}

/// Copy files and trees to or from another host.
///
/// A source or destination is a local path, [user@]host:path or ssh://[user@]host[:port]/path (over SSH; a path that
/// does not start with '/' is relative to the home directory, in the URL an absolute path needs a second slash),
/// fobs://host[:port]/path (below the directory that a daemon serves), or '-' for standard input or output. An IPv6
/// address is written in brackets. A local name that contains a colon is written ./a:b. In URLs, %XX stands for a
/// byte. Exactly one side is on another host. The exit codes are listed by fobs --help.
#[derive(Debug, Args)]
#[command(override_usage = "fobs cp [OPTIONS] SRC... DST", after_help = CP_EXAMPLES, args_override_self = true)]
pub struct CpArgs {
    /// Copy directories with everything in them
    #[arg(short = 'r')]
    pub recursive: bool,

    /// Preserve modes and modification times
    #[arg(short = 'p')]
    pub preserve: bool,

    /// Quiet: no progress, no summary, no notices; errors are still shown
    #[arg(short = 'q')]
    pub quiet: bool,

    /// Verbose: name every file; also handed to ssh, where more of them say more
    #[arg(short = 'v', action = ArgAction::Count)]
    pub verbose: u8,

    /// Compress (zstd) what becomes smaller by it
    #[arg(short = 'C')]
    pub compress: bool,

    /// Have the destination's device keep each file before it gets its name, and its name after; costs time
    #[arg(long)]
    pub fsync: bool,

    /// Never send faster than KBIT Kbit/s (1 Kbit/s is 1000 bits per second), as --rate does
    #[arg(short = 'l', value_name = "KBIT", value_parser = clap::value_parser!(u64).range(1..=KBIT_MAX),
          conflicts_with = "rate")]
    pub limit_kbit: Option<u64>,

    /// The port of the other host's SSH server or daemon, where the location names none
    #[arg(short = 'P', value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// The key to use: an SSH identity file, or for fobs:// one made by fobs keygen
    #[arg(short = 'i', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub identity: Option<PathBuf>,

    /// Configuration file for ssh
    #[arg(short = 'F', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ssh_config: Option<PathBuf>,

    /// Reach the other host by way of this one (ssh -J); only the control channel takes this way, the data goes
    /// directly
    #[arg(short = 'J', value_name = "HOST", value_hint = ValueHint::Hostname)]
    pub jump: Option<String>,

    /// An option for ssh, as in its configuration file; may be given more than once
    #[arg(short = 'o', value_name = "OPT", action = ArgAction::Append)]
    pub ssh_options: Vec<String>,

    /// Use IPv4 only
    #[arg(short = '4', overrides_with = "ipv6")]
    pub ipv4: bool,

    /// Use IPv6 only
    #[arg(short = '6', overrides_with = "ipv4")]
    pub ipv6: bool,

    /// Who decides how fast to send
    #[arg(long, value_name = "CC", value_parser = cc_names(), default_value_t = CongestionControl::Auto)]
    pub cc: CongestionControl,

    /// How much of a shared link --cc auto claims
    #[arg(long, value_name = "PRIORITY", value_parser = priority_names(), default_value_t = Priority::Fair)]
    pub priority: Priority,

    /// When the copy should be complete: take no more of the path than that needs, and give way while there is time
    ///
    /// A length of time (90s, 30m, 2h, 1d12h), or a point in time (06:00, 2026-11-23T06:00, 2026-11-23T06:00Z; without a
    /// zone, this computer's). The copy gives way like a scavenger while it can, shares fairly once it falls behind, and
    /// goes on where the deadline passes; --priority is the most that it ever claims.
    #[arg(long, value_name = "WHEN", value_parser = parse_deadline)]
    pub deadline: Option<SystemTime>,

    /// How to tell whether losses are the network's or the receiver's
    #[arg(long, value_name = "METHOD", value_parser = method_names(), default_value_t = JudgeMethod::On)]
    pub loss_cause: JudgeMethod,

    /// The rate of --cc fixed; for the others, a rate never to exceed
    ///
    /// A number alone is bits per second. Units: k M G T (powers of 1000) and Ki Mi Gi Ti (powers of 1024), alone or
    /// with 'bit' for bits per second, with 'B' for bytes per second: 100M, 10Gbit, 64MiB.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<u64>,

    /// The receiver acknowledges after every N new packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub ack_every: Option<u32>,

    /// Packets to put out before looking for acknowledgements
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: Option<u32>,

    /// Data bytes in a packet, instead of what the path is found to carry
    ///
    /// A number alone is bytes; units as in 1.4k or 8KiB.
    #[arg(long, value_name = "BYTES", value_parser = parse_packet_size)]
    pub packet_size: Option<u16>,

    /// UDP ports that the other host may use for the data, as in 45601-45664; for firewalls
    #[arg(long, value_name = "A-B", value_parser = parse_range)]
    pub udp_ports: Option<PortRange>,

    /// The fobs program on the other host [default: fobs]
    #[arg(long, value_name = "PATH")]
    pub fobs_path: Option<String>,

    /// Write what happens to standard output, one JSON object a line, and show no progress
    ///
    /// Every line has "v": 1 and an "event": start, progress (about once a second), file, error, notice, and as the
    /// last line done (the figures) or failed (code, message, exit_code). Sizes are bytes, rates bits per second.
    #[arg(long)]
    pub json: bool,

    /// Say why the copy is not faster: the limit so far after 5, 10, 20 s and so on, and at the end where the time went and what would help
    #[arg(long)]
    pub explain: bool,

    /// Write what both ends measured to FILE, for fobs explain
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,

    /// Where the keys of daemons are pinned, instead of the default file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub known_hosts: Option<PathBuf>,

    /// The ssh program to run [default: ssh]
    #[arg(short = 'S', long = "ssh", value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub ssh_program: Option<PathBuf>,

    /// What to copy, then where to: SRC... DST
    // One list, not two: clap takes no `--` between a list and what follows it.
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub paths: Vec<OsString>,
}

/// Largest `-l`: what `u64` bits per second can hold, far above any link.
const KBIT_MAX: u64 = u64::MAX / 1000;

/// The names of the congestion controllers, each with its line of help.
fn cc_names() -> impl TypedValueParser<Value = CongestionControl> {
    let names = CongestionControl::ALL.map(|cc| PossibleValue::new(cc.name()).help(cc.summary()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<CongestionControl>())
}

/// The priorities, each with its line of help.
fn priority_names() -> impl TypedValueParser<Value = Priority> {
    let names = Priority::ALL.map(|priority| PossibleValue::new(priority.name()).help(priority.summary()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Priority>())
}

/// The ways to judge losses, each with its line of help.
fn method_names() -> impl TypedValueParser<Value = JudgeMethod> {
    let names = JudgeMethod::ALL.map(|method| PossibleValue::new(method.name()).help(method.summary()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<JudgeMethod>())
}

/// Serve a directory to clients with known keys.
///
/// Clients reach it as fobs://host/path. The control channel is TLS 1.3 on a TCP port; each session gets a UDP
/// port for the data. The address, the directory and the fingerprint of the server's key are printed on standard
/// error, then a line for what happens.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES, args_override_self = true)]
pub struct ServeArgs {
    /// Where to listen: an address, a port or both, as in [::1]:45600; may be given more than once [default: port
    /// 45600 on all addresses]
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen, action = ArgAction::Append)]
    pub listen: Vec<Listen>,

    /// The directory to serve; nothing outside it can be reached
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: PathBuf,

    /// Refuse every write, whatever rights a key has
    #[arg(long)]
    pub read_only: bool,

    /// The file of the clients' keys and their rights, one a line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub authorized_keys: PathBuf,

    /// The server's own key, instead of the default file; made if it does not exist
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub identity: Option<PathBuf>,

    /// UDP ports for the data, one for each session
    #[arg(long, value_name = "A-B", value_parser = parse_range, default_value_t = DEFAULT_UDP)]
    pub udp_ports: PortRange,

    /// Sessions at the same time, at most the number of UDP ports [default: that number]
    #[arg(long, value_name = "N")]
    pub sessions_max: Option<usize>,
}

/// Make the key that a daemon knows this client by.
///
/// The public line, for the daemon's file of authorized keys, is printed on standard output; where the key is and
/// its fingerprint, on standard error.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// Where to write the key, instead of the default file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
}

/// Say why a recorded copy was not faster.
///
/// Reads what fobs cp --trace wrote and prints what fobs cp --explain would have said.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub struct ExplainArgs {
    /// Also write a page with figures over time (HTML that needs nothing from the net)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,

    /// Print one JSON object, as in the done line of fobs cp --json
    #[arg(long)]
    pub json: bool,

    /// The trace
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
}

/// Print or write the manual pages (roff).
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write one file for each page into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,

    /// The page of this subcommand only; without it, all pages
    #[arg(value_name = "COMMAND")]
    pub page: Option<String>,
}

/// Print the completion script of a shell.
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
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn packet_sizes_stay_in_their_range() {
        for (text, size) in [("512", Some(512)), ("1.4k", Some(1400)), ("65000", Some(65_000))] {
            assert_eq!(parse_packet_size(text).ok(), size, "{text}");
        }
        for text in ["511", "65001", "65536", "1M", "0", "x"] {
            parse_packet_size(text).expect_err(text);
        }
    }
}
