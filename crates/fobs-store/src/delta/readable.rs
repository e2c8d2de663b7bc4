//! A basis as it is read: where the file system can, a copy of its own that shares all blocks with it, so
//! that nobody changes it meanwhile, and the file that is made of it can share them too.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, fstat, ioctl_ficlone};

use crate::at::open_beneath;
use crate::beneath::Links;
use crate::stamp::Stamp;
use crate::view::View;
use fobs_filter::path;

/// Smallest basis of which that is tried, bytes: below, the calls cost more than writing it.
const SHARED_MIN: u64 = 1 << 20;
/// For a file without a name, which goes with its descriptor.
const UNNAMED: OFlags = OFlags::TMPFILE.union(OFlags::RDWR);

/// A file whose bytes go into others.
#[derive(Debug, Clone)]
pub(crate) struct Readable {
    file: Arc<OwnedFd>,
    /// Whether it is a copy of its own.
    is_own: bool,
    /// What the file was before anything of it was read.
    before: Option<Stamp>,
}

impl Readable {
    /// Of a file of this size at a path below the destination's top directory.
    pub(crate) fn of(view: &mut View, place: &[u8], (file, size): (OwnedFd, u64)) -> Readable {
        let before = fstat(&file).ok().map(|stat| Stamp::of(&stat));
        let own = (size >= SHARED_MIN).then(|| own_copy(view, place, &file)).flatten();
        let is_own = own.is_some();
        Readable { file: Arc::new(own.unwrap_or(file)), is_own, before }
    }

    /// Of one that others may change.
    pub(crate) fn shared_with_others(file: OwnedFd) -> Readable {
        Readable { file: Arc::new(file), is_own: false, before: None }
    }

    /// To read it.
    pub(crate) fn file(&self) -> Arc<OwnedFd> {
        self.file.clone()
    }

    /// What the file was before anything of it was read.
    pub(crate) fn before(&self) -> Option<&Stamp> {
        self.before.as_ref()
    }

    /// Whether another file may share its blocks.
    pub(crate) fn shares(&self) -> bool {
        self.is_own
    }
}

/// A copy beside the file that shares its blocks; none where the file system cannot.
fn own_copy(view: &mut View, place: &[u8], file: &OwnedFd) -> Option<OwnedFd> {
    let directory = view.hold(path::split(place).0).ok()?;
    let mode = Mode::RUSR | Mode::WUSR;
    let copy = open_beneath(&*directory, b"", UNNAMED, mode, Links::Refuse).ok()?;
    ioctl_ficlone(&copy, file).ok()?;
    Some(copy)
}
