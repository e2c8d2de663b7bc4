//! Where a file's bytes come from.

use std::io::Read;
use std::os::fd::OwnedFd;

use super::identity::Identity;
use super::stamp::Stamp;

/// The origin of a file's bytes.
pub(super) enum Input {
    /// A regular file, and what identified its content when it was opened.
    File(OwnedFd, Stamp),
    /// Anything without offsets.
    Stream(Box<dyn Read + Send>),
}

impl Input {
    /// What the receiver's journal knows the file by; `None` for a stream.
    pub(super) fn identity(&self) -> Option<Identity> {
        match self {
            Input::File(_, stamp) => Some(stamp.source),
            Input::Stream(_) => None,
        }
    }
}
