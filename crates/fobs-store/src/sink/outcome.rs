//! How attempts to store end: as an event of one path, or as the transfer's error.

use std::fs;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::umask;

use super::{SinkEvent, SinkSpec};
use crate::tree::{Attempt, Trouble, protocol};
use fobs_filter::path::show;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::FileError;
use fobs_model::options::Sight;
use fobs_sys::confine::{Errand, outside};

/// How messages of failures name an entry: by its place at the destination, where it failed.
#[derive(Debug, Clone, Default)]
pub(super) enum Naming {
    /// By its path in the transfer: there is no other.
    #[default]
    Transfer,
    /// The one source has this path.
    As(Vec<u8>),
    /// The sources are in this directory.
    Into(Vec<u8>),
}

impl Naming {
    /// Below this destination, which is the one source under another name, or a directory.
    pub(super) fn new(destination: &[u8], renamed: bool) -> Naming {
        match renamed {
            true => Naming::As(destination.to_vec()),
            false if destination.is_empty() => Naming::Transfer,
            false => Naming::Into(destination.to_vec()),
        }
    }

    /// The event with the entry's place in its message.
    pub(super) fn named(&self, event: SinkEvent) -> SinkEvent {
        let SinkEvent::FileFailed(FileError { path, message }) = event else { return event };
        let quoted = |path: &[u8]| format!("'{}'", show(path));
        let message = message.replacen(&quoted(&path), &quoted(&self.place(&path)), 1);
        SinkEvent::FileFailed(FileError { path, message })
    }

    fn place(&self, path: &[u8]) -> Vec<u8> {
        match self {
            Naming::Transfer => path.to_vec(),
            Naming::As(name) => {
                let below = path.iter().position(|&byte| byte == b'/').map_or(&b""[..], |at| &path[at..]);
                [name, below].concat()
            }
            Naming::Into(directory) if directory.ends_with(b"/") => [directory, path].concat(),
            Naming::Into(directory) => [directory, &b"/"[..], path].concat(),
        }
    }
}

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

/// The error of a destination that cannot be used, for a sender that may not learn what is there.
pub(super) fn unseen(spec: &SinkSpec, error: Error) -> Error {
    if spec.terms.sight == Sight::Whole || error.kind != ErrorKind::Destination {
        return error;
    }
    let message = format!(
        "cannot write to '{}': its directory does not exist or may not be written, or something else has that name, \
         which is not for this key to know; ask whoever runs the server",
        show(&spec.destination)
    );
    Error::new(ErrorKind::Destination, message)
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
    let status = outside(Errand::Counters, || fs::read_to_string("/proc/self/status").unwrap_or_default());
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    if let Some(mask) = line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()) {
        return mask;
    }
    let mask = umask(Mode::from_raw_mode(0o077));
    umask(mask);
    mask.as_raw_mode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_place_at_the_destination() {
        for (destination, renamed, path, named) in [
            ("/data/new.tar", true, "old.tar", "/data/new.tar"),
            ("copy", true, "dir/in/x", "copy/in/x"),
            ("/data/", false, "old.tar", "/data/old.tar"),
            ("/data", false, "dir/x", "/data/dir/x"),
            ("", false, "old.tar", "old.tar"),
        ] {
            let message = format!("cannot write '{path}': no room");
            let failed = SinkEvent::FileFailed(FileError { path: path.as_bytes().to_vec(), message });
            let SinkEvent::FileFailed(error) = Naming::new(destination.as_bytes(), renamed).named(failed)
            else {
                panic!("it stays a failure")
            };
            assert_eq!(error.message, format!("cannot write '{named}': no room"));
            assert_eq!(error.path, path.as_bytes(), "what is reported once for each path");
        }
    }
}
