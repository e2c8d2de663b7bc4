//! Several sources that may have the same paths, as in `a/ b/` and `a/x b/x`: as in rsync the first one's
//! entry counts, and a directory before anything else, since it has contents.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

use super::READ_DIRECTORY;
use crate::at::open_beneath;
use crate::beneath::{Base, HOLD_DIRECTORY, Links, kind};
use crate::select::Selection;
use fobs_filter::NameKind;
use fobs_filter::path::split_first;

/// Most source directories that are held open; further ones are opened for each name.
const HELD_MAX: usize = 64;

/// A source of a walk.
#[derive(Debug)]
pub(super) struct Place {
    /// Its path in the request.
    path: Vec<u8>,
    /// Its number there.
    index: usize,
    /// Its name in the transfer.
    name: Vec<u8>,
    /// It as a directory, once it was needed.
    held: OnceLock<Result<OwnedFd, Errno>>,
}

impl Place {
    /// Of a source with this path and number in the request, and this name in the transfer.
    pub(super) fn new(path: &[u8], index: usize, name: &[u8]) -> Place {
        Place { path: path.to_vec(), index, name: name.to_vec(), held: OnceLock::new() }
    }
}

/// The sources of a walk, one of which is walked.
#[derive(Debug)]
pub(super) struct Overlay {
    base: Arc<Base>,
    sources: Vec<Place>,
    /// Those of which the contents are sources, in their order.
    contents: Vec<usize>,
    /// The others, by their names.
    named: HashMap<Vec<u8>, Vec<usize>>,
    /// How many of them were begun.
    begun: usize,
}

impl Overlay {
    /// Of these sources; none where no two of them can have a path in common.
    pub(super) fn of(base: &Arc<Base>, sources: Vec<Place>) -> Option<Overlay> {
        let mut named: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
        let mut contents = Vec::new();
        for (at, source) in sources.iter().enumerate() {
            match &source.name[..] {
                b"" => contents.push(at),
                name => named.entry(name.to_vec()).or_default().push(at),
            }
        }
        let has_same = named.values().any(|same| same.len() > 1);
        let may_meet = sources.len() > 1 && (has_same || !contents.is_empty());
        may_meet.then(|| Overlay { base: Arc::clone(base), sources, contents, named, begun: 0 })
    }

    /// The next source is walked.
    pub(super) fn begin_next(&mut self) {
        self.begun += 1;
    }

    /// Whether another source's entry of this path counts in place of the current one's, which is no
    /// directory. What the selection leaves out does not.
    pub(super) fn hides(&self, path: &[u8], selection: Option<&Selection>) -> bool {
        let current = self.begun.saturating_sub(1);
        let may_take = |index: usize, kind| self.takes(index, path, kind, selection);
        let counts = |index: usize| {
            let is_near = |(selection, place): (&Selection, &Place)| selection.is_near(place.index, path);
            if !selection.zip(self.sources.get(index)).is_none_or(is_near) {
                return false;
            }
            let Ok(found) = self.open(index, path, OFlags::PATH | OFlags::NOFOLLOW) else { return false };
            let is_directory = fstat(&found).is_ok_and(|stat| kind(&stat) == FileType::Directory);
            let name_kind = if is_directory { NameKind::Directory } else { NameKind::Other };
            (index < current || is_directory) && may_take(index, name_kind)
        };
        self.that_may_have(path).any(|index| index != current && counts(index))
    }

    /// The first source's directory of this path, if the current source is a later one: what is kept of it
    /// counts.
    pub(super) fn first_directory(&self, path: &[u8], selection: Option<&Selection>) -> Option<OwnedFd> {
        let current = self.begun.saturating_sub(1);
        let names_top = |place: &Place| selection.and_then(|it| it.names_top(place.index));
        if path.is_empty() && self.sources.iter().any(|place| names_top(place).is_some()) {
            // The directory in which names begin is none of them where it is not named.
            let first = self.sources.iter().position(|place| names_top(place) == Some(true))?;
            return if first == current { None } else { self.open(first, path, READ_DIRECTORY).ok() };
        }
        let takes =
            |index: &usize| path.is_empty() || self.takes(*index, path, NameKind::Directory, selection);
        let earlier = self.that_may_have(path).filter(|index| *index < current).filter(takes);
        let found = earlier.filter_map(|index| Some((index, self.open(index, path, READ_DIRECTORY).ok()?)));
        found.min_by_key(|(index, _)| *index).map(|(_, directory)| directory)
    }

    /// The sources that may have a path.
    fn that_may_have(&self, path: &[u8]) -> impl Iterator<Item = usize> {
        let same = self.named.get(split_first(path).0).map_or(&[][..], Vec::as_slice);
        self.contents.iter().chain(same).copied()
    }

    /// Whether the selection takes an entry of a source.
    fn takes(&self, index: usize, path: &[u8], kind: NameKind, selection: Option<&Selection>) -> bool {
        let (Some(selection), Some(place)) = (selection, self.sources.get(index)) else { return true };
        selection.would_take(place.index, path, kind)
    }

    fn open(&self, index: usize, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let place = self.sources.get(index).ok_or(Errno::NOENT)?;
        let below = match path.strip_prefix(&place.name[..]) {
            Some(rest) if place.name.is_empty() => rest,
            Some(b"") => return self.base.open(&place.path, flags),
            Some([b'/', rest @ ..]) => rest,
            _ => return Err(Errno::NOENT),
        };
        let opened = || self.base.open(&place.path, HOLD_DIRECTORY);
        if index < HELD_MAX {
            let root = place.held.get_or_init(opened).as_ref().map_err(|errno| *errno)?;
            return open_beneath(root, below, flags, Mode::empty(), Links::Refuse);
        }
        open_beneath(opened()?, below, flags, Mode::empty(), Links::Refuse)
    }
}
