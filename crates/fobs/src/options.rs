//! What a caller may choose about a transfer.

use std::path::PathBuf;
use std::time::SystemTime;

pub use fobs_proto::congestion::{CongestionControl, Priority};
pub use fobs_proto::loss_cause::JudgeMethod;

/// Which way the caller wants bytes to move and between what. Parsed from the command line by the CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A path here, of any bytes. `-` is never this: see [`Location::Stdio`].
    Local(PathBuf),
    /// Standard input (as a source) or standard output (as a destination).
    Stdio,
    /// A path over there.
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
    /// The path there, raw bytes; empty means the home directory (SSH) or the root served (daemon).
    pub path: Vec<u8>,
}

/// The two ways to another host (protocol 2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// `host:path` or `ssh://`.
    Ssh,
    /// `fobs://`.
    Daemon,
}

/// `-4` / `-6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressFamily {
    /// Whatever resolves.
    #[default]
    Any,
    /// Only IPv4.
    V4,
    /// Only IPv6.
    V6,
}

/// How the system's `ssh` is run. Everything is handed on unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SshOptions {
    /// `-F`.
    pub config_file: Option<PathBuf>,
    /// `-J`.
    pub jump: Option<String>,
    /// `-o`, in order.
    pub options: Vec<String>,
    /// `-v` count.
    pub verbose: u8,
    /// The program, `ssh` if none.
    pub program: Option<PathBuf>,
}

/// Everything a caller may choose about one transfer. `Default` is what `fobs cp` does without flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferOptions {
    /// `-r`: directories too.
    pub recursive: bool,
    /// `-p`: modes and modification times.
    pub preserve: bool,
    /// `-C`: zstd each chunk where it helps.
    pub compress: bool,
    /// `--fsync`: have the receiver's device keep each file before it gets its name, and its name after.
    pub fsync: bool,
    /// `--cc`.
    pub congestion_control: CongestionControl,
    /// `--priority`: against whom `auto` gives way.
    pub priority: Priority,
    /// `--deadline`: when the copy should be complete. Until then `auto` takes what that needs and gives way while it can; `priority` is
    /// the most that it claims.
    pub deadline: Option<SystemTime>,
    /// `--loss-cause`: how losses are told to be the network's or the receiver's.
    pub loss_cause: JudgeMethod,
    /// `--rate` / `-l`: never send faster than this, bits per second of UDP payload.
    pub rate_limit: Option<u64>,
    /// `--ack-every`: new packets between acks.
    pub ack_every: Option<u32>,
    /// `--burst`: packets put out before acks are looked at.
    pub burst: Option<u32>,
    /// `--packet-size`: data bytes per packet; `None` probes the path.
    pub packet_size: Option<u16>,
    /// `--udp-ports`: inclusive range that the server binds in.
    pub udp_ports: Option<(u16, u16)>,
    /// `-4`/`-6`.
    pub address_family: AddressFamily,
    /// `-i`: SSH identity or FOBS identity file.
    pub identity: Option<PathBuf>,
    /// `-P`: the port, where the location names none.
    pub port: Option<u16>,
    /// `--fobs-path`: the program to run over there.
    pub fobs_path: String,
    /// How `ssh` is run.
    pub ssh: SshOptions,
    /// Where servers' keys are pinned; the default file if none.
    pub known_hosts: Option<PathBuf>,
}

impl Default for TransferOptions {
    fn default() -> Self {
        TransferOptions {
            recursive: false,
            preserve: false,
            compress: false,
            fsync: false,
            congestion_control: CongestionControl::Auto,
            priority: Priority::Fair,
            deadline: None,
            loss_cause: JudgeMethod::On,
            rate_limit: None,
            ack_every: None,
            burst: None,
            packet_size: None,
            udp_ports: None,
            address_family: AddressFamily::Any,
            identity: None,
            port: None,
            fobs_path: "fobs".to_owned(),
            ssh: SshOptions::default(),
            known_hosts: None,
        }
    }
}

/// TCP port of the daemon where none is given. Unassigned by IANA as far as we know.
pub const DEFAULT_TCP_PORT: u16 = 45600;
/// UDP ports a server binds its sessions in, one each: small, so that a firewall rule is one line.
pub const DEFAULT_UDP_PORTS: (u16, u16) = (45601, 45664);
/// Smallest and largest `--packet-size`, data bytes: below, headers outweigh data; above, UDP over IPv4 ends
/// (65,507 less the 28 bytes of header and tag).
pub const PACKET_SIZE_RANGE: (u16, u16) = (512, 65_000);

/// What `fobs serve` needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeOptions {
    /// Addresses to listen on (TCP); UDP sockets bind to the same addresses.
    pub listen: Vec<std::net::SocketAddr>,
    /// The only directory that clients see; their `/` is this.
    pub root: PathBuf,
    /// Refuse every write, whatever a key's rights are.
    pub read_only: bool,
    /// The file of client keys and their rights.
    pub authorized_keys: PathBuf,
    /// The server's identity file; the default file if none, made if it does not exist.
    pub identity: Option<PathBuf>,
    /// Where sessions' UDP sockets are bound.
    pub udp_ports: (u16, u16),
    /// Sessions at once; further ones are told to come back.
    pub sessions_max: usize,
}
