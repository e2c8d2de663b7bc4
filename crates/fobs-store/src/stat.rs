//! What is kept of a status.

use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

/// Nanoseconds in a second: a record's are below. Linux gives larger values a meaning of their own.
pub const NANOSECONDS: u32 = 1_000_000_000;

/// The mode and time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Meta {
    /// Permission bits, setuid, setgid and sticky among them (`st_mode & 0o7777`).
    pub mode: u32,
    /// Modification time, seconds since 1970.
    pub mtime_s: i64,
    /// Nanoseconds of the modification time.
    pub mtime_ns: u32,
}

/// The number of a device; 0, 0 for a fifo or socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// The mode and time of a file.
pub(super) fn meta(stat: &Stat) -> Meta {
    // A file system in user space may return any value.
    let mtime_ns = u32::try_from(stat.st_mtime_nsec).unwrap_or(0).min(NANOSECONDS - 1);
    Meta { mode: stat.st_mode & 0o7777, mtime_s: stat.st_mtime, mtime_ns }
}

/// The file type.
pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
