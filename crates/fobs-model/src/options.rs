//! What a caller chooses about a transfer or a server.

pub(crate) mod bounds;
mod chmod;
pub mod flag;
mod named;
mod owners;
mod picked;
mod preserve;
mod rules;
pub mod sync;
mod terms;
mod transport;
mod via;

use std::ffi::OsString;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::public_key::PublicKey;
pub use crate::rights::{Access, Privileges, Rights};
pub use fobs_proto::congestion::{CongestionControl, Priority};
pub use fobs_proto::loss_cause::JudgeMethod;
use fobs_proto::session::ANSWER_WAIT;

pub use bounds::{unitless_rate, unitless_rate_as};
pub use chmod::Chmod;
pub use fobs_proto::session::MEMORY_RANGE;
pub use owners::AccountMap;
pub use picked::PickedNames;
pub use preserve::{FileSystems, Follow, IdMapping, Preserve, SymbolicLinks, Unkept};
pub use terms::{Overwrite, Sight, Stamps, Terms};
pub use transport::{STREAMS_MAX, StreamAllotment, TcpTuning, Transport};
pub use via::{Lanes, Via};

/// One end of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A path on this host, of any bytes.
    Local(PathBuf),
    /// Standard input (as the only source) or standard output (as a destination): for one transfer of a
    /// process.
    Stdio,
    /// A path on another host.
    Remote(Remote),
}

/// A path on another host and how to get there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// How the control channel is made.
    pub carrier: Carrier,
    /// User name, where one was given (SSH only).
    pub user: Option<String>,
    /// Host name or address, IPv6 without brackets.
    pub host: String,
    /// TCP port, where one was given.
    pub port: Option<u16>,
    /// The path there, raw bytes; empty is the home directory (SSH) or the served root (daemon).
    pub path: Vec<u8>,
}

/// The ways to reach another host (protocol 2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// The system's `ssh` starts `fobs server` there: `host:path` or `ssh://` on the command line.
    Ssh,
    /// TLS 1.3 to a running `Server`: `fobs://` on the command line.
    Daemon,
}

/// The IP versions that may be used (`-4`, `-6`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressFamily {
    /// Either.
    #[default]
    Any,
    /// Only IPv4.
    V4,
    /// Only IPv6.
    V6,
}

/// How the system's `ssh` is run. Everything is passed on unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SshOptions {
    /// `-F`: the configuration file.
    pub config_file: Option<PathBuf>,
    /// `-J`: jump hosts.
    pub jump: Option<String>,
    /// `-o`, in order.
    pub options: Vec<String>,
    /// The program, `ssh` if none.
    pub program: Option<PathBuf>,
    /// Whether a host without `fobs` is sent one.
    pub push: PushBinary,
    /// Files that may be the one that is sent, before those beside this program.
    pub programs: Vec<PathBuf>,
    /// No `ssh` is run: this process's standard input and output lead to `fobs server` on the host with these
    /// names. For one transfer of a process.
    pub inherited: Option<Vec<String>>,
    /// Where the words of `ssh` go.
    pub words: SshWords,
    /// Whether the user is told what a login shell prints before fobs speaks.
    pub chatter: Chatter,
    /// Arguments of the program in front of all others.
    pub arguments: Vec<OsString>,
    /// What the program takes behind them.
    pub grammar: ShellGrammar,
}

/// What becomes of what a login shell prints before fobs speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Chatter {
    /// It is skipped.
    #[default]
    Skipped,
    /// It is skipped, and told.
    Told,
}

/// What a program that starts another one on another host takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShellGrammar {
    /// The options of `ssh`.
    #[default]
    Ssh,
    /// A host, and the words of a command, as `docker exec -i` does. Data goes over the control channel: a
    /// name that it knows need not be that of a host.
    HostAndCommand,
}

/// Where the standard error of `ssh` goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SshWords {
    /// That of this process.
    #[default]
    Shown,
    /// There too, and the last of them into the error, for a program whose errors are read elsewhere.
    ShownAndKept,
}

/// Whether a program is sent to a host that has none, into the user's cache directory there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PushBinary {
    /// It is not.
    #[default]
    Never,
    /// It is, where `fobs server` cannot be run there.
    IfMissing,
    /// Likewise, of a host that had none before: it is not tried in vain.
    Expected,
}

/// What becomes of the key of a server that is new here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NewKeys {
    /// It is pinned, and the user told.
    #[default]
    Pinned,
    /// It is refused.
    Refused,
}

/// What becomes of a copy into a destination into which another one is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Taken {
    /// It fails at once, and says who is at work.
    #[default]
    Refused,
    /// It waits for the other one, for [`TransferOptions::timeout`] at most: what that brought is verified
    /// and not moved again.
    Awaited,
}

/// The slowest transfer that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinRate {
    /// Verified file data, bits per second.
    pub bits_per_second: u64,
    /// The mean over this time counts.
    pub over: Duration,
}

/// Everything a caller may choose about one transfer. `Default` is what `fobs cp` does without flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferOptions {
    /// A ticket that takes the place of this side's rights at the daemon that signed it.
    pub ticket: Option<SignedTicket>,
    /// `-r`: copy directories too.
    pub recursive: bool,
    /// `-p`: keep modes and modification times.
    pub preserve: bool,
    /// `-C`: compress each chunk with zstd where it becomes smaller.
    pub compress: bool,
    /// `--fsync`: the receiver calls fsync on each file before it renames it, and then on its directory.
    pub fsync: bool,
    /// `--cache`: large files go through the page caches of both ends.
    pub cache: bool,
    /// `--no-partial`: nothing stays at the destination of what is not complete, so an interrupted transfer
    /// starts anew.
    pub no_partial: bool,
    /// `--append-verify`: a file at the destination that is shorter than its source, and that no journal
    /// knows, is continued if it is the source's beginning.
    pub append_verify: bool,
    /// `--checksum`: what an earlier run stored counts only if its content is the source's.
    pub checksum: bool,
    /// `--delta`: what the destination has of a file is not sent, where that costs less time.
    pub delta: bool,
    /// `--cc`: the congestion control algorithm.
    pub congestion_control: CongestionControl,
    /// `--priority`: how `auto` shares the path with competing traffic.
    pub priority: Priority,
    /// `--deadline`: when the transfer should be complete. `auto` sends as fast as that needs and otherwise
    /// yields; `priority` is the highest that it uses. Only for `auto`.
    pub deadline: Option<SystemTime>,
    /// `--loss-cause`: how losses are attributed to the network or the receiver.
    pub loss_cause: JudgeMethod,
    /// `--rate`, `-l`: the highest sending rate, bits per second of UDP payload.
    pub rate_limit: Option<u64>,
    /// `--timeout`: how long to wait for the other host once data has flowed, within [`TIMEOUT_RANGE`].
    pub timeout: Duration,
    /// How long the other host may take until it speaks; `None` is as long as a person may need for a
    /// password. `--timeout` sets both.
    pub opening: Option<Duration>,
    /// `--min-rate`: end a transfer that is slower than this.
    pub min_rate: Option<MinRate>,
    /// `--ack-every`: new packets between acks; `None` is the receiver's default.
    pub ack_every: Option<u32>,
    /// `--burst`: maximum packets per burst; `None` is the algorithm's default.
    pub burst: Option<u32>,
    /// `--memory`: what this side of the transfer may hold, bytes, within [`MEMORY_RANGE`]; `None` is an
    /// eighth of what is available to it, at most 1 GiB.
    pub memory: Option<u64>,
    /// `--resume-window`: bytes of a pipe that are kept until the other end has confirmed them, so that it
    /// outlives a connection that breaks; at most [`RESUME_WINDOW_MAX`], and 0 for none.
    pub resume_window: u64,
    /// `--packet-size`: data bytes per packet, within [`PACKET_SIZE_RANGE`]; `None` probes the path.
    pub packet_size: Option<u16>,
    /// `--transport`: what carries the data.
    pub transport: Transport,
    /// `--tcp-cc`, `--tcp-buffer`: how TCP connections that carry data are set up.
    pub tcp: TcpTuning,
    /// How a transfer to another host gives its data to streams.
    pub stream_allotment: StreamAllotment,
    /// `--udp-ports`: first and last UDP port that the server may bind; `None` leaves it to the server.
    pub udp_ports: Option<(u16, u16)>,
    /// `--via`, `--lanes`: the paths of the data, and how many lanes use them.
    pub lanes: Lanes,
    /// `-4`, `-6`: the IP versions that may be used.
    pub address_family: AddressFamily,
    /// `-i`: the identity file of ssh or FOBS, by carrier; `None` is the default one.
    pub identity: Option<PathBuf>,
    /// `-P`: the TCP port where the location has none.
    pub port: Option<u16>,
    /// `--fobs-path`: the program that ssh runs on the other host.
    pub fobs_path: String,
    /// How `ssh` is run.
    pub ssh: SshOptions,
    /// The file of pinned server keys; `None` is the default one.
    pub known_hosts: Option<PathBuf>,
    /// What becomes of the key of a daemon that is not in that file.
    pub new_keys: NewKeys,
    /// What becomes of a copy into a destination into which another one is running.
    pub taken: Taken,
    /// A sync instead of a copy.
    pub sync: Option<Arc<sync::SyncOptions>>,
}

impl Default for TransferOptions {
    fn default() -> Self {
        TransferOptions {
            ticket: None,
            recursive: false,
            preserve: false,
            compress: false,
            fsync: false,
            cache: false,
            no_partial: false,
            append_verify: false,
            checksum: false,
            delta: false,
            congestion_control: CongestionControl::Auto,
            priority: Priority::Fair,
            deadline: None,
            loss_cause: JudgeMethod::On,
            rate_limit: None,
            timeout: ANSWER_WAIT,
            opening: None,
            min_rate: None,
            ack_every: None,
            burst: None,
            memory: None,
            resume_window: RESUME_WINDOW_DEFAULT,
            packet_size: None,
            transport: Transport::Auto,
            tcp: TcpTuning::default(),
            stream_allotment: StreamAllotment::NextFree,
            udp_ports: None,
            lanes: Lanes::default(),
            address_family: AddressFamily::Any,
            identity: None,
            port: None,
            fobs_path: "fobs".to_owned(),
            ssh: SshOptions::default(),
            known_hosts: None,
            new_keys: NewKeys::Pinned,
            taken: Taken::Refused,
            sync: None,
        }
    }
}

/// TCP port of a server where none is given. Unassigned by IANA as far as we know.
pub const DEFAULT_TCP_PORT: u16 = 45600;
/// First and last UDP port of a server's sessions, one port each: few, so that a firewall rule is one line.
pub const DEFAULT_UDP_PORTS: (u16, u16) = (45601, 45664);
/// Shortest and longest [`TransferOptions::timeout`]: below, a short outage ends a transfer; a week is longer
/// than a person waits.
pub const TIMEOUT_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(7 * 24 * 3600));
/// [`TransferOptions::resume_window`] by default, bytes: what is in flight at 10 Gbit/s and 200 ms.
pub const RESUME_WINDOW_DEFAULT: u64 = 256 << 20;
/// Largest [`TransferOptions::resume_window`], bytes: what [`MEMORY_RANGE`] allows.
pub const RESUME_WINDOW_MAX: u64 = MEMORY_RANGE.1;
/// Smallest and largest [`TcpTuning::buffer`], bytes: a window of a few packets, and what `tcp_mem` bears.
pub const TCP_BUFFER_RANGE: (u32, u32) = (4 << 10, 1 << 30);
/// Smallest and largest [`TransferOptions::packet_size`], data bytes. Below, headers outweigh data; the upper
/// bound is the largest UDP payload over IPv4 (65,507) less header and tag (28), rounded down.
pub const PACKET_SIZE_RANGE: (u16, u16) = (512, 65_000);

/// [`ServeOptions::queue_wait`] by default: enough for a burst of short copies.
pub const DEFAULT_QUEUE_WAIT: Duration = Duration::from_secs(10);
/// [`ServeOptions::drain`] by default: below what service managers allow (systemd: 90 s).
pub const DEFAULT_DRAIN: Duration = Duration::from_secs(30);

/// Everything a caller chooses about a `Server`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeOptions {
    /// TCP addresses to listen on, port 0 for any free one; UDP sockets bind to the same addresses.
    pub listen: Vec<SocketAddr>,
    /// The only directory that clients see, as their `/`.
    pub root: PathBuf,
    /// Refuse every write, whatever a key's rights are.
    pub read_only: bool,
    /// The file of client keys and their rights.
    pub authorized_keys: PathBuf,
    /// The server's identity file, made if it does not exist; `None` is the default one.
    pub identity: Option<PathBuf>,
    /// First and last UDP port of sessions; each has its own.
    pub udp_ports: (u16, u16),
    /// Most sessions at once; further clients wait.
    pub sessions_max: usize,
    /// How long a client waits for a session of a full server before it is refused and may try again.
    pub queue_wait: Duration,
    /// How long running sessions may go on after `ServerHandle::drain`.
    pub drain: Duration,
    /// Where the server's counters are served as OpenMetrics over HTTP (`/metrics`), to anyone who may
    /// connect.
    pub metrics: Option<SocketAddr>,
    /// Whether clients with the right to write may have the server pull from other daemons with a ticket.
    pub third_party: bool,
    /// Whether each file that is stored or sent has a line in the log.
    pub log_files: bool,
}

impl ServeOptions {
    /// A server of `root` on the default ports of all addresses, with the default limits.
    pub fn new(root: PathBuf, authorized_keys: PathBuf) -> ServeOptions {
        let (first, last) = DEFAULT_UDP_PORTS;
        ServeOptions {
            listen: vec![
                (Ipv4Addr::UNSPECIFIED, DEFAULT_TCP_PORT).into(),
                (Ipv6Addr::UNSPECIFIED, DEFAULT_TCP_PORT).into(),
            ],
            root,
            read_only: false,
            authorized_keys,
            identity: None,
            udp_ports: (first, last),
            sessions_max: usize::from(last - first) + 1,
            queue_wait: DEFAULT_QUEUE_WAIT,
            drain: DEFAULT_DRAIN,
            metrics: None,
            third_party: false,
            log_files: false,
        }
    }
}

/// A permission to pull from a daemon, once, and where that daemon is. Made by
/// `Call::ticket`.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedTicket {
    /// As the daemon signed it.
    pub text: String,
    /// Where it listens, as the session that asked reached it.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
    /// Its key.
    pub key: PublicKey,
}

impl fmt::Debug for SignedTicket {
    /// Without its text, which is a permission for anybody who reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedTicket({} port {}, {:?})", self.host, self.port, self.key)
    }
}

/// What `fobs server --restrict` allows a session over ssh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restriction {
    /// The only directory that the client sees, as its `/`.
    pub directory: PathBuf,
    /// What it may do there.
    pub rights: Rights,
}
