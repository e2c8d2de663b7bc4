//! Looking at what stands at the destination, beside the thread that writes there.

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, Stat, fstat};
use rustix::io::Errno;

use super::at;
use super::at::open_beneath;
use super::beneath::{HOLD_DIRECTORY, Links, meta};
use super::dirlinks::Dirlinks;
use super::looked::Looked;
use super::record::Meta;
use fobs_filter::path;

/// The destination's tree, by paths within the transfer. No link in it is followed.
#[derive(Debug, Clone)]
pub struct View {
    top: Arc<OwnedFd>,
    /// The name that the single source gets.
    name: Option<Vec<u8>>,
    /// The directory used last, with its path at the destination.
    held: Option<(Vec<u8>, Arc<OwnedFd>)>,
    /// The top directory before this transfer.
    before: Option<Meta>,
    is_made: bool,
    looked: Looked,
    /// Links that stand for directories; none where no link does.
    dirlinks: Option<Dirlinks>,
}

impl View {
    pub(super) fn new(top: Arc<OwnedFd>, name: Option<Vec<u8>>) -> View {
        View {
            top,
            name,
            held: None,
            before: None,
            is_made: false,
            looked: Looked::default(),
            dirlinks: None,
        }
    }

    /// The top directory as it was before the journal was made in it.
    pub(super) fn before(mut self, before: Option<Meta>, is_made: bool) -> View {
        (self.before, self.is_made) = (before, is_made);
        self
    }

    /// Has links stand for directories, which it is told of.
    pub(super) fn through(mut self, dirlinks: Option<Dirlinks>) -> View {
        self.dirlinks = dirlinks.filter(|_| self.name.is_none());
        self
    }

    /// From now on a path stands for the directory at `place`; false where that cannot be.
    pub(super) fn leads(&self, path: &[u8], place: &[u8]) -> bool {
        self.dirlinks.as_ref().is_some_and(|dirlinks| dirlinks.add(path, place))
    }

    /// Where a path is that lies behind a link which stands for a directory; `None` for one that does not.
    pub(super) fn place_through_link(&self, path: &[u8]) -> Option<Vec<u8>> {
        match self.dirlinks.as_ref()?.place(path) {
            Cow::Owned(place) => Some(place),
            Cow::Borrowed(_) => None,
        }
    }

    /// Whether a link stands for what has this path by itself, or for a directory above it.
    pub(super) fn is_led_to(&self, path: &[u8]) -> bool {
        self.dirlinks.as_ref().is_some_and(|dirlinks| dirlinks.lead_to(path))
    }

    /// Counts with `looked` what is read of it.
    pub(super) fn counting(mut self, looked: &Looked) -> View {
        self.looked = looked.clone();
        self
    }

    /// What is read of it to be compared.
    pub(super) fn looked(&self) -> &Looked {
        &self.looked
    }

    /// The directory that it does not leave.
    pub(super) fn top(&self) -> &OwnedFd {
        &self.top
    }

    /// Whether a path is the top directory, which was made for this transfer.
    pub(super) fn is_made(&self, path: &[u8]) -> bool {
        self.is_made && self.place(path).is_empty()
    }

    /// Mode and time of what stands at a path, as they were before this transfer.
    pub(super) fn meta_before(&self, path: &[u8], stat: &Stat) -> Meta {
        let is_top = self.place(path).is_empty();
        self.before.filter(|_| is_top).unwrap_or_else(|| meta(stat))
    }

    /// Where a path within the transfer is at the destination, relative to its top directory.
    pub(super) fn place<'a>(&self, path: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.name {
            Some(name) => Cow::Owned([name, path::split_first(path).1].concat()),
            None => self.dirlinks.as_ref().map_or(Cow::Borrowed(path), |dirlinks| dirlinks.place(path)),
        }
    }

    /// Whether a path is that of the single source, which gets another name.
    pub(super) fn is_named(&self, path: &[u8]) -> bool {
        self.name.is_some() && path::split_first(path).1.is_empty()
    }

    /// The status of what stands at a path within the transfer.
    pub(super) fn stat(&mut self, path: &[u8]) -> Result<Stat, Errno> {
        let place = self.place(path);
        self.stat_at(&place)
    }

    /// The status of what stands at a path below the destination's top directory.
    pub(super) fn stat_at(&mut self, place: &[u8]) -> Result<Stat, Errno> {
        if place.is_empty() {
            return fstat(&self.top);
        }
        let (parent, name) = path::split_name(place)?;
        at::stat(self.hold(parent)?, name)
    }

    /// Holds what stands at a path below the destination's top directory.
    pub(super) fn hold_at(&mut self, place: &[u8]) -> Result<OwnedFd, Errno> {
        let (parent, name) = path::split_name(place)?;
        at::hold(self.hold(parent)?, name)
    }

    /// Opens what stands at a path within the transfer.
    pub(super) fn open(&mut self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let place = self.place(path).into_owned();
        self.open_at(&place, flags)
    }

    /// Opens what stands at a path below the destination's top directory.
    pub(super) fn open_at(&mut self, place: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let (parent, name) = path::split(place);
        open_beneath(&*self.hold(parent)?, name, flags | OFlags::NOFOLLOW, Mode::empty(), Links::Refuse)
    }

    /// Opens what a path leads to, also by links that stay below the destination's top directory.
    pub(super) fn open_through_links(&mut self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        match self.open(path, flags) {
            Err(Errno::LOOP) => {
                open_beneath(&self.top, &self.place(path), flags, Mode::empty(), Links::Inside)
            }
            opened => opened,
        }
    }

    /// Forgets the directory used last, which may be gone.
    pub(super) fn forget(&mut self) {
        self.held = None;
    }

    /// The directory at `place`: the one used last, or opened now.
    pub(super) fn hold(&mut self, place: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        match &self.held {
            _ if place.is_empty() => Ok(Arc::clone(&self.top)),
            Some((held, directory)) if held == place => Ok(Arc::clone(directory)),
            _ => {
                let directory = open_beneath(&self.top, place, HOLD_DIRECTORY, Mode::empty(), Links::Refuse)?;
                let directory = Arc::new(directory);
                self.held = Some((place.to_vec(), Arc::clone(&directory)));
                Ok(directory)
            }
        }
    }
}
