//! Another name for what has one, and a copy under another name: neither sends a byte anywhere.

use super::{entry, place, refused};
use crate::attributes::left_by_default_acl;
use crate::beneath::{kind, sentence};
use crate::own::is_own;
use crate::temporary::{Names, TemporaryFile};
use crate::{Base, at};
use fobs_filter::path;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::listing::Entry;
use fobs_model::name::Component;
use rustix::fs::{self, FileType, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::{Errno, pread};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;
/// Bits of a mode that a copy has: no setuid, setgid or sticky bit.
const COPIED_MODE: u32 = 0o777;

/// What may happen to something that has the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is replaced, as rename(2) does.
    Replaced,
    /// It stays, and the request is refused; the kernel decides at the moment of the name.
    Refused,
}

/// Gives `name` the name `to`: a link itself, a directory with everything in it. Mode and times stay.
pub fn rename(base: &Base, name: &[u8], to: &[u8], taken: Taken) -> Result<()> {
    let refuse = |errno| moved(name, to, errno);
    let (from, last) = place(base, name).map_err(|errno| refused("rename", name, errno))?;
    let (into, new) = place(base, to).map_err(|errno| refused("rename to", to, errno))?;
    // A copy that runs keeps what is its own.
    if is_own(&from, last.as_bytes()) || is_own(&into, new.as_bytes()) {
        return Err(refuse(Errno::BUSY));
    }
    match taken {
        Taken::Replaced => at::move_to(&from, last, &into, new).map_err(refuse),
        Taken::Refused => match at::move_to_new(&from, last, &into, new) {
            // A file system without this kind of rename: one more name, which is new, then one less.
            Err(Errno::INVAL | Errno::NOSYS) if is_file(&from, last) => {
                let linked = at::hold(&from, last).and_then(|held| at::link_held(held, &into, new));
                linked.and_then(|()| at::unlink(&from, last)).map_err(refuse)
            }
            moved => moved.map_err(refuse),
        },
    }
}

fn is_file(directory: &OwnedFd, name: Component<'_>) -> bool {
    at::stat(directory, name).is_ok_and(|stat| kind(&stat) == FileType::RegularFile)
}

/// Copies the file `name` to `to`, with its permissions, under a temporary name until it is complete.
/// `go_on` is called before each piece.
pub fn copy(
    base: &Base,
    name: &[u8],
    to: &[u8],
    taken: Taken,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<Entry> {
    let unread = |errno| refused("read", name, errno);
    let unwritten = |errno| refused("write", to, errno);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let held = base.open(name, OFlags::PATH).map_err(unread)?;
    if kind(&fs::fstat(&held).map_err(unread)?) != FileType::RegularFile {
        let message =
            format!("'{}' is no regular file, and only those are copied; name a file", path::show(name));
        return Err(Error::new(ErrorKind::Usage, message));
    }
    let source = at::reopen(&held, flags).map_err(unread)?;
    let stat = fs::fstat(&source).map_err(unread)?;
    let (into, new) = place(base, to).map_err(unwritten)?;
    match at::stat(&into, new) {
        Ok(there) if (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino) => {
            let message =
                format!("'{}' and '{}' are one file; choose another name", path::show(name), path::show(to));
            return Err(Error::new(ErrorKind::Usage, message));
        }
        Ok(there) if kind(&there) == FileType::Directory => return Err(unwritten(Errno::ISDIR)),
        Ok(_) if taken == Taken::Refused => return Err(unwritten(Errno::EXIST)),
        Ok(_) | Err(_) => {}
    }
    let into = Arc::new(into);
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let names = Names::alone(&*into, b"copy");
    let made = TemporaryFile::create(&names, Arc::clone(&into), new, size);
    let mut made = made.map_err(unwritten)?;
    let (mut buffer, mut at) = (vec![0; COPY_BYTES], 0);
    loop {
        go_on()?;
        let count = match pread(&source, &mut buffer[..], at) {
            Err(Errno::INTR) => continue,
            read => read.map_err(unread)?,
        };
        if count == 0 {
            break;
        }
        made.write(&buffer[..count], at).map_err(unwritten)?;
        at += count as u64;
    }
    let mode = stat.st_mode & left_by_default_acl(into.as_fd()).unwrap_or(COPIED_MODE);
    made.take_name(new, at, mode & COPIED_MODE, taken == Taken::Replaced).map_err(unwritten)?;
    at::stat(&into, new).map(|stat| entry(new.as_bytes(), &stat)).map_err(unwritten)
}

/// Sets the time of the last change of what `name` stands for to now.
pub fn touch(base: &Base, name: &[u8]) -> Result<()> {
    let refuse = |errno| refused("set the time of", name, errno);
    let file = base.open(name, OFlags::PATH).map_err(refuse)?;
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times =
        Timestamps { last_access: omit, last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW } };
    at::set_times_of_held(file.as_fd(), &times).map_err(refuse)
}

fn moved(name: &[u8], to: &[u8], errno: Errno) -> Error {
    let (shown, new) = (path::show(name), path::show(to));
    let message = match errno {
        Errno::INVAL => format!("cannot rename '{shown}' to '{new}': a directory does not move into itself"),
        Errno::XDEV => format!(
            "cannot rename '{shown}' to '{new}': they are on different file systems of the server; copy and remove it"
        ),
        Errno::EXIST => format!("cannot rename '{shown}' to '{new}': it exists already; choose another name"),
        Errno::NOTEMPTY => {
            format!("cannot rename '{shown}' to '{new}': the directory there is not empty; remove it")
        }
        Errno::BUSY => format!("cannot rename '{shown}' to '{new}': one of them is in use; try again later"),
        errno => sentence(&format!("rename to '{new}' what is named"), name, errno),
    };
    let kind = match errno {
        Errno::INVAL | Errno::XDEV => ErrorKind::Usage,
        errno => refused("rename", name, errno).kind,
    };
    Error::new(kind, message)
}
