//! How attempts to store end: as an event of one path, or as the transfer's error.

use std::fs;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::umask;

use super::SinkEvent;
use crate::error::{Error, ErrorKind, Result};
use crate::event::FileError;
use crate::storage::tree::{Attempt, Trouble, protocol};

/// Reports a failure of a single path as an event; returns only errors of the whole transfer. `None`: not
/// stored.
pub(super) fn settle<T>(
    attempt: Attempt<T>,
    path: &[u8],
    events: &mut dyn FnMut(SinkEvent),
) -> Result<Option<T>> {
    match attempt {
        Ok(value) => Ok(Some(value)),
        Err(Trouble::Path(message)) => {
            events(SinkEvent::FileFailed(FileError { path: path.to_vec(), message }));
            Ok(None)
        }
        Err(Trouble::Skipped) => Ok(None),
        Err(Trouble::Transfer(error)) => Err(error),
    }
}

/// Runs something that waits for the device, with an event before and after.
pub(super) fn synced<T>(events: &mut dyn FnMut(SinkEvent), sync: impl FnOnce() -> T) -> T {
    events(SinkEvent::SyncBegins);
    let result = sync();
    events(SinkEvent::SyncEnds);
    result
}

pub(super) fn names_not_synced(errno: Errno) -> String {
    format!(
        "the device does not confirm the last names: {}; every file is verified, and may have another name or none after a power cut",
        std::io::Error::from(errno)
    )
}

pub(super) fn nothing_wanted() -> Error {
    protocol("something was sent in a dry run")
}

pub(super) fn one_file_only() -> Error {
    let message = "standard output or a device takes exactly one file; name a directory as the destination";
    Error::new(ErrorKind::Destination, message)
}

pub(super) fn stream_failed(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::FileIo, format!("cannot write to the output stream: {error}"))
}

/// The sender uses a record that this transfer's options do not include.
pub(super) fn not_agreed(what: &str) -> Error {
    protocol(&format!("{what} comes, and was not agreed on"))
}

pub(super) fn mixed_up() -> Error {
    Error::new(ErrorKind::Internal, "a chunk was stored with another chunk's verification; report this bug")
}

/// The process's umask, from `/proc`: the system call can only return it by changing it, which other threads
/// could notice.
pub(super) fn current_umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    if let Some(mask) = line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()) {
        return mask;
    }
    let mask = umask(Mode::from_raw_mode(0o077));
    umask(mask);
    mask.as_raw_mode()
}
