//! Opening paths below a directory that they must not leave.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

pub use super::at::Links;
use super::at::{open_ambient, open_beneath};
pub(crate) use super::errno::{reason, sentence};
pub(crate) use super::stat::{kind, meta};

/// Flags for a directory that is used for lookups only.
pub(crate) const HOLD_DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// What the paths of a request are relative to.
#[derive(Debug)]
pub enum Base {
    /// The working directory, with the user's own rights.
    Ambient,
    /// The served root, which no path may leave. A leading `/` means the root.
    Beneath {
        /// The directory.
        root: OwnedFd,
        /// Which links the path of a request may contain. Where rights depend on names, links must not lead
        /// elsewhere.
        links: Links,
    },
}

impl Base {
    /// The same, for another use.
    pub fn try_clone(&self) -> io::Result<Base> {
        Ok(match self {
            Base::Ambient => Base::Ambient,
            Base::Beneath { root, links } => Base::Beneath { root: root.try_clone()?, links: *links },
        })
    }

    /// The absolute path of a directory of a request, as far as it is known; below the root that is served.
    pub(super) fn absolute(&self, directory: &[u8]) -> Vec<u8> {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        match self {
            Base::Ambient => {
                let directory = if directory.is_empty() { b"." } else { directory };
                let path = std::path::Path::new(std::ffi::OsStr::from_bytes(directory));
                path.canonicalize().map(|path| path.into_os_string().into_vec()).unwrap_or_default()
            }
            Base::Beneath { .. } => directory.to_vec(),
        }
    }

    /// Opens a path of a request at which something is written or changed: no third user decides where that
    /// is.
    pub(super) fn open_place(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        match self {
            Base::Ambient => fobs_sys::named::open_at(path, flags, Mode::empty()),
            Base::Beneath { .. } => self.open(path, flags),
        }
    }

    /// Opens a path of a request that is read.
    pub(super) fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        match self {
            Base::Ambient => open_ambient(path, flags),
            Base::Beneath { root, links } => {
                let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
                open_beneath(root, &path[start..], flags, Mode::empty(), *links)
            }
        }
    }
}

/// A directory reopened so that its mode and time can be set.
pub(crate) fn open_self(directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    open_beneath(directory, b"", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty(), Links::Refuse)
}
