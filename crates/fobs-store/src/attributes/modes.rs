//! How modes and times are set, and names taken.

use std::os::fd::OwnedFd;

use fobs_model::options::Overwrite;
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, fstat};

use super::MODE_BITS;
use crate::stat::Meta;

/// The bit of a directory by which what is made in it has its group (inode(7)).
const SET_GROUP_ID: u32 = 0o2000;

/// How modes and times are set, and names taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keeping {
    pub(crate) modes: Modes,
    /// As at the source; else the time of writing.
    pub(crate) times: bool,
    /// What becomes of a name that is taken.
    pub(crate) overwrite: Overwrite,
    /// Whether a file that is there gets the source's executability where modes are not kept (`-E`).
    pub(crate) executability: bool,
}

/// The permissions of a file that is there, executable as the source is: by those who may read it.
pub(crate) fn executable_as(source: u32, there: u32) -> u32 {
    let there = there & 0o777;
    match (source & 0o111, there & 0o111) {
        (0, _) => there & !0o111,
        (_, 0) => there | (there & 0o444) >> 2,
        _ => there,
    }
}

/// How modes are set.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Modes {
    /// As at the source.
    Exact,
    /// Permissions reduced by the default ACL of the directory, or where it has none by this umask; no setuid
    /// or setgid; those of a file that is replaced.
    Ordinary {
        /// The process's umask.
        umask: u32,
    },
}

/// The mode of something that gets its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModeNow {
    /// It was made now.
    Made(Made),
    Unknown,
    /// It is not to change.
    Stays,
}

/// Something that was made now, and what its directory gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Made {
    /// Its mode, if it is known.
    pub(crate) mode: Option<u32>,
    /// The permissions that it may have, where they are not those of the source.
    pub(crate) allowed: u32,
    /// Bits that it keeps then: the set-gid bit of a directory, by which what is in it has its group.
    pub(crate) inherited: u32,
}

impl ModeNow {
    /// The same of a directory, with what it has of the one that it is in.
    pub(crate) fn inheriting(self, directory: &OwnedFd) -> ModeNow {
        match (self, fstat(directory)) {
            (ModeNow::Made(made), Ok(stat)) => ModeNow::Made(Made {
                mode: Some(stat.st_mode & MODE_BITS),
                inherited: stat.st_mode & SET_GROUP_ID,
                ..made
            }),
            (now, _) => now,
        }
    }
}

/// Sets the modification time, not the access time.
pub(crate) fn timestamps(meta: Meta) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: meta.mtime_s, tv_nsec: meta.mtime_ns.into() },
    }
}

/// Likewise, and an access time where there is one.
pub(crate) fn with_access_time(meta: Meta, accessed: Option<(i64, u32)>) -> Timestamps {
    let times = timestamps(meta);
    match accessed {
        Some((tv_sec, nanoseconds)) => {
            Timestamps { last_access: Timespec { tv_sec, tv_nsec: nanoseconds.into() }, ..times }
        }
        None => times,
    }
}

/// An access time alone.
pub(crate) fn access_time_alone((tv_sec, nanoseconds): (i64, u32)) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec, tv_nsec: nanoseconds.into() },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    }
}

#[cfg(test)]
mod tests {
    use super::executable_as;

    #[test]
    fn executability_follows_the_right_to_read() {
        for (source, there, expected) in [
            (0o755, 0o644, 0o755),
            (0o700, 0o640, 0o750),
            (0o644, 0o755, 0o644),
            (0o755, 0o711, 0o711),
            (0o4755, 0o100_600, 0o700),
        ] {
            assert_eq!(executable_as(source, there), expected, "{source:o} {there:o}");
        }
    }
}
