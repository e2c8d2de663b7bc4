//! The messages of the control channel (protocol 2.2 to 2.5): JSON objects with a `type`, unknown ones
//! ignored. Where JSON has a value for "none" (0, an empty text), `wire` replaces it by `None`.

mod check;
pub mod features;
pub mod files;
mod open;
pub mod pipe;
mod wire;

use crate::cause::{LossWindow, Remedy};
use crate::deltas::{Literal, Matched};
use crate::event::OtherEntries;
use crate::host_facts::HostFacts;
use crate::mode::ModeChange;
use crate::route::WayChange;
use crate::sample::{ReceiverSample, SenderSample};
use crate::steer::Wanted;
use crate::storage::StorageUse;
pub use features::*;
pub use files::{FileRequest, WireEntry};
pub use open::{
    Accept, ByteRange, HostPort, LanesAsk, LanesGrant, LateLanesOffer, Open, Resuming, Reuse, Sending,
};
pub use pipe::{PipeEnd, PipeKeep, PipeNews, PipeOpen, PipeRequest, PipeResume, PipeTicket};
use serde::{Deserialize, Serialize};

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
    /// Receiver: pieces of a file that stands where that of a row is to come (protocol 7.9).
    Basis {
        /// Number of the row.
        row: u64,
        /// Bytes of the file before them.
        first: u64,
        /// How long pieces are on average, as a power of two.
        average: u8,
        /// Bytes of a name.
        names: u8,
        /// Whether they are at multiples of one length, and named alone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_place: bool,
        /// Length and name of each.
        pieces: Bytes,
        /// Whether no more follow.
        last: bool,
    },
    /// Sender: how do short pieces cut a part of such a file (protocol 7.9)?
    Closer {
        /// Number of the row.
        row: u64,
        /// Bytes of the file before the part.
        from: u64,
        /// Bytes of the part.
        len: u64,
        /// How long pieces are on average, as a power of two, if they are not short.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        average: Option<u8>,
        /// Whether they are at multiples of one length.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_place: bool,
    },
    /// Receiver: so.
    Pieces {
        /// As it was asked.
        row: u64,
        /// As it was asked.
        from: u64,
        /// How long pieces are on average, as a power of two.
        average: u8,
        /// Bytes of a name.
        names: u8,
        /// As it was asked.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_place: bool,
        /// Length and name of each.
        pieces: Bytes,
    },
    /// Sender: whether it looks for what is listed from now on (protocol 7.9); at first it does.
    Lists {
        /// Whether it does.
        wanted: bool,
    },
    /// Receiver: do the sources have something at a path (protocol 7.8)?
    HasPath {
        /// The path within the transfer.
        path: Bytes,
    },
    /// Sender: so, or not.
    PathThere {
        /// Whether they do, or may.
        there: bool,
    },
    /// Receiver: this chunk, laid out for the `attempt`-th time, did not verify.
    Rejected {
        /// Chunk number.
        chunk: u32,
        /// The attempt that failed, from 0.
        attempt: u8,
    },
    /// Receiver: likewise, of a session of several lanes (protocol 13).
    LaneRejected {
        /// The lane, from 0.
        lane: u8,
        /// Its number of the chunk.
        chunk: u32,
        /// The attempt that failed, from 0.
        attempt: u8,
    },
    /// Client: the session is to have one more lane (protocol 13.7).
    LaneWanted {
        /// Its number, that of the lanes so far.
        lane: u8,
        /// Push, for the first that is added: the first chunk that is a lane's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u32>,
    },
    /// Server: the lane that was asked for, or none.
    LaneAdded {
        /// As it was asked.
        lane: u8,
        /// The UDP port of the server's socket; none if there is no such lane.
        #[serde(default, with = "wire::default_is_none", skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// Pull, for the first that is added: the first chunk that is a lane's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u32>,
    },
    /// Client, of a pull: it takes chunks of lanes now.
    LaneReady {
        /// As it was added.
        lane: u8,
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
    /// Receiver: a directory that it would have deleted stays, because something in it does.
    NotEmpty {
        /// Path within the transfer.
        path: Bytes,
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
    /// Either side, a few times a second while there is reason: why nothing new is verified (protocol 5.2).
    Pulse(Pulse),
    /// Receiver, a client: its user changes how the server sends (protocol 2.10).
    Steer(Wanted),
    /// Sender: data takes another way; likewise.
    Way(WayChange),
    /// Sender: its own counters, a few times a second and at the end.
    SenderSample(Box<SenderSample>),
    /// Receiver: likewise.
    ReceiverSample(Box<ReceiverSample>),
    /// Server: how many streams over TCP should be open at once; only the client can make them.
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
    /// Client, in place of its request: a pipe between two programs (protocol 2.18).
    Pipe(PipeOpen),
    /// Either side of a pipe: what happened at its end.
    PipeNews(PipeNews),
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
        /// How it ends a sync, where the code does not say that: a name of [`crate::error::SyncEnd`].
        #[serde(default, skip_serializing_if = "String::is_empty")]
        sync: String,
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

/// Why a side has nothing new to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pulse {
    /// What it has read to compare it, bytes: more than before is something new.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub looked: u64,
    /// A client's own user holds it up: has paused it, or is the other end of its pipe.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub held_up: bool,
}

/// What only the sender knows of a running transfer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// File bytes known so far.
    pub bytes: u64,
    /// Whether that is final.
    pub scan_complete: bool,
    /// Smoothed RTT, ms; `None` before the first answer.
    #[serde(with = "crate::json::known")]
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
    /// File bytes that came from what the receiver had (protocol 7.9).
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub matched_bytes: u64,
    /// Likewise, by the file that they came from.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub matched: Matched,
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
    /// How large files were written.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub written: Vec<StorageUse>,
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
    #[serde(with = "crate::json::known")]
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
    /// File bytes that were sent, by the reason, where deltas were possible (protocol 7.9).
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub literal: Literal,
    /// A sentence about each lane, where there were several (protocol 13).
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub lanes: Vec<String>,
    /// How large files were read.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub read: Vec<StorageUse>,
}

/// One message a line, of every kind; without the newer members as version 0.1 sent it.
#[cfg(any(test, feature = "testing"))]
pub const RECORDED: &str = include_str!("message/recorded.jsonl");

#[cfg(test)]
mod tests;
