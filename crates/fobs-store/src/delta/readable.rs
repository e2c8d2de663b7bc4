//! A basis as it is read: where the file system can, a copy of its own that shares all blocks with it, so
//! that nobody changes it meanwhile, and the file that is made of it can share them too.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, fstat, ioctl_ficlone};
use rustix::io::{Errno, pread};

use super::pieces::ReadsAt;
use crate::at::open_beneath;
use crate::beneath::Links;
use crate::stamp::Stamp;
use crate::view::View;
use fobs_filter::path;

/// Smallest basis of which that is tried, bytes: below, the calls cost more than writing it.
const SHARED_MIN: u64 = 1 << 20;
/// For a file without a name, which goes with its descriptor.
const UNNAMED: OFlags = OFlags::TMPFILE.union(OFlags::RDWR);

/// Where the bytes of a basis are.
#[derive(Debug, Clone)]
pub(crate) enum BasisBytes {
    /// In a file that is open.
    File(Arc<OwnedFd>),
    /// In memory: those of a short one, so that a thousand of them need no thousand descriptors.
    Kept(Arc<[u8]>),
}

impl ReadsAt for BasisBytes {
    fn read_at(&self, room: &mut [u8], at: u64) -> Result<usize, Errno> {
        match self {
            BasisBytes::File(file) => pread(file, room, at),
            BasisBytes::Kept(bytes) => {
                let left = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                let len = left.len().min(room.len());
                room[..len].copy_from_slice(&left[..len]);
                Ok(len)
            }
        }
    }
}

/// A file whose bytes go into others.
#[derive(Debug, Clone)]
pub(crate) struct Readable {
    bytes: BasisBytes,
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
        Readable { bytes: BasisBytes::File(Arc::new(own.unwrap_or(file))), is_own, before }
    }

    /// Of a short one, of `size` bytes, which is read now.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn kept(file: &OwnedFd, size: u64) -> Result<Readable, Errno> {
        // Short, by what the caller measured; one that has grown since is not read on.
        let (mut bytes, mut len) = (vec![0; size as usize], 0);
        while len < bytes.len() {
            match pread(file, &mut bytes[len..], len as u64) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        bytes.truncate(len);
        Ok(Readable { bytes: BasisBytes::Kept(bytes.into()), is_own: false, before: None })
    }

    /// Of one that others may change.
    pub(crate) fn shared_with_others(file: OwnedFd) -> Readable {
        Readable { bytes: BasisBytes::File(Arc::new(file)), is_own: false, before: None }
    }

    /// To read it.
    pub(crate) fn bytes(&self) -> BasisBytes {
        self.bytes.clone()
    }

    /// To do more with it, where it is open.
    pub(crate) fn file(&self) -> Option<Arc<OwnedFd>> {
        match &self.bytes {
            BasisBytes::File(file) => Some(file.clone()),
            BasisBytes::Kept(_) => None,
        }
    }

    /// What is kept of it in memory, bytes.
    pub(super) fn kept_len(&self) -> usize {
        match &self.bytes {
            BasisBytes::File(_) => 0,
            BasisBytes::Kept(bytes) => bytes.len(),
        }
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
    // A new directory may not be there yet.
    let directory = view.hold(path::split(place).0).or_else(|_| view.hold(b"")).ok()?;
    let mode = Mode::RUSR | Mode::WUSR;
    let copy = open_beneath(&*directory, b"", UNNAMED, mode, Links::Refuse).ok()?;
    ioctl_ficlone(&copy, file).ok()?;
    Some(copy)
}
