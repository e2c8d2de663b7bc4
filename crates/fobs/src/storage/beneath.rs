//! Opening paths so that they stay where they belong, and saying why one could not be opened.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::path;
use super::record::{Meta, NANOSECONDS};

/// Where the paths that a caller names are looked up.
#[derive(Debug)]
pub enum Base {
    /// The user's own rights, from the working directory.
    Ambient,
    /// Only below this directory, whatever the path: the daemon's root. A path's leading `/` means the directory.
    Beneath {
        /// The directory.
        root: OwnedFd,
        /// What of the links in a path that the caller names. Where rights are judged by name, names must not lead
        /// elsewhere.
        links: Links,
    },
}

/// Which symbolic links may be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Those that stay inside.
    Inside,
    /// None.
    Refuse,
}

impl Base {
    /// Opens a path that the caller named.
    pub(super) fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        match self {
            Base::Ambient => fs::openat(CWD, or_dot(path), flags | OFlags::CLOEXEC, Mode::empty()),
            Base::Beneath { root, links } => {
                let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
                open_inside(root, &path[start..], flags, Mode::empty(), *links)
            }
        }
    }
}

/// Opens `path` relative to `directory`, from which no `..`, absolute path or symbolic link leads out.
pub(super) fn open_inside(
    directory: impl AsFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if links == Links::Refuse {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    // EAGAIN: a rename elsewhere raced with a `..` and the kernel could not tell where it led (openat2(2)).
    const TRIES: usize = 16;
    let mut result = Err(Errno::AGAIN);
    for _ in 0..TRIES {
        result = fs::openat2(directory.as_fd(), or_dot(path), flags | OFlags::CLOEXEC, mode, resolve);
        if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    result
}

fn or_dot(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"." } else { path }
}

/// What is kept of a file besides its content.
pub(super) fn meta(stat: &Stat) -> Meta {
    // A file system in user space may say anything.
    let mtime_ns = u32::try_from(stat.st_mtime_nsec).unwrap_or(0).min(NANOSECONDS - 1);
    Meta { mode: stat.st_mode & 0o7777, mtime_s: stat.st_mtime, mtime_ns }
}

/// What kind of file it is.
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
        Errno::ROFS => "choose a place that can be written",
        Errno::NAMETOOLONG => "give it a shorter name",
        Errno::XDEV | Errno::LOOP => {
            return format!(
                "cannot {what} '{shown}': it leads through a symbolic link or '..' that is not followed"
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

/// The system's words for an error, without the number.
pub(super) fn reason(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
