//! What a server says of a file by its name: [`Entry`].

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
    /// BLAKE3 of the content, of a file that was fetched or hashed.
    pub root: Option<[u8; 32]>,
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

impl Entry {
    /// The time of the last change; `None` where this host has no such time.
    pub fn modified(&self) -> Option<SystemTime> {
        let seconds = Duration::from_secs(self.mtime_s.unsigned_abs());
        let second = match self.mtime_s < 0 {
            true => SystemTime::UNIX_EPOCH.checked_sub(seconds),
            false => SystemTime::UNIX_EPOCH.checked_add(seconds),
        };
        second?.checked_add(Duration::from_nanos(self.mtime_ns.into()))
    }
}
