//! Requests about files by name, and their answers, as messages (protocol 2.12).

use super::message::{Bytes, SecretText};
use super::printable;
use crate::listing::{Entry, EntryKind};
use serde::{Deserialize, Serialize};

/// Entries of one answer: with the longest names a quarter of a megabyte.
pub(crate) const ENTRIES_MAX: usize = 500;
/// Characters of a path in a log or an error.
const SHOWN_MAX: usize = 200;

/// What a client asks about files by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum FileRequest {
    /// What a directory holds.
    List {
        /// The directory.
        path: Bytes,
    },
    /// What a name stands for.
    Stat {
        /// The name.
        path: Bytes,
    },
    /// Remove a file, a link or an empty directory.
    Remove {
        /// Its name.
        path: Bytes,
        /// With everything in it, where it is a directory.
        #[serde(default)]
        tree: bool,
    },
    /// Make a directory.
    MakeDirectory {
        /// Its name.
        path: Bytes,
        /// Also those above it, and none where it exists.
        #[serde(default)]
        parents: bool,
    },
    /// A ticket to read paths, for another client (protocol 2.13).
    Ticket {
        /// The paths.
        paths: Vec<Bytes>,
        /// Most file bytes.
        size: u64,
        /// For how long, seconds.
        life_s: u64,
        /// The only key that may use it, 32 bytes.
        #[serde(default)]
        holder: Option<Bytes>,
    },
    /// The server is to pull with a ticket, into a directory of its own.
    Fetch {
        /// The directory.
        path: Bytes,
        /// The ticket.
        ticket: SecretText,
        /// Where the server that signed it listens.
        host: String,
        /// Its TCP port.
        port: u16,
        /// Its key, 32 bytes.
        key: Bytes,
    },
    /// The hashes of files and of their pieces (protocol 2.14).
    Hash {
        /// The files.
        paths: Vec<Bytes>,
        /// Length of a piece, bytes.
        piece: u64,
    },
    /// An action of a newer version; refused.
    #[serde(other)]
    Unknown,
}

impl FileRequest {
    /// The path, of several the first one; empty for an unknown action.
    pub fn path(&self) -> &[u8] {
        match self {
            FileRequest::List { path }
            | FileRequest::Stat { path }
            | FileRequest::Remove { path, .. }
            | FileRequest::Fetch { path, .. }
            | FileRequest::MakeDirectory { path, .. } => &path.0,
            FileRequest::Ticket { paths, .. } | FileRequest::Hash { paths, .. } => {
                paths.first().map_or(b"", |path| &path.0)
            }
            FileRequest::Unknown => b"",
        }
    }

    /// Whether it changes something.
    pub fn writes(&self) -> bool {
        matches!(
            self,
            FileRequest::Remove { .. } | FileRequest::MakeDirectory { .. } | FileRequest::Fetch { .. }
        )
    }

    /// For the log.
    pub fn describe(&self) -> String {
        let verb = match self {
            FileRequest::List { .. } => "list",
            FileRequest::Stat { .. } => "stat",
            FileRequest::Remove { tree: false, .. } => "remove",
            FileRequest::Remove { tree: true, .. } => "remove tree",
            FileRequest::MakeDirectory { .. } => "make directory",
            FileRequest::Ticket { .. } => "give a ticket for",
            FileRequest::Fetch { .. } => "fetch with a ticket into",
            FileRequest::Hash { .. } => "hash",
            FileRequest::Unknown => return "unknown request".to_owned(),
        };
        format!("{verb} '{}'", printable(&crate::storage::show_path(self.path()), SHOWN_MAX))
    }
}

/// An [`Entry`] in a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireEntry {
    /// Last component of its path.
    pub name: Bytes,
    /// What it is.
    pub kind: WireKind,
    /// Bytes.
    pub size: u64,
    /// Seconds since 1970.
    pub mtime_s: i64,
    /// Nanoseconds after that.
    #[serde(default)]
    pub mtime_ns: u32,
    /// Permission bits.
    #[serde(default)]
    pub mode: u32,
    /// BLAKE3 of a file that was fetched or hashed, 32 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Bytes>,
}

/// An [`EntryKind`] in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Anything else, and a kind of a newer version.
    #[serde(other)]
    Other,
}

impl From<Entry> for WireEntry {
    fn from(entry: Entry) -> WireEntry {
        let kind = match entry.kind {
            EntryKind::File => WireKind::File,
            EntryKind::Directory => WireKind::Directory,
            EntryKind::Link => WireKind::Link,
            EntryKind::Other => WireKind::Other,
        };
        let Entry { name, size, mtime_s, mtime_ns, mode, root, .. } = entry;
        let root = root.map(|root| Bytes(root.to_vec()));
        WireEntry { name: Bytes(name), kind, size, mtime_s, mtime_ns, mode, root }
    }
}

impl From<WireEntry> for Entry {
    fn from(entry: WireEntry) -> Entry {
        let kind = match entry.kind {
            WireKind::File => EntryKind::File,
            WireKind::Directory => EntryKind::Directory,
            WireKind::Link => EntryKind::Link,
            WireKind::Other => EntryKind::Other,
        };
        let WireEntry { name, size, mtime_s, mtime_ns, mode, root, .. } = entry;
        let root = root.and_then(|root| root.0.try_into().ok());
        let (mtime_ns, mode) = (mtime_ns % 1_000_000_000, mode & 0o7777);
        Entry { name: name.0, kind, size, mtime_s, mtime_ns, mode, root }
    }
}
