//! Everything below a directory, and what links lead to.

use super::{entry, refused};
use crate::at::open_beneath;
use crate::beneath::{Links, kind};
use crate::own::is_own;
use crate::{Base, at};
use fobs_filter::path;
use fobs_model::budget::{Keeps, MemoryBudget};
use fobs_model::error::Result;
use fobs_model::listing::{Entry, Link};
use fobs_model::name::Component;
use rustix::fs::{self, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// What is said of a link beside that it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leads {
    /// Not told.
    Untold,
    /// Its text, and what it leads to.
    Told,
}

/// The entry of what has the name `child` in `directory`, which has the path `above`; a link itself.
pub(super) fn look(
    base: &Base,
    directory: &OwnedFd,
    above: &[u8],
    child: Component<'_>,
    leads: Leads,
) -> std::result::Result<(Entry, Stat), Errno> {
    let stat = at::stat(directory, child)?;
    let mut found = entry(child.as_bytes(), &stat);
    if leads == Leads::Told && kind(&stat) == FileType::Symlink {
        let text = at::read_link(directory, child)?;
        // By its whole path: what a link may lead to is for the base to say.
        let there = base.open(&path::join(above, child.as_bytes()), OFlags::PATH).and_then(fs::fstat);
        let leads_to = there.ok().map(|stat| Box::new(entry(child.as_bytes(), &stat)));
        found.link = Some(Link { text, leads_to });
    }
    Ok((found, stat))
}

/// Hands everything below the directory `name` to `take`, with its path from there for a name: a directory
/// before what is in it, to `depth` levels. No link is entered, and what a transfer keeps for itself is left
/// out. An error of a directory below ends the walk, unless the directory is gone.
pub fn walk(
    base: &Base,
    name: &[u8],
    depth: u32,
    budget: &MemoryBudget,
    take: &mut dyn FnMut(Entry) -> Result<()>,
) -> Result<()> {
    let top =
        base.open(name, OFlags::RDONLY | OFlags::DIRECTORY).map_err(|errno| refused("list", name, errno))?;
    // Paths of directories, no descriptors: a tree may be deep, and a server has few for each session.
    let (mut left, mut kept) = (vec![(Vec::new(), 1)], budget.charge(Keeps::Listing));
    while let Some((path, level)) = left.pop() {
        kept.shrink(path.len());
        let whole = path::join(name, &path);
        let refuse = |errno| refused("list", &whole, errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let directory = match open_beneath(&top, &path, flags, Mode::empty(), Links::Refuse) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !path.is_empty() => continue,
            opened => opened.map_err(refuse)?,
        };
        for found in Dir::read_from(&directory).map_err(refuse)? {
            let found = found.map_err(refuse)?;
            let child = found.file_name().to_bytes();
            if child == b"." || child == b".." || is_own(&directory, child) {
                continue;
            }
            let component = Component::new(child).map_err(|bad| refuse(bad.into()))?;
            let (found, stat) = match look(base, &directory, &whole, component, Leads::Told) {
                // Gone meanwhile.
                Err(Errno::NOENT) => continue,
                found => found.map_err(|errno| refused("look at", &path::join(&whole, child), errno))?,
            };
            let below = path::join(&path, child);
            if kind(&stat) == FileType::Directory && level < depth {
                kept.grow(below.len())?;
                kept.push(&mut left, (below.clone(), level + 1))?;
            }
            take(Entry { name: below, ..found })?;
        }
    }
    Ok(())
}
