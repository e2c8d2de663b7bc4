//! Opening paths below a directory that they must not leave, and the errors of failed attempts.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::at::{open_ambient, open_beneath};
use super::record::{Meta, NANOSECONDS};
use super::trusted::open_trusted;
use fobs_filter::path;

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

/// Which symbolic links may be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Those that stay below the root.
    Inside,
    /// None.
    Refuse,
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
            Base::Ambient => open_trusted(path, flags, Mode::empty()),
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

/// One sentence: `cannot <what> '<path>': <why>; <what to do>`.
pub(super) fn sentence(what: &str, path: &[u8], errno: Errno) -> String {
    let shown = path::show(path);
    let advice = match errno {
        Errno::ACCESS | Errno::PERM => "change its permissions or its directory's",
        Errno::NOENT => "check the path",
        Errno::NOSPC => "make room and copy it again",
        Errno::DQUOT => "the quota is used up: make room and copy it again",
        Errno::FBIG => "raise the limit of file sizes (ulimit -f), or choose a file system for larger files",
        Errno::ROFS => "choose a place that can be written",
        Errno::NAMETOOLONG => "give it a shorter name",
        Errno::XDEV | Errno::LOOP => {
            return format!(
                "cannot {what} '{shown}': it leads through a symbolic link (of another user, or one that leads \
                 out) or a '..' that is not followed"
            );
        }
        Errno::NOTDIR => "a part of the path is not a directory",
        Errno::IO => "check the disk",
        Errno::MFILE | Errno::NFILE => "raise the limit of open files (ulimit -n)",
        Errno::NOSYS => "FOBS needs Linux 5.6 or newer",
        _ => return format!("cannot {what} '{shown}': {}", reason(errno)),
    };
    format!("cannot {what} '{shown}': {}; {advice}", reason(errno))
}

/// The system's text for an error, without the number.
pub(super) fn reason(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
