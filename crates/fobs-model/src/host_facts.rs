//! What an end finds out of itself.

use serde::{Deserialize, Serialize};

use crate::storage::Storage;
use crate::text::{printable, sane};
use crate::walls::Walls;

/// Longest text of the peer that is kept, characters, and most texts of one list.
const TEXT_CHARS_MAX: usize = 200;
const LIST_MAX: usize = 32;

/// One end, as it describes itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// Program name and version.
    pub program: String,
    /// What the program can do beyond the first version.
    pub features: Vec<String>,
    /// Release of the kernel.
    pub kernel: String,
    /// CPUs that the process may use.
    pub cpus: u32,
    /// Its clock when it answered, seconds since 1970.
    pub clock_s: f64,
    /// UDP sockets.
    pub sockets: SocketFacts,
    /// The network interface towards the other end; `None` if it is not known.
    pub interface: Option<InterfaceFacts>,
    /// How fast one core seals packets with each cipher.
    pub ciphers: Vec<CipherSpeed>,
    /// How fast one core hashes, bits per second.
    pub hash_bps: f64,
    /// How fast a session with itself carries data from memory to memory; `None` from an older version, and
    /// where none passes over the loopback interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<PacketSpeed>,
    /// The disk at the directory that was asked for.
    pub disk: DiskFacts,
    /// What a copy may hold there unless its user says otherwise; `None` from an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryFacts>,
    /// What the client's key allows there; `None` from an older version, and where no key limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyFacts>,
    /// What its kernel keeps sessions to; `None` from an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walls: Option<Walls>,
}

/// What the kernel grants a UDP socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketFacts {
    /// Buffer requested in each direction, bytes. The kernel grants up to twice that.
    pub requested: u64,
    /// Receive buffer granted, bytes.
    pub receive: u64,
    /// Send buffer granted, bytes.
    pub send: u64,
    /// `net.core.rmem_max`, bytes; `None` if it cannot be read.
    pub rmem_max: Option<u64>,
    /// `net.core.wmem_max`, bytes; likewise.
    pub wmem_max: Option<u64>,
    /// Whether the kernel cuts a burst into datagrams (GSO), tried over the loopback interface.
    pub segments: bool,
    /// Whether it merges datagrams that arrive (GRO), likewise.
    pub merges: bool,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterfaceFacts {
    /// Its name.
    pub name: String,
    /// Largest IP packet, bytes.
    pub mtu: Option<u32>,
    /// Line rate, Mbit/s; `None` if it is unknown, as for most virtual ones.
    pub speed_mbit: Option<u32>,
    /// Whether segmentation offload is on.
    pub segments: Option<bool>,
    /// Whether receive offload is on.
    pub merges: Option<bool>,
}

/// How fast one core seals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CipherSpeed {
    /// `AES-128-GCM` or `ChaCha20-Poly1305`.
    pub name: String,
    /// Bits per second.
    pub bps: f64,
}

/// How fast a host handles packets of an ordinary path: what a session with itself carried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PacketSpeed {
    /// Reading, sealing and sending, bits of data per second.
    pub send_bps: f64,
    /// Receiving, opening and verifying, likewise.
    pub receive_bps: f64,
    /// What its threads cost says of each end on such a host of its own; `None` from an older version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<ThreadLimit>,
}

/// How much memory there is for a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryFacts {
    /// Available to the process: in the host and its control groups, bytes.
    pub available: u64,
    /// What one more copy may hold, bytes.
    pub copy: u64,
}

/// What one thread limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadLimit {
    /// Bits of data per second.
    pub bps: f64,
    /// What it does.
    pub thread: String,
    /// Lanes with which other threads are next, and what those then allow; 1 where lanes do not help.
    pub lanes: u32,
    /// Likewise, bits of data per second.
    pub lanes_bps: f64,
}

/// What a key allows its client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyFacts {
    /// The right's name; empty where the user's file permissions decide.
    pub access: String,
    /// Whether the client may pull.
    pub may_pull: bool,
    /// Whether it may push.
    pub may_push: bool,
    /// Most that all its copies together move, bits per second.
    pub rate_bps: Option<u64>,
}

/// How fast the disk is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskFacts {
    /// A file was written and read there.
    Measured(DiskSpeed),
    /// It was not tried, or failed.
    Unmeasured {
        /// One sentence.
        reason: String,
    },
}

impl Default for DiskFacts {
    fn default() -> Self {
        DiskFacts::Unmeasured { reason: "it was not tried".to_owned() }
    }
}

/// Speeds of the disk at a directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskSpeed {
    /// The directory, as it was asked for.
    pub directory: String,
    /// Bytes written and read.
    pub bytes: u64,
    /// Writing with `fdatasync`, bits per second.
    pub write_bps: f64,
    /// Reading what the page cache was asked to forget, bits per second.
    pub read_bps: f64,
    /// Whether large files may be written past the page cache there; `None` from an older version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past_cache: Option<bool>,
    /// How a large file there is read and written, as tried; `None` from an older version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
}

impl HostFacts {
    /// The facts of a peer, bounded and safe to show.
    pub fn of_a_peer(self) -> HostFacts {
        let text = |text: String| printable(&text, TEXT_CHARS_MAX);
        HostFacts {
            program: text(self.program),
            features: self.features.into_iter().take(LIST_MAX).map(text).collect(),
            kernel: text(self.kernel),
            clock_s: sane(self.clock_s),
            interface: self
                .interface
                .map(|interface| InterfaceFacts { name: text(interface.name), ..interface }),
            ciphers: self
                .ciphers
                .into_iter()
                .take(LIST_MAX)
                .map(|speed| CipherSpeed { name: text(speed.name), bps: sane(speed.bps) })
                .collect(),
            hash_bps: sane(self.hash_bps),
            key: self.key.map(|key| KeyFacts { access: text(key.access), ..key }),
            packets: self.packets.map(|speed| PacketSpeed {
                send_bps: sane(speed.send_bps),
                receive_bps: sane(speed.receive_bps),
                apart: speed.apart.map(|limit| ThreadLimit {
                    bps: sane(limit.bps),
                    thread: text(limit.thread),
                    lanes: limit.lanes,
                    lanes_bps: sane(limit.lanes_bps),
                }),
            }),
            disk: match self.disk {
                DiskFacts::Measured(speed) => DiskFacts::Measured(DiskSpeed {
                    directory: text(speed.directory),
                    bytes: speed.bytes,
                    write_bps: sane(speed.write_bps),
                    read_bps: sane(speed.read_bps),
                    past_cache: speed.past_cache,
                    storage: speed.storage.map(|it| Storage::of_a_peer(&it.read, &it.written)),
                }),
                DiskFacts::Unmeasured { reason } => DiskFacts::Unmeasured { reason: text(reason) },
            },
            ..self
        }
    }
}
