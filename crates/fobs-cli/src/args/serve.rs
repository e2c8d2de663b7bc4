//! Arguments of `fobs serve`, and of `fobs server`, which ssh runs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueHint};
use fobs::key_options;
use fobs::options::{DEFAULT_DRAIN, DEFAULT_QUEUE_WAIT, DEFAULT_UDP_PORTS};

use super::rights::RestrictedRights;
use crate::endurance::DaemonWait;
use crate::ports::{Listen, PortRange, parse_listen, parse_metrics, parse_range};

/// Examples of `fobs serve`.
const SERVE_EXAMPLES: &str = "\
Examples:
  fobs keygen                                  on the client: prints the public key
  fobs serve --root /srv --authorized-keys keys
  fobs serve --listen 192.0.2.1 --root /srv --read-only --authorized-keys keys";

/// Example of `fobs server`.
const SERVER_EXAMPLES: &str = "\
Example, a line of ~/.ssh/authorized_keys of a key for backups:
  restrict,command=\"fobs server --restrict /backup/ann --append-only\" ssh-ed25519 AAAA...";

/// The long help of `--authorized-keys`.
fn authorized_keys_help() -> String {
    let options: String =
        key_options().map(|(syntax, summary)| format!("\n  {syntax:16} {summary}")).collect();
    format!(
        "File with the clients' public keys, their rights and limits, one per line\n\nA line is [OPTIONS] fobs-ed25519 \
         BASE64 [COMMENT], as fobs keygen prints it. Options are separated by commas; without a right the key may \
         only pull:{options}"
    )
}

/// The default of `--udp-ports`.
const DEFAULT_UDP: PortRange = PortRange { first: DEFAULT_UDP_PORTS.0, last: DEFAULT_UDP_PORTS.1 };

/// Serve a directory to clients with known keys.
///
/// Clients use it as fobs://host/path. The control channel is TLS 1.3 on a TCP port; each session has its own
/// UDP port for the data. The addresses, the directory and the fingerprint of the server's key are printed on
/// standard error, then a line for each event. SIGTERM lets the running sessions end (--drain); SIGINT ends
/// them. The file of keys is read again for each client, so SIGHUP has nothing to reload.
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

    /// Let clients with the right to write have this server pull from other daemons with a ticket
    ///
    /// The server then connects to the hosts that they name, and shows its own key there.
    #[arg(long)]
    pub third_party: bool,

    /// File with the clients' public keys, their rights and limits, one per line
    // What may stand in a line comes from the table that parses it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, long_help = authorized_keys_help())]
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

    /// Time a client with a known key waits for a session when all are taken, before it is refused
    #[arg(long, value_name = "TIME", default_value_t = DaemonWait(DEFAULT_QUEUE_WAIT))]
    pub queue_wait: DaemonWait,

    /// Time that running sessions have to end after SIGTERM, before they are ended
    #[arg(long, value_name = "TIME", default_value_t = DaemonWait(DEFAULT_DRAIN))]
    pub drain: DaemonWait,

    /// Serve counters as OpenMetrics at http://ADDR:PORT/metrics; a port alone is on the loopback address
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = parse_metrics)]
    pub metrics: Option<SocketAddr>,

    /// Write the log as JSON, one object per line
    #[arg(long)]
    pub log_json: bool,

    /// Write a line for each file that is stored or sent, too
    #[arg(long)]
    pub log_files: bool,
}

impl ServeArgs {
    /// `--queue-wait` and `--drain`.
    pub fn waits(&self) -> (Duration, Duration) {
        (self.queue_wait.0, self.drain.0)
    }
}

/// The remote end of a copy over SSH, on standard input and output.
///
/// fobs cp runs it on the other host. With --restrict it is the command of a key in sshd's authorized_keys:
/// such a key copies below one directory and does nothing else.
#[derive(Debug, Args)]
#[command(after_help = SERVER_EXAMPLES)]
pub struct ServerArgs {
    /// See only this directory, as the client's /; run nothing but fobs for the key
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub restrict: Option<PathBuf>,

    /// Follow links of other users in paths of the client's command line, as fobs sync --insecure-links does
    #[arg(long, hide = true, conflicts_with = "restrict")]
    pub insecure_links: bool,

    /// Where the sources of a copy from this host to itself are
    #[arg(long, hide = true, value_name = "DIR", conflicts_with = "restrict")]
    pub sources_in: Vec<PathBuf>,

    /// What the client may do there.
    #[command(flatten)]
    pub rights: RestrictedRights,
}
