//! Which file may be a basis: its pieces are named to the sender, and its bytes go into what is stored.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, OFlags, fstat};

use crate::beneath::kind;
use crate::held::{is_shared, is_trusted};
use crate::stamp::name_count;
use crate::view::View;
use fobs_filter::path;

/// A fifo there must not be waited for.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// The file that stands at a path within the transfer, and its size; `None` if it is none of at least `least`
/// bytes to make a delta of. What is judged is what is open, and nothing else is read later.
pub(crate) fn basis_at(view: &mut View, at: &[u8], least: u64) -> Option<(OwnedFd, u64)> {
    let place = view.place(at).into_owned();
    basis_in_place(view, &place, least)
}

/// Likewise at a path below the destination's top directory.
pub(crate) fn basis_in_place(view: &mut View, place: &[u8], least: u64) -> Option<(OwnedFd, u64)> {
    let stat = view.stat_at(place).ok()?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if kind(&stat) != FileType::RegularFile || size < least {
        return None;
    }
    let file = view.open_at(place, READ).ok()?;
    let held = fstat(&file).ok()?;
    let is_it = (held.st_dev, held.st_ino) == (stat.st_dev, stat.st_ino);
    if !is_it || kind(&held) != FileType::RegularFile {
        return None;
    }
    // Where others give names, one may be of a file that this process can read and they cannot.
    let directory = view.hold(path::split(place).0).ok()?;
    let may_be_theirs = is_trusted(&held) || name_count(&held) > 1;
    (!may_be_theirs || !is_shared(&*directory)).then_some((file, size))
}
