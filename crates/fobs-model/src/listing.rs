//! What a server says of a file by its name: [`Entry`].

use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// A file, a directory or something else at the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The last component of its path, raw bytes; empty for the directory where names begin.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Size in bytes; of a directory, what its file system says.
    pub size: u64,
    /// Time of the last change: seconds since 1970, below 0 before it.
    pub mtime_s: i64,
    /// Nanoseconds after that second.
    pub mtime_ns: u32,
    /// Permission bits.
    pub mode: u32,
    /// Number by which its file system knows it; 0 from a server that does not tell.
    pub inode: u64,
    /// BLAKE3 of the content, of a file that was fetched or hashed.
    pub root: Option<[u8; 32]>,
    /// Of a link, where that was asked for.
    pub link: Option<Link>,
}

/// Where a symbolic link leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its text, raw bytes.
    pub text: Vec<u8>,
    /// What has that name; `None` where it leads nowhere, or out of what the server shows.
    pub leads_to: Option<Box<Entry>>,
}

/// What an [`Entry`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link: only in a listing, because a name stands for what a link leads to.
    Link,
    /// A device, a socket or a pipe.
    Other,
}

/// By what a file that is read in parts is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Bytes.
    pub size: u64,
    /// Time of the last change: seconds since 1970, below 0 before it.
    pub mtime_s: i64,
    /// Nanoseconds after that second.
    pub mtime_ns: u32,
    /// Number by which its file system knows it; 0 where it is not known.
    pub inode: u64,
}

impl FileStamp {
    /// Whether `now` is the same file, unchanged.
    pub fn fits(&self, now: &FileStamp) -> bool {
        let same = |a: &FileStamp| (a.size, a.mtime_s, a.mtime_ns);
        same(self) == same(now) && (self.inode == 0 || now.inode == 0 || self.inode == now.inode)
    }
}

impl Entry {
    /// By what the file is known again.
    pub fn stamp(&self) -> FileStamp {
        let Entry { size, mtime_s, mtime_ns, inode, .. } = *self;
        FileStamp { size, mtime_s, mtime_ns, inode }
    }

    /// The time of the last change; `None` where this host has no such time.
    pub fn modified(&self) -> Option<SystemTime> {
        let seconds = Duration::from_secs(self.mtime_s.unsigned_abs());
        let second = if self.mtime_s < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(seconds)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(seconds)
        };
        second?.checked_add(Duration::from_nanos(self.mtime_ns.into()))
    }
}
