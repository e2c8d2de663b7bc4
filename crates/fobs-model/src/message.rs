//! The messages of the control channel (protocol 2.2 to 2.5): JSON objects with a `type`, unknown ones
//! ignored. Where JSON has a value for "none" (0, an empty text), `wire` replaces it by `None`.

mod check;
pub mod features;
pub mod files;
mod wire;

use crate::cause::{LossWindow, Remedy};
use crate::direction::TransferDirection;
use crate::event::OtherEntries;
use crate::host_facts::HostFacts;
use crate::listing::FileStamp;
use crate::mode::ModeChange;
use crate::options::sync::SyncOptions;
use crate::route::WayChange;
use crate::sample::{ReceiverSample, SenderSample};
use crate::shape::SourceShape;
use crate::steer::Wanted;
pub use features::*;
pub use files::{FileRequest, WireEntry};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

pub use crate::bytes::{Bytes, SecretBytes, SecretText};

/// The oldest protocol version that we speak.
pub const PROTOCOL: u32 = 1;
/// The newest one.
pub const PROTOCOL_NEWEST: u32 = 1;

/// What paths are in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathRole {
    /// Sources: patterns and homes count.
    Sources,
    /// A destination: only a home counts.
    Destination,
}

/// Everything a control channel carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// Both sides, first.
    Hello(Hello),
    /// Client: its request.
    Open(Box<Open>),
    /// Server: the request is granted.
    Accept(Accept),
    /// Client, before its request: the server is to examine its host, and the disk at this directory.
    Examine {
        /// The directory.
        directory: Bytes,
    },
    /// Server: what it found.
    Examined(Box<HostFacts>),
    /// Client, in place of its request: something about files by name.
    Files(FileRequest),
    /// Server: what it found, perhaps in several messages; nothing where something was to be done.
    Answer {
        /// A part of what it found.
        entries: Vec<WireEntry>,
        /// Whether no more follow.
        last: bool,
    },
    /// Client, before its request: a ticket takes the place of its key's rights (protocol 2.13).
    Ticket {
        /// As the server signed it.
        ticket: SecretText,
    },
    /// Client, before its request: what do these paths stand for (protocol 2.9)?
    Expand {
        /// Paths with patterns or homes.
        paths: Vec<Bytes>,
        /// What they are in the request.
        role: PathRole,
    },
    /// Server: what they stand for, in order.
    Expanded {
        /// Paths for the request.
        paths: Vec<Bytes>,
    },
    /// Sender: a batch of the entries that it would send (protocol 7.8).
    Listing {
        /// Rows listed before.
        first: u64,
        /// The rows, compressed.
        entries: Bytes,
        /// Whether no more follow.
        last: bool,
    },
    /// Receiver: what is to happen to entries, in order.
    Decisions {
        /// Rows decided before.
        first: u64,
        /// The choices.
        choices: Bytes,
        /// Whether every row is decided.
        last: bool,
    },
    /// Receiver: this chunk, laid out for the `attempt`-th time, did not verify.
    Rejected {
        /// Chunk number.
        chunk: u32,
        /// The attempt that failed, from 0.
        attempt: u8,
    },
    /// Either side: one file failed, the others go on.
    Failed {
        /// Path within the transfer.
        path: Bytes,
        /// One sentence.
        reason: String,
    },
    /// Receiver: something for the user to know.
    Notice {
        /// One sentence.
        text: String,
    },
    /// Receiver: it deleted something that the sources do not have.
    Deleted {
        /// Path within the transfer.
        path: Bytes,
        /// Whether it was a directory.
        directory: bool,
    },
    /// Receiver: it left some that it would have deleted, because the limit of deletions was reached.
    DeletionsLeft {
        /// How many.
        count: u64,
    },
    /// Sender: its progress, a few times a second; for a receiving client's display.
    Standing(Standing),
    /// Sender: a window of losses and its cause; for display at the other end.
    Loss(LossWindow),
    /// Either side: a remedy against losses at the receiver; likewise.
    Remedy(Remedy),
    /// Sender: its controller changed its mode; likewise.
    Mode(ModeChange),
    /// Receiver, a client: its user changes how the server sends (protocol 2.10).
    Steer(Wanted),
    /// Sender: data takes another way; likewise.
    Way(WayChange),
    /// Sender: its own counters, a few times a second and at the end.
    SenderSample(Box<SenderSample>),
    /// Receiver: likewise.
    ReceiverSample(Box<ReceiverSample>),
    /// Server: so many streams over TCP should be open at once; only the client can make them.
    WantStreams {
        /// Their number; 0 asks for none.
        count: u32,
    },
    /// Client: a stream over TCP could not be made.
    StreamsFailed {
        /// One sentence.
        reason: String,
    },
    /// Receiver: the completion signal.
    Complete(Complete),
    /// Sender: its figures, after the completion signal.
    Finished(Finished),
    /// Either side, on a channel that is kept: its last message of this transfer (protocol 2.8).
    Over,
    /// Either side: the session is over.
    Abort {
        /// An [`crate::error::ErrorKind::code`].
        code: String,
        /// One sentence.
        message: String,
        /// Whether a server had no room: the same may succeed in some seconds.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        busy: bool,
    },
    /// A message of a newer version; ignored.
    #[serde(other)]
    Unknown,
}

/// The program at one end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The oldest protocol version that it speaks.
    pub protocol: u32,
    /// The newest one; `None` for the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<u32>,
    /// Program name and version, for messages to people.
    pub program: String,
    /// Whether this CPU seals AES faster than ChaCha20.
    #[serde(default)]
    pub fast_aes: bool,
    /// Names of what it can do beyond the first version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

impl Hello {
    /// The newest version that both sides speak.
    pub fn common_version(&self) -> Option<u32> {
        let common = PROTOCOL_NEWEST.min(self.newest.unwrap_or(self.protocol));
        (common >= PROTOCOL.max(self.protocol)).then_some(common)
    }

    /// Whether it is as the handshake of a server of this level told.
    pub fn keeps(&self, level: Level) -> bool {
        self.common_version().is_some() && level.features.iter().all(|feature| self.has(feature))
    }

    /// Whether the program can do something.
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|name| name == feature)
    }
}

/// What the client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// Which side sends the data.
    pub direction: TransferDirection,
    /// Pull: the sources. Push: the one destination. Raw bytes.
    #[serde(with = "crate::bytes::list")]
    pub paths: Vec<Vec<u8>>,
    /// `-r`.
    pub recursive: bool,
    /// `-p`.
    pub preserve: bool,
    /// `-C`.
    pub compress: bool,
    /// `--fsync`, for a server that receives.
    #[serde(default)]
    pub fsync: bool,
    /// Data bytes per packet; `None` probes the path.
    #[serde(with = "wire::default_is_none")]
    pub payload_size: Option<u16>,
    /// Packets between acks; `None` is the receiver's default.
    #[serde(with = "wire::default_is_none")]
    pub ack_every: Option<u32>,
    /// Push: the sources, so that the receiver can place them.
    #[serde(default, with = "wire::shape")]
    pub shape: Option<SourceShape>,
    /// How the sender is to send.
    #[serde(default)]
    pub sending: Sending,
    /// The UDP ports the server may bind, inclusive; its own choice if none.
    #[serde(default)]
    pub udp_ports: Option<(u16, u16)>,
    /// The session only tries the path: for so long, data of no file is sent to nowhere.
    #[serde(rename = "probe_ms", default, with = "wire::millis", skip_serializing_if = "Option::is_none")]
    pub probe: Option<Duration>,
    /// What an earlier attempt left, and what this one is to leave.
    #[serde(flatten)]
    pub resuming: Resuming,
    /// How long the server is to endure silence; its own choice if none.
    #[serde(rename = "timeout_ms", default, with = "wire::millis", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// A sync instead of a copy.
    #[serde(default, with = "wire::shared", skip_serializing_if = "Option::is_none")]
    pub sync: Option<Arc<SyncOptions>>,
    /// Data may go over streams as well as over UDP.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub streams: bool,
    /// What is asked of a server that keeps the channel.
    #[serde(flatten)]
    pub reuse: Reuse,
    /// Features that the server must have for what is asked; it refuses those that it does not know (protocol
    /// 2.16). Those of 0.2 are not among them: its servers know no such member.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub must: Vec<String>,
}

/// What a client may ask of a server with the feature [`REUSE`] (protocol 2.8).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// The client may open another transfer on this channel.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub keep: bool,
    /// Pull: only a part of the one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<ByteRange>,
    /// Push: the whole object, its only chunk.
    #[serde(default, with = "wire::bytes", skip_serializing_if = "Option::is_none")]
    pub object: Option<Vec<u8>>,
    /// Pull: an object of one chunk of at most this many bytes may come with the answer.
    #[serde(default, with = "wire::default_is_none", skip_serializing_if = "Option::is_none")]
    pub room: Option<u32>,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    /// Where it begins, bytes.
    pub start: u64,
    /// Its longest length, bytes: it ends with the file.
    pub len: u64,
    /// The file must end within the range.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub whole: bool,
    /// What the file must be throughout (protocol 2.15).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<FileStamp>,
}

/// How a transfer goes on after one that ended early.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resuming {
    /// The client wants a survey.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub survey: bool,
    /// Which command this is: the same when it reconnects. `None` where the client names none.
    #[serde(default, with = "wire::id", skip_serializing_if = "Option::is_none")]
    pub transfer_id: Option<[u8; 16]>,
    /// Push: the names of the sources in the transfer, for the receiver's journal; empty for contents.
    #[serde(default, with = "crate::bytes::list", skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<Vec<u8>>,
    /// `--no-partial`.
    #[serde(
        rename = "keep_partial",
        default,
        with = "wire::opposite",
        skip_serializing_if = "wire::is_default"
    )]
    pub no_partial: bool,
    /// `--append-verify`.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub append_verify: bool,
    /// `--checksum`.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub checksum: bool,
}

/// How the sender is to send. Names stay text: only a server that sends refuses those it does not know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// The name of a congestion controller (`fobs_proto::congestion::CongestionControl`).
    pub cc: String,
    /// The rate of `fixed`, bits per second.
    #[serde(default, with = "wire::default_is_none")]
    pub fixed_bps: Option<u64>,
    /// The highest rate, bits per second.
    #[serde(default, with = "wire::default_is_none")]
    pub limit_bps: Option<u64>,
    /// `--burst`, packets.
    #[serde(default, with = "wire::default_is_none")]
    pub burst: Option<u32>,
    /// `--loss-cause`.
    #[serde(default, with = "wire::default_is_none")]
    pub loss_cause: Option<String>,
    /// `--priority`.
    #[serde(default, with = "wire::default_is_none")]
    pub priority: Option<String>,
    /// `--deadline`: from this message to it.
    #[serde(rename = "deadline_ms", default, with = "wire::millis")]
    pub deadline: Option<Duration>,
    /// `--transport`.
    #[serde(default, with = "wire::default_is_none", skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// `--tcp-cc`.
    #[serde(default, with = "wire::default_is_none", skip_serializing_if = "Option::is_none")]
    pub tcp_cc: Option<String>,
    /// `--tcp-buffer`, bytes.
    #[serde(default, with = "wire::default_is_none", skip_serializing_if = "Option::is_none")]
    pub tcp_buffer: Option<u32>,
}

/// How the session goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    /// Where the server's UDP socket may be reached, best first.
    pub udp_addresses: Vec<HostPort>,
    /// Where it takes streams over TCP, best first; empty if it takes none.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub tcp_addresses: Vec<HostPort>,
    /// The session secret, 32 bytes; none where it is that of the channel's exporter.
    #[serde(default)]
    pub secret: Option<SecretBytes>,
    /// How keys follow from it (`KeySchedule::number`).
    #[serde(rename = "keys", default = "wire::first", skip_serializing_if = "wire::is_first")]
    pub key_schedule: u8,
    /// `AES-128-GCM` or `ChaCha20-Poly1305`.
    pub cipher: String,
    /// Pull: the sources.
    #[serde(default, with = "wire::shape")]
    pub shape: Option<SourceShape>,
    /// First chunk that the server, if it receives, has no room for.
    #[serde(default)]
    pub chunk_limit: u32,
    /// Push: the server found something of an earlier attempt, so the client is to list its entries.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub survey: bool,
    /// Push: the highest rate that the server stores at, bits per second.
    #[serde(default, with = "wire::default_is_none", skip_serializing_if = "Option::is_none")]
    pub limit_bps: Option<u64>,
    /// Push: the server could give files what the client asks for, and does not for this key.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub withholds: bool,
    /// Pull: the whole object, its only chunk; nothing else of the answer counts then.
    #[serde(default, with = "wire::bytes", skip_serializing_if = "Option::is_none")]
    pub object: Option<Vec<u8>>,
}

/// Where a socket may be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(String, u16)", into = "(String, u16)")]
pub struct HostPort {
    /// A host name or address; `None` is the host that the control channel reached.
    pub host: Option<String>,
    /// The port.
    pub port: u16,
}

/// What only the sender knows of a running transfer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// File bytes known so far.
    pub bytes: u64,
    /// Whether that is final.
    pub scan_complete: bool,
    /// Smoothed RTT, ms; `None` before the first answer.
    #[serde(with = "wire::zero_is_none")]
    pub rtt_ms: Option<f64>,
    /// Share of packets lost so far.
    pub loss_rate: f64,
    /// (sent - needed) / needed, so far.
    pub waste: f64,
    /// Seconds by which the deadline is expected to be missed; `None` if it is expected to be met.
    #[serde(default)]
    pub late_seconds: Option<f64>,
    /// TCP connections that carry data now.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub streams: u32,
}

/// The receiver's figures: the completion signal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Complete {
    /// Root of the transfer, hex.
    pub root: String,
    /// Files in place.
    pub files: u64,
    /// File bytes verified.
    pub bytes: u64,
    /// File bytes that were not sent, because an earlier attempt had verified them.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub resumed_bytes: u64,
    /// What else is in place; none from an older program.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub others: OtherEntries,
    /// From the arrival of the first data packet to the last verified chunk, seconds.
    pub seconds: f64,
    /// Datagrams the kernel dropped at the receiving socket.
    #[serde(default)]
    pub socket_drops: u64,
    /// Datagrams that were malformed, forged or replayed, at the receiver.
    #[serde(default)]
    pub datagrams_rejected: u64,
    /// CPU seconds of the receiving process.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// Peak resident memory of the receiving process, bytes.
    #[serde(default)]
    pub max_rss_bytes: u64,
}

/// The sender's figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Packets the object was cut into.
    pub packets_needed: u64,
    /// Data packets sent.
    pub packets_sent: u64,
    /// Data packets declared lost.
    pub packets_lost: u64,
    /// Smallest RTT, ms; `None` without any answer.
    #[serde(with = "wire::zero_is_none")]
    pub rtt_ms_min: Option<f64>,
    /// Data bytes per packet at the end.
    pub packet_size: u16,
    /// Name of the controller.
    pub cc: String,
    /// Datagrams that were malformed, forged or replayed, at the sender.
    #[serde(default)]
    pub datagrams_rejected: u64,
    /// CPU seconds of the sending process.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// Peak resident memory of the sending process, bytes.
    #[serde(default)]
    pub max_rss_bytes: u64,
    /// What carried most bytes: `udp`, `tcp` or `channel`; empty from a peer without streams.
    #[serde(default)]
    pub transport: String,
    /// Most TCP connections for data that were open at once.
    #[serde(default)]
    pub streams: u32,
    /// Bytes of the records of frames that left on streams.
    #[serde(default)]
    pub bytes_framed: u64,
}

/// One message a line, of every kind; without the newer members as version 0.1 sent it.
#[cfg(any(test, feature = "testing"))]
pub const RECORDED: &str = include_str!("message/recorded.jsonl");

#[cfg(test)]
mod tests;
