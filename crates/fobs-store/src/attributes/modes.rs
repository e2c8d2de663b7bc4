//! How modes and times are set, and names taken.

use fobs_model::options::Overwrite;
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};

use crate::stat::Meta;

/// How modes and times are set, and names taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keeping {
    pub(crate) modes: Modes,
    /// As at the source; else the time of writing.
    pub(crate) times: bool,
    /// What becomes of a name that is taken.
    pub(crate) overwrite: Overwrite,
}

/// How modes are set.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Modes {
    /// As at the source.
    Exact,
    /// Permissions reduced by this umask, no setuid or setgid; those of a file that is replaced.
    Ordinary {
        /// The process's umask.
        umask: u32,
    },
}

/// The mode of something that gets its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModeNow {
    Is(u32),
    Unknown,
    /// It is not to change.
    Stays,
}

/// Sets the modification time, not the access time.
pub(crate) fn timestamps(meta: Meta) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: meta.mtime_s, tv_nsec: meta.mtime_ns.into() },
    }
}
