//! Files by name, without a transfer: what is there, removing it, making directories, other names.

mod moving;
mod walking;

pub use moving::{Taken, copy, rename, touch};
pub use walking::{Leads, walk};

use super::at::open_beneath;
use super::beneath::{Links, kind, meta, sentence};
use super::own::is_own;
use super::{Base, at};
use fobs_filter::path;
use fobs_model::budget::{Keeps, MemoryBudget};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::listing::{Entry, EntryKind};
use fobs_model::name::Component;
use rustix::fs::{self, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Levels of a tree that is removed: each holds a descriptor, and a server has few for each session.
const DEPTH_MAX: usize = 100;
/// Mode of a directory, less the process's mask.
const DIRECTORY_MODE: u32 = 0o777;

/// What `name` stands for, through links.
pub fn stat(base: &Base, name: &[u8]) -> Result<Entry> {
    let refuse = |errno| refused("look at", name, errno);
    let file = base.open(name, OFlags::PATH).map_err(refuse)?;
    let stat = fs::fstat(&file).map_err(refuse)?;
    Ok(entry(path::split(trimmed(name)).1, &stat))
}

/// The room at `name`, or where it would be made: an entry whose size are the free bytes that this user may
/// write there, and whose name is that of the file system on this host.
pub fn room(base: &Base, name: &[u8]) -> Result<Entry> {
    let refuse = |errno| refused("look for room at", name, errno);
    let mut there = trimmed(name);
    // Each time it is one component shorter, so this ends.
    let file = loop {
        match base.open(there, OFlags::PATH) {
            Err(Errno::NOENT | Errno::NOTDIR) if !matches!(there, b"" | b"/") => {
                let parent = path::split(there).0;
                there = if parent.is_empty() && there.starts_with(b"/") { b"/" } else { trimmed(parent) };
            }
            opened => break opened.map_err(refuse)?,
        }
    };
    let (stat, found) = (fs::fstat(&file).map_err(refuse)?, fs::fstatvfs(&file).map_err(refuse)?);
    Ok(Entry {
        kind: EntryKind::Other,
        size: found.f_bavail.saturating_mul(found.f_frsize),
        ..entry(stat.st_dev.to_string().as_bytes(), &stat)
    })
}

/// What has the name, a link itself and what it leads to.
pub fn stat_link(base: &Base, name: &[u8]) -> Result<Entry> {
    let refuse = |errno| refused("look at", name, errno);
    match place(base, name) {
        Ok((parent, last)) => {
            let above = path::split(trimmed(name)).0;
            let above = if above.is_empty() && name.starts_with(b"/") { b"/" } else { above };
            walking::look(base, &parent, above, last, Leads::Told).map(|(found, _)| found).map_err(refuse)
        }
        // Where names begin, and what ends in dots, is no link.
        Err(Errno::BUSY) => stat(base, name),
        Err(errno) => Err(refuse(errno)),
    }
}

/// Hands what the directory `name` holds to `take`, one by one, in no order. Links are not followed; what a
/// transfer keeps for itself is left out.
pub fn list(base: &Base, name: &[u8], leads: Leads, take: &mut dyn FnMut(Entry) -> Result<()>) -> Result<()> {
    let refuse = |errno| refused("list", name, errno);
    let directory = base.open(name, OFlags::RDONLY | OFlags::DIRECTORY).map_err(refuse)?;
    for found in Dir::read_from(&directory).map_err(refuse)? {
        let found = found.map_err(refuse)?;
        let child = found.file_name().to_bytes();
        if child == b"." || child == b".." || is_own(&directory, child) {
            continue;
        }
        let looked = Component::new(child).map_err(Errno::from);
        match looked.and_then(|child| walking::look(base, &directory, name, child, leads)) {
            Ok((found, _)) => take(found)?,
            // Gone meanwhile.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(refused("look at", &path::join(name, child), errno)),
        }
    }
    Ok(())
}

/// How much is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A file, a link or an empty directory.
    One,
    /// With everything in it.
    Tree,
}

/// Removes `name`; a link itself, not what it leads to. `go_on` is called before each removal.
pub fn remove(
    base: &Base,
    name: &[u8],
    extent: Extent,
    budget: &MemoryBudget,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let refuse = |errno| refused("remove", name, errno);
    let (parent, last) = place(base, name).map_err(refuse)?;
    go_on()?;
    let stat = at::stat(&parent, last).map_err(refuse)?;
    match (kind(&stat), extent) {
        (FileType::Directory, Extent::One) => at::remove_directory(&parent, last).map_err(refuse),
        (FileType::Directory, Extent::Tree) => {
            Felling { name, budget, go_on }.directory(parent.as_fd(), last, 1)
        }
        _ => at::unlink(&parent, last).map_err(refuse),
    }
}

/// The removal of a tree.
struct Felling<'a> {
    name: &'a [u8],
    budget: &'a MemoryBudget,
    go_on: &'a mut dyn FnMut() -> Result<()>,
}

impl Felling<'_> {
    fn directory(&mut self, parent: BorrowedFd<'_>, last: Component<'_>, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            let shown = path::show(self.name);
            let message =
                format!("'{shown}' has more than {DEPTH_MAX} levels; remove what is deep in it first");
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let opened = open_beneath(parent, last.as_bytes(), flags, Mode::empty(), Links::Refuse);
        let directory = opened.map_err(|errno| self.refused(errno))?;
        // Names are read whole before the first goes: some file systems skip entries otherwise.
        let (mut names, mut kept) = (Vec::new(), self.budget.charge(Keeps::Listing));
        for found in Dir::read_from(&directory).map_err(|errno| self.refused(errno))? {
            let found = found.map_err(|errno| self.refused(errno))?;
            // Beside the name, its terminator and what the allocator adds.
            kept.grow(found.file_name().count_bytes() + 16)?;
            kept.push(&mut names, found)?;
        }
        for found in &names {
            let child = found.file_name().to_bytes();
            if child == b"." || child == b".." {
                continue;
            }
            (self.go_on)()?;
            let child = Component::new(child).map_err(|bad| self.refused(bad.into()))?;
            let is_directory = match found.file_type() {
                FileType::Unknown => {
                    at::stat(&directory, child).is_ok_and(|stat| kind(&stat) == FileType::Directory)
                }
                known => known == FileType::Directory,
            };
            if is_directory {
                self.directory(directory.as_fd(), child, depth + 1)?
            } else {
                self.gone(at::unlink(&directory, child))?
            }
        }
        self.gone(at::remove_directory(parent, last))
    }

    fn gone(&self, outcome: std::result::Result<(), Errno>) -> Result<()> {
        match outcome {
            // Another one removed it.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.refused(errno)),
        }
    }

    fn refused(&self, errno: Errno) -> Error {
        refused("remove all of", self.name, errno)
    }
}

/// Makes the directory `name`, which must not exist.
pub fn make_directory(base: &Base, name: &[u8]) -> Result<()> {
    make(base, trimmed(name)).map_err(|errno| refused("make the directory", name, errno))
}

/// Makes the directory `name`, unless it exists.
pub fn have_directory(base: &Base, name: &[u8]) -> Result<()> {
    match make(base, trimmed(name)) {
        Err(Errno::EXIST) if is_directory(base, name) => Ok(()),
        made => made.map_err(|errno| refused("make the directory", name, errno)),
    }
}

/// Makes the directory `name` and those above it, as far as they do not exist and `may` allows each.
pub fn make_directories(base: &Base, name: &[u8], may: &dyn Fn(&[u8]) -> Result<()>) -> Result<()> {
    let name = trimmed(name);
    if name.len() >= path::PATH_LEN_MAX {
        // Otherwise the levels that the kernel takes would be made, up to the 2,048th.
        return Err(refused("make the directory", name, Errno::NAMETOOLONG));
    }
    let slashes = name.iter().enumerate().filter(|(at, byte)| **byte == b'/' && *at > 0).map(|(at, _)| at);
    for end in slashes.chain([name.len()]) {
        let part = &name[..end];
        if is_directory(base, part) {
            continue;
        }
        may(part)?;
        match make(base, part) {
            Ok(()) => {}
            // Another one has made it.
            Err(Errno::EXIST) if is_directory(base, part) => {}
            Err(errno) => return Err(refused("make the directory", part, errno)),
        }
    }
    Ok(())
}

fn is_directory(base: &Base, name: &[u8]) -> bool {
    base.open(name, OFlags::PATH | OFlags::DIRECTORY).is_ok()
}

fn make(base: &Base, name: &[u8]) -> std::result::Result<(), Errno> {
    let (parent, last) = place(base, name)?;
    at::make_directory(&parent, last, Mode::from_raw_mode(DIRECTORY_MODE))
}

/// The directory in which `name` lies, and its last component; `EBUSY` for a directory that has none here.
fn place<'n>(base: &Base, name: &'n [u8]) -> std::result::Result<(OwnedFd, Component<'n>), Errno> {
    let name = trimmed(name);
    let (parent, last) = path::split(name);
    if matches!(last, b"" | b"." | b"..") {
        return Err(Errno::BUSY);
    }
    let last = Component::new(last)?;
    let parent = if parent.is_empty() && name.starts_with(b"/") { b"/" } else { parent };
    Ok((base.open_place(parent, OFlags::PATH | OFlags::DIRECTORY)?, last))
}

/// Without slashes at the end.
fn trimmed(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    if end == 0 && !name.is_empty() { b"/" } else { &name[..end] }
}

pub(super) fn entry(name: &[u8], stat: &Stat) -> Entry {
    let kind = match kind(stat) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    };
    let meta = meta(stat);
    Entry {
        name: name.to_vec(),
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_s: meta.mtime_s,
        mtime_ns: meta.mtime_ns,
        mode: meta.mode,
        inode: stat.st_ino,
        root: None,
        link: None,
    }
}

pub(super) fn refused(what: &str, name: &[u8], errno: Errno) -> Error {
    let kind = match errno {
        Errno::NOENT | Errno::NOTDIR => ErrorKind::NoSource,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::XDEV | Errno::LOOP => ErrorKind::Denied,
        Errno::EXIST | Errno::NOTEMPTY | Errno::BUSY | Errno::ISDIR => ErrorKind::Destination,
        Errno::INVAL | Errno::NAMETOOLONG => ErrorKind::Usage,
        _ => ErrorKind::FileIo,
    };
    let shown = path::show(name);
    let message = match errno {
        Errno::BUSY => {
            format!("cannot {what} '{shown}': it is where names begin, or in use; name what is in it")
        }
        Errno::NOTEMPTY => {
            format!("cannot {what} '{shown}': the directory is not empty; remove the whole tree")
        }
        Errno::EXIST => format!("cannot {what} '{shown}': it exists already; choose another name"),
        errno => sentence(what, name, errno),
    };
    Error::new(kind, message)
}
