//! A client's request for a transfer, and the server's answer.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{SecretBytes, wire};
use crate::direction::TransferDirection;
use crate::event::DirectoriesMade;
use crate::listing::FileStamp;
use crate::options::sync::SyncOptions;
use crate::shape::SourceShape;

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
    /// `--cache`.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub cache: bool,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<Arc<SyncOptions>>,
    /// Data may go over streams as well as over UDP.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub streams: bool,
    /// Several lanes are to carry the data; an older server uses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<LanesAsk>,
    /// Lanes may be added while the session runs; an older server adds none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_lanes: Option<LateLanesOffer>,
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
    /// `--delta`.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub delta: bool,
}

/// The lanes that a client asks for (protocol 13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanesAsk {
    /// The path of each lane; paths are numbered from 0 on in the order of their first lanes.
    pub paths: Vec<u8>,
    /// Chunks of the object that the client, if it receives, holds from the oldest unverified one on.
    #[serde(default)]
    pub window: u32,
    /// The IP version of each path, 4 or 6, or 0 for that by which the client reached the server; empty if
    /// all are 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<u8>,
}

/// The lanes that a server has beside the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanesGrant {
    /// The UDP port of each.
    pub ports: Vec<u16>,
    /// As in [`LanesAsk`], of a server that receives.
    #[serde(default)]
    pub window: u32,
}

/// Lanes that may be added while a session runs (protocol 13.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateLanesOffer {
    /// How many, at most.
    pub most: u8,
    /// As in [`LanesAsk`], of the end that receives.
    #[serde(default)]
    pub window: u32,
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
    /// Push: directories that were made for the destination, or would be in a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<DirectoriesMade>,
    /// The lanes beside the first that the server has, at most as many as were asked for; none for one lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<LanesGrant>,
    /// Lanes that may be added, at most as many as were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_lanes: Option<LateLanesOffer>,
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

impl From<(String, u16)> for HostPort {
    fn from((host, port): (String, u16)) -> HostPort {
        HostPort { host: wire::given(host), port }
    }
}

impl From<HostPort> for (String, u16) {
    fn from(HostPort { host, port }: HostPort) -> (String, u16) {
        (host.unwrap_or_default(), port)
    }
}
