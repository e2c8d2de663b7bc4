//! Events and figures of a transfer.

use crate::deltas::DeltaFigures;
use crate::error::Error;
use crate::json;
use crate::measured::Measured;
use crate::storage::Storage;
use crate::walls::Walls;
use serde::{Deserialize, Serialize};

/// What a control channel goes through, in a word.
pub mod control {
    /// ssh.
    pub const SSH: &str = "ssh";
    /// TLS 1.3 to a daemon.
    pub const TLS: &str = "tls";
    /// The pipes of another program: this one again, in a copy within one host, or that of `-e`.
    pub const PIPE: &str = "pipe";
}

/// Something that happened in a running transfer or server; delivered through [`EventSink`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The session is set up; data may flow from here on.
    Started {
        /// A word of [`control`].
        control: &'static str,
        /// How the keys of `tls` were exchanged, such as `X25519MLKEM768`; those of `ssh` are its own.
        key_exchange: Option<&'static str>,
        /// What data begins on: `udp`, `tcp`, or `channel` for the control channel; `control` for a small
        /// object that is in a message of it.
        transport: &'static str,
        /// `AES-128-GCM` or `ChaCha20-Poly1305`; empty where nothing is sealed for itself.
        cipher: &'static str,
        /// Name of the congestion controller.
        cc: &'static str,
        /// What this end's kernel keeps the session to, where it stores files.
        walls: Option<Walls>,
    },
    /// Progress, five times a second.
    Progress(Progress),
    /// One file is verified and (on the receiving side) in place.
    FileDone(FileDone),
    /// One file failed; the others go on.
    FileFailed(FileError),
    /// A sync has decided on an entry. Only where its report is asked for.
    Changed {
        /// What changes, as the eleven characters of rsync's `--itemize-changes`.
        changes: String,
        /// Path within the transfer, raw bytes.
        path: Vec<u8>,
        /// Whether it is a directory.
        directory: bool,
        /// The target of a symbolic link, or the first name of a hard link.
        target: Option<Vec<u8>>,
        /// What it is at the source.
        facts: EntryFacts,
    },
    /// A sync has deleted something at the destination, or would have.
    Deleted {
        /// Path within the transfer, raw bytes.
        path: Vec<u8>,
        /// Whether it is a directory.
        directory: bool,
    },
    /// A sync would have deleted a directory, or put something else in its place, and it keeps what is in it.
    NotEmpty {
        /// Path within the transfer, raw bytes.
        path: Vec<u8>,
    },
    /// Directories were made for the destination of a sync, or would have been.
    DestinationMade(DirectoriesMade),
    /// `--remove-source-files` has removed a file or link at this end, whose receiver has it.
    SourceRemoved {
        /// Path within the transfer, raw bytes.
        path: Vec<u8>,
    },
    /// A sample of either end's counters (ten times a second for this end, fewer for the other one), a window
    /// of losses with its cause, a remedy against losses at the receiver, or a change of the controller's
    /// mode. An `explain::Recorder` turns them into an explanation.
    Measured(Box<Measured>),
    /// One line for a person: a key pinned on first use, a deadline that cannot be met, a server's log.
    Notice(String),
}

/// Directories that were made for a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectoriesMade {
    /// How many: those above it, and itself.
    pub count: u32,
    /// Whether the destination itself is among them, and not only what lies above it.
    pub itself: bool,
}

/// What an entry of a sync is at its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryFacts {
    /// Bytes of a file, of a link's target, or of a directory itself; 0 where it is not known.
    pub size: u64,
    /// Its type and permissions, as `stat` has them.
    pub mode: u32,
    /// Its modification, seconds since 1970.
    pub mtime_s: i64,
    /// Number of its owner, where that is kept.
    pub owner: Option<u32>,
    /// Number of its group, where that is kept.
    pub group: Option<u32>,
    /// Whether the destination has it as it is, or nothing comes of it for another reason.
    pub unchanged: bool,
    /// The rule of the sync by which it is left out, if one is known to.
    pub left_out: Option<LeftOut>,
}

/// Why a sync leaves an entry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// It lies in something that is left out, or nothing is said of it.
    Silently,
    /// It is not at the destination (`--existing`).
    Absent,
    /// It is at the destination (`--ignore-existing`).
    Exists(Likeness),
    /// Its size (`--max-size`, `--min-size`).
    BySize,
    /// What the destination has is newer (`--update`).
    Newer,
    /// It is a link that leads out of the tree (`--safe-links`).
    Unsafe,
}

/// How like the source is what stands in an entry's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// The other end does not say.
    Unknown,
    /// It is something else, such as a directory in a file's place.
    OtherType,
    /// Its content seems to be another one.
    OtherContent,
    /// What is kept beside the content differs.
    OtherAttributes,
    /// Nothing differs.
    Same,
}

/// A file that was read to its end, or stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileDone {
    /// Path within the transfer, raw bytes.
    #[serde(flatten, with = "json::path")]
    pub path: Vec<u8>,
    /// Size in bytes.
    pub bytes: u64,
    /// BLAKE3 of the content.
    #[serde(with = "json::hex")]
    pub root: [u8; 32],
}

/// A file that was not moved.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileError {
    /// Path within the transfer, raw bytes.
    #[serde(flatten, with = "json::path")]
    pub path: Vec<u8>,
    /// One sentence.
    pub message: String,
}

impl FileError {
    /// What the message begins with of an entry that was listed and then gone. Both ends know it by this
    /// (protocol 7.5).
    pub const VANISHED: &str = "file has vanished: ";

    /// Whether the entry was listed, and gone when it was to be read.
    pub fn has_vanished(&self) -> bool {
        self.message.starts_with(FileError::VANISHED)
    }

    /// Whether a device or a limit did not take what was to be written: more files will fail so.
    pub fn device_failed(&self) -> bool {
        const REASONS: &[&str] =
            &["No space left on device", "Disk quota exceeded", "Input/output error", "File too large"];
        let reason = crate::error::reason_of(&self.message);
        self.message.starts_with("cannot write '") && REASONS.iter().any(|known| reason.starts_with(known))
    }
}

/// A snapshot of a running transfer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Path of the file last completed, raw bytes; `None` before the first.
    #[serde(flatten, with = "json::path_or_empty")]
    pub path: Option<Vec<u8>>,
    /// File bytes verified so far.
    pub bytes: u64,
    /// File bytes known so far (the scan may still run).
    pub bytes_known: u64,
    /// Whether `bytes_known` is final.
    pub scan_complete: bool,
    /// Files complete so far.
    pub files: u64,
    /// Verified file bits per second, smoothed.
    #[serde(serialize_with = "json::finite")]
    pub rate_bps: f64,
    /// Smoothed round-trip time, ms; `None` until it is known.
    #[serde(with = "json::known")]
    pub rtt_ms: Option<f64>,
    /// Share of packets lost so far.
    #[serde(serialize_with = "json::finite")]
    pub loss_rate: f64,
    /// (packets sent - packets needed) / packets needed, so far.
    #[serde(serialize_with = "json::finite")]
    pub waste: f64,
    /// TCP connections that carry data now.
    pub streams: u32,
}

/// The figures of a finished transfer: the `done` line of `--json`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// File bytes verified, those of earlier runs included.
    pub bytes: u64,
    /// File bytes that were not sent, because an earlier run had stored and verified them.
    pub resumed_bytes: u64,
    /// File bytes that were not sent, because the receiver had them in the file that was there.
    #[serde(skip_serializing_if = "json::is_default")]
    pub matched_bytes: u64,
    /// Where these were, and why the others were sent; nothing where deltas were not possible.
    #[serde(skip_serializing_if = "json::is_default")]
    pub deltas: DeltaFigures,
    /// Files complete.
    pub files: u64,
    /// What else is in place.
    #[serde(flatten)]
    pub others: OtherEntries,
    /// Duration of the data phase, seconds: from the first data packet to the last verified chunk.
    #[serde(serialize_with = "json::finite")]
    pub seconds: f64,
    /// Duration from the start of the transfer to its end, seconds.
    #[serde(serialize_with = "json::finite")]
    pub seconds_total: f64,
    /// `(bytes - resumed_bytes) * 8 / seconds`, bits per second.
    #[serde(serialize_with = "json::finite")]
    pub goodput_bps: f64,
    /// Packets that the data needs without any loss.
    pub packets_needed: u64,
    /// Data packets sent.
    pub packets_sent: u64,
    /// (sent - needed) / needed.
    #[serde(serialize_with = "json::finite")]
    pub waste: f64,
    /// Seconds by which the deadline was met, below 0 if it was missed; none where there was no deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_margin_s: Option<f64>,
    /// Smallest RTT seen, ms; `None` without any answer.
    #[serde(with = "json::known")]
    pub rtt_ms_min: Option<f64>,
    /// Packets declared lost / packets sent.
    #[serde(serialize_with = "json::finite")]
    pub loss_rate: f64,
    /// Packets that the receiving kernel dropped at the socket.
    pub socket_drops: u64,
    /// Datagrams that were malformed, forged or replayed, at both ends; they are dropped.
    pub datagrams_rejected: u64,
    /// Data bytes per packet at the end.
    pub packet_size: u16,
    /// Name of the congestion control algorithm.
    pub cc: String,
    /// What carried most of the data: `udp`, `tcp`, or `channel` for the control channel; `control` for a
    /// small object of a `Session`, which is in a message.
    pub transport: String,
    /// Most TCP connections for data that were open at once.
    pub streams: u32,
    /// Cipher of the data plane; empty without one.
    pub cipher: String,
    /// Root of the transfer (protocol 7.6), hex.
    pub root: String,
    /// Peak resident memory of this process, bytes.
    pub max_rss_bytes: u64,
    /// CPU seconds of this process since the transfer began, those of other transfers meanwhile included.
    #[serde(serialize_with = "json::finite")]
    pub cpu_seconds: f64,
    /// The same of the other end's process, since its session began.
    #[serde(serialize_with = "json::finite")]
    pub cpu_seconds_peer: f64,
    /// Peak resident memory of the other end's process, bytes.
    pub max_rss_bytes_peer: u64,
    /// A sentence about each lane, where there were several, and about how many the next copy has, where that
    /// is another number.
    #[serde(skip_serializing_if = "json::is_default")]
    pub lanes: Vec<String>,
    /// How both ends read and wrote their large files: past the page cache or through it, and why.
    #[serde(skip_serializing_if = "json::is_default")]
    pub storage: Storage,
    /// What a sync left at the destination because its limit of deletions was reached.
    #[serde(skip_serializing_if = "json::is_default")]
    pub deletions_left: u64,
    /// Files that were not moved.
    pub errors: Vec<FileError>,
}

/// Entries that a transfer put in place beside files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OtherEntries {
    /// Directories, those that existed included.
    pub directories: u64,
    /// Symbolic links, and further names of files.
    pub links: u64,
    /// Devices, fifos and sockets.
    pub devices: u64,
}

/// Receives [`Event`]s. Closures are sinks.
///
/// It is called on the threads that do the work, several of them at once. Nothing is queued and nothing is
/// dropped: a sink that takes long slows the transfer down. One that must wait puts events into a bounded
/// queue of its own and decides what to drop when that is full; of [`Event::Progress`] and
/// [`Event::Measured`] later ones replace earlier ones.
///
/// While files are received, these threads can write below the destination only, where the kernel has
/// Landlock: a sink that opens other files to write them has a thread of its own do so.
///
/// ```
/// use fobs_model::event::{Event, EventSink};
/// use std::sync::{Arc, mpsc};
///
/// let (sender, events) = mpsc::sync_channel(256);
/// let sink: Arc<dyn EventSink> = Arc::new(move |event: Event| {
///     // A full queue drops the event.
///     let _ = sender.try_send(event);
/// });
/// # sink.event(Event::Notice("hello".to_owned()));
/// # assert!(matches!(events.recv(), Ok(Event::Notice(_))));
/// ```
pub trait EventSink: Send + Sync {
    /// Takes one event.
    fn event(&self, event: Event);
}

impl<F: Fn(Event) + Send + Sync> EventSink for F {
    fn event(&self, event: Event) {
        self(event);
    }
}

/// The outcome of a transfer: figures even where some files failed.
pub type Outcome = std::result::Result<Summary, Error>;
