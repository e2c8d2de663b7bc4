//! Requests about files by name, and their answers, as messages (protocol 2.12).

use super::features::{FILES, NAMES, PICKED, TICKETS};
use crate::listing::{Entry, EntryKind, Link};
use crate::message::{Bytes, SecretText};
use crate::options::PickedNames;
use crate::text::printable;
use serde::{Deserialize, Serialize};

/// Entries of one answer: with the longest names a quarter of a megabyte.
pub const ENTRIES_MAX: usize = 500;
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
        /// Also what links lead to (protocol 2.15).
        #[serde(default, skip_serializing_if = "super::wire::is_default")]
        links: bool,
    },
    /// What a name stands for.
    Stat {
        /// The name.
        path: Bytes,
        /// Of a link the link itself, and what it leads to (protocol 2.15).
        #[serde(default, skip_serializing_if = "super::wire::is_default")]
        links: bool,
    },
    /// Everything below a directory (protocol 2.15).
    Walk {
        /// The directory.
        path: Bytes,
        /// Levels below it.
        depth: u32,
    },
    /// Another name for what has one (protocol 2.15).
    Rename {
        /// Its name.
        path: Bytes,
        /// The new one.
        to: Bytes,
        /// In place of what has that name.
        #[serde(default)]
        replace: bool,
    },
    /// A copy of a file (protocol 2.15).
    Copy {
        /// Its name.
        path: Bytes,
        /// That of the copy.
        to: Bytes,
        /// In place of what has that name.
        #[serde(default)]
        replace: bool,
    },
    /// The time of the last change is now (protocol 2.15).
    Touch {
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
        /// Only these names of the one directory that the ticket is for, as a sync keeps them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        picked: Option<Box<PickedNames>>,
    },
    /// The hashes of files and of their pieces (protocol 2.14).
    Hash {
        /// The files.
        paths: Vec<Bytes>,
        /// Length of a piece, bytes.
        piece: u64,
    },
    /// How much room there is where a name is, or would be made (protocol 2.20).
    Room {
        /// The name.
        path: Bytes,
    },
    /// An action of a newer version; refused.
    #[serde(other)]
    Unknown,
}

impl FileRequest {
    /// The path, of several the first one; empty for an unknown action.
    pub fn path(&self) -> &[u8] {
        match self {
            FileRequest::List { path, .. }
            | FileRequest::Stat { path, .. }
            | FileRequest::Walk { path, .. }
            | FileRequest::Rename { path, .. }
            | FileRequest::Copy { path, .. }
            | FileRequest::Touch { path }
            | FileRequest::Remove { path, .. }
            | FileRequest::Fetch { path, .. }
            | FileRequest::Room { path }
            | FileRequest::MakeDirectory { path, .. } => &path.0,
            FileRequest::Ticket { paths, .. } | FileRequest::Hash { paths, .. } => {
                paths.first().map_or(b"", |path| &path.0)
            }
            FileRequest::Unknown => b"",
        }
    }

    /// Whether it changes something.
    pub fn writes(&self) -> bool {
        match self {
            FileRequest::Remove { .. }
            | FileRequest::MakeDirectory { .. }
            | FileRequest::Fetch { .. }
            | FileRequest::Rename { .. }
            | FileRequest::Copy { .. }
            | FileRequest::Touch { .. } => true,
            FileRequest::List { .. }
            | FileRequest::Stat { .. }
            | FileRequest::Walk { .. }
            | FileRequest::Ticket { .. }
            | FileRequest::Hash { .. }
            | FileRequest::Room { .. }
            | FileRequest::Unknown => false,
        }
    }

    /// Whether its answer takes about a round trip, and not as long as bytes or entries take.
    pub fn is_short(&self) -> bool {
        match self {
            FileRequest::List { .. }
            | FileRequest::Stat { .. }
            | FileRequest::MakeDirectory { .. }
            | FileRequest::Rename { .. }
            | FileRequest::Touch { .. }
            | FileRequest::Room { .. }
            | FileRequest::Remove { tree: false, .. } => true,
            FileRequest::Remove { tree: true, .. }
            | FileRequest::Walk { .. }
            | FileRequest::Copy { .. }
            | FileRequest::Ticket { .. }
            | FileRequest::Fetch { .. }
            | FileRequest::Hash { .. }
            | FileRequest::Unknown => false,
        }
    }

    /// The feature that a server needs for it. One that does not know an action refuses it by name, but a
    /// member that it does not know it passes over.
    pub fn feature(&self) -> &'static str {
        match self {
            FileRequest::Fetch { picked: Some(_), .. } => PICKED,
            FileRequest::Ticket { .. } | FileRequest::Fetch { .. } => TICKETS,
            FileRequest::List { links, .. } | FileRequest::Stat { links, .. } if *links => NAMES,
            FileRequest::Walk { .. }
            | FileRequest::Rename { .. }
            | FileRequest::Copy { .. }
            | FileRequest::Touch { .. } => NAMES,
            _ => FILES,
        }
    }

    /// For the log.
    pub fn describe(&self) -> String {
        let verb = match self {
            FileRequest::List { .. } => "list",
            FileRequest::Stat { .. } => "stat",
            FileRequest::Walk { .. } => "walk",
            FileRequest::Rename { .. } => "rename",
            FileRequest::Copy { .. } => "copy",
            FileRequest::Touch { .. } => "touch",
            FileRequest::Remove { tree: false, .. } => "remove",
            FileRequest::Remove { tree: true, .. } => "remove tree",
            FileRequest::MakeDirectory { .. } => "make directory",
            FileRequest::Ticket { .. } => "give a ticket for",
            FileRequest::Fetch { .. } => "fetch with a ticket into",
            FileRequest::Hash { .. } => "hash",
            FileRequest::Room { .. } => "ask for the room at",
            FileRequest::Unknown => return "unknown request".to_owned(),
        };
        let shown = |path: &[u8]| printable(&crate::text::show(path), SHOWN_MAX);
        match self {
            FileRequest::Rename { path, to, .. } | FileRequest::Copy { path, to, .. } => {
                format!("{verb} '{}' to '{}'", shown(&path.0), shown(&to.0))
            }
            _ => format!("{verb} '{}'", shown(self.path())),
        }
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
    /// Number by which its file system knows it.
    #[serde(default, skip_serializing_if = "super::wire::is_default")]
    pub inode: u64,
    /// Text of a link, where links were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Bytes>,
    /// What the link leads to, if it leads anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<Box<WireEntry>>,
}

impl WireEntry {
    /// A file of which nothing but its name is known.
    pub fn named(name: Vec<u8>) -> WireEntry {
        WireEntry {
            name: Bytes(name),
            kind: WireKind::File,
            size: 0,
            mtime_s: 0,
            mtime_ns: 0,
            mode: 0,
            root: None,
            inode: 0,
            text: None,
            leads_to: None,
        }
    }
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
        let Entry { name, size, mtime_s, mtime_ns, mode, root, inode, link, .. } = entry;
        let root = root.map(|root| Bytes(root.to_vec()));
        let (text, leads_to) = link.map_or((None, None), |link| {
            (Some(Bytes(link.text)), link.leads_to.map(|entry| Box::new(WireEntry::from(*entry))))
        });
        WireEntry { name: Bytes(name), kind, size, mtime_s, mtime_ns, mode, root, inode, text, leads_to }
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
        let WireEntry { name, size, mtime_s, mtime_ns, mode, root, inode, text, leads_to, .. } = entry;
        let root = root.and_then(|root| root.0.try_into().ok());
        let (mtime_ns, mode) = (mtime_ns % 1_000_000_000, mode & 0o7777);
        let leads_to = leads_to.map(|entry| {
            // What a link leads to is no link, so nothing is nested deeper.
            Box::new(Entry::from(WireEntry { text: None, leads_to: None, ..*entry }))
        });
        let link = text.map(|text| Link { text: text.0, leads_to });
        Entry { name: name.0, kind, size, mtime_s, mtime_ns, mode, root, inode, link }
    }
}
