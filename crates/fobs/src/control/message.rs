//! The messages of the control channel (protocol 2.2 to 2.5): JSON objects with a `type`, unknown ones ignored.

use crate::cause::{LossWindow, Remedy};
use crate::explain::{Measured, ReceiverSample, SenderSample};
use crate::mode::ModeChange;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The protocol version that we speak.
pub const PROTOCOL: u32 = 1;

/// Everything a control channel carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// Both sides, first.
    Hello(Hello),
    /// Client: what is wanted.
    Open(Open),
    /// Server: how to go on.
    Accept(Accept),
    /// Receiver: this chunk, laid out for the `attempt`-th time, did not verify.
    Rejected {
        /// Chunk number.
        chunk: u32,
        /// The attempt that failed, from 0.
        attempt: u8,
    },
    /// Either side: one file is given up, the rest goes on.
    Failed {
        /// Path within the transfer.
        path: Bytes,
        /// One sentence.
        reason: String,
    },
    /// Sender: where the transfer stands, a few times a second; for a receiving client's progress.
    Standing(Standing),
    /// Sender: a window of losses that it judged; for whoever watches at the other end.
    Loss(LossWindow),
    /// Either side: something was done so that the receiver loses less; likewise.
    Remedy(Remedy),
    /// Sender: its controller goes on in another way; for whoever watches at the other end.
    Mode(ModeChange),
    /// Sender: what it measured of itself, a few times a second and at the end.
    SenderSample(Box<SenderSample>),
    /// Receiver: likewise.
    ReceiverSample(Box<ReceiverSample>),
    /// Receiver: the completion signal.
    Complete(Complete),
    /// Sender: its figures, after the completion signal.
    Finished(Finished),
    /// Either side: the session is over.
    Abort {
        /// An [`crate::ErrorKind::code`].
        code: String,
        /// One sentence.
        message: String,
    },
    /// Something a newer peer says; ignored.
    #[serde(other)]
    Unknown,
}

impl From<Measured> for Message {
    fn from(measured: Measured) -> Message {
        match measured {
            Measured::Sender(sample) => Message::SenderSample(Box::new(sample)),
            Measured::Receiver(sample) => Message::ReceiverSample(Box::new(sample)),
            Measured::Loss(window) => Message::Loss(window),
            Measured::Remedy(remedy) => Message::Remedy(remedy),
            Measured::Mode(change) => Message::Mode(change),
        }
    }
}

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Protocol version.
    pub protocol: u32,
    /// Program name and version, for messages to people.
    pub program: String,
    /// Whether this CPU seals AES faster than ChaCha20.
    #[serde(default)]
    pub fast_aes: bool,
}

/// Which side sends the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client sends.
    Push,
    /// The server sends.
    Pull,
}

/// What the client wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// Which way.
    pub direction: Direction,
    /// Pull: the sources. Push: the one destination.
    pub paths: Vec<Bytes>,
    /// `-r`.
    pub recursive: bool,
    /// `-p`.
    pub preserve: bool,
    /// `-C`.
    pub compress: bool,
    /// `--fsync`, for a server that receives.
    #[serde(default)]
    pub fsync: bool,
    /// Data bytes per packet; 0 probes the path.
    pub payload_size: u16,
    /// Packets between acks; 0 is the receiver's default.
    pub ack_every: u32,
    /// Push: what the sources look like, so that the receiver can place them.
    #[serde(default)]
    pub shape: SourceShape,
    /// Pull: how the server shall send.
    #[serde(default)]
    pub sending: Sending,
    /// The UDP ports the server may bind; its own choice if none.
    #[serde(default)]
    pub udp_ports: Option<(u16, u16)>,
}

/// What the receiver must know of the sources before the first record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceShape {
    /// How many sources were named.
    pub sources: u32,
    /// Whether any of them was `dir/`: contents, not the directory itself.
    pub contents: bool,
    /// Whether the source is a stream (standard input) that has no name.
    pub stream: bool,
}

/// How the server sends when it is the sender.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// The name of a congestion controller (`fobs_proto::congestion::CongestionControl`).
    pub cc: String,
    /// Bits per second: the rate of `fixed`.
    #[serde(default)]
    pub fixed_bps: u64,
    /// Bits per second: the cap; 0 for none.
    #[serde(default)]
    pub limit_bps: u64,
    /// `--burst`; 0 for the default.
    #[serde(default)]
    pub burst: u32,
    /// `--loss-cause`; empty for the default.
    #[serde(default)]
    pub loss_cause: String,
    /// `--priority`; empty for the default.
    #[serde(default)]
    pub priority: String,
    /// `--deadline`: milliseconds from this message to it; 0 for none.
    #[serde(default)]
    pub deadline_ms: u64,
}

/// How the session goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    /// Where the server's UDP socket may be reached, best first; an empty host means the host the control channel reached.
    pub udp_addresses: Vec<(String, u16)>,
    /// 32 bytes, where the channel has no exporter.
    #[serde(default)]
    pub secret: Option<Bytes>,
    /// `AES-128-GCM` or `ChaCha20-Poly1305`.
    pub cipher: String,
    /// Pull: what the sources look like.
    #[serde(default)]
    pub shape: SourceShape,
    /// First chunk that the server, if it receives, has no room for.
    #[serde(default)]
    pub chunk_limit: u32,
}

/// What only the sender knows of a running transfer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// File bytes known so far.
    pub bytes: u64,
    /// Whether that is final.
    pub scan_complete: bool,
    /// Smoothed RTT, ms.
    pub rtt_ms: f64,
    /// Share of packets lost so far.
    pub loss_rate: f64,
    /// (sent - needed) / needed, so far.
    pub waste: f64,
    /// By how many seconds the deadline will be missed, if it will be as far as can be told.
    #[serde(default)]
    pub late_seconds: Option<f64>,
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
    /// Smallest RTT, ms.
    pub rtt_ms_min: f64,
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
}

/// Raw bytes, base64 in JSON: paths are of any bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Bytes).map_err(serde::de::Error::custom)
    }
}
