//! The walk over the sources: one entry at a time, with at most two directories and one file open, and only
//! the names of directories still to be entered in memory.

mod entry;
mod followed;
mod following;
mod level;
mod look;
mod missing;
mod named;
mod overlay;
mod passed_over;
mod places;
mod search;

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{self, Dir, DirEntry, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::at;
use super::at::open_beneath;
use super::attributes::{Collector, FileSystems, HardLinks, SymbolicLinks, Unkept, open_handle};
use super::beneath::{Base, Links, kind};
use super::charset::in_transfer;
use super::own::is_own;
use super::record::Meta;
use super::select::Selection;
use super::stamp::Stamp;
use entry::{failed, lost, no_attributes, not_regular, owner_in, special_kind};
use fobs_filter::path::{PATH_LEN_MAX, show};
use fobs_filter::{NameKind, XattrRules, path};
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::error::Error;
use fobs_model::event::FileError;
use fobs_model::name::Component;

use following::Reached;
use level::Level;
use named::NamedKind;
use overlay::Overlay;

pub(super) use super::select::Contents;
pub(super) use entry::{
    CommonFacts, Entry, Kept, MaybeOrigin, Origin, Stays, Unopened, facts, opened, type_bits,
};
pub(super) use followed::leads_out;
pub(super) use following::Following;
pub(super) use named::{Named, NamedLinks, Unusable, name_in_transfer};
pub use named::{means_contents, same_name, shape_of};
pub(super) use passed_over::PassedOver;
pub use places::SourcePlaces;
use search::Search;

/// When the walk opens files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    AtOnce,
    Later,
}

/// Whether entries say where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origins {
    Kept,
    Dropped,
}

impl Origins {
    fn of(self, stat: &fs::Stat, place: Option<&Unopened>) -> MaybeOrigin {
        let place = place.filter(|_| self == Origins::Kept)?;
        Some(Box::new(Origin { stamp: Stamp::of(stat), place: place.clone() }))
    }
}

/// Flags for reading a file: do not wait for the writer of a fifo, do not acquire a terminal.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// Likewise below a source directory, where no link is followed.
const READ_ONE: OFlags = READ.union(OFlags::NOFOLLOW);
/// What an allocation takes beside its bytes.
const ALLOCATION: usize = 16;
/// Flags for reading a directory.
const READ_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// What reads attributes in a directory, and its own rules for that.
fn ruled_by<'a>(
    ruled: Option<&'a (Collector, XattrRules)>,
    otherwise: &'a Collector,
) -> (&'a Collector, Option<&'a XattrRules>) {
    ruled.map_or((otherwise, None), |(collector, rules)| (collector, Some(rules)))
}

/// A directory that was opened, and what is kept of it.
type Entered = (Stat, Result<Kept, Errno>, Dir);

/// The walk.
pub(super) struct Walk {
    base: Arc<Base>,
    opening: Opening,
    /// Whether directories in which there is nothing are not to be listed.
    pub(super) prunes: bool,
    collector: Arc<Collector>,
    links: HardLinks,
    /// What is ours, and so no part of the sources.
    passed_over: PassedOver,
    /// An entry that comes next.
    queued: Option<Entry>,
    /// Of a sync: which entries are listed.
    selection: Option<Selection>,
    /// Whether entries say where they are, so that they can be removed.
    origins: Origins,
    /// Failures that come next.
    failures: VecDeque<FileError>,
    /// Names that the receiver is told of because nothing has them; none where that is a failure.
    missing: Option<VecDeque<Vec<u8>>>,
    /// Why the walk has ended early: what it said since does not count.
    broken: Option<Error>,
    budget: MemoryBudget,
    /// The file system of the source directory.
    file_system: u64,
    /// All sources, where they may have paths in common.
    overlay: Option<Overlay>,
    /// The remaining sources, next first.
    named: std::vec::IntoIter<Named>,
    /// The source directory, while it is walked.
    root: Option<Arc<OwnedFd>>,
    /// Length of the prefix of [`Level::path`] before the path below `root`.
    prefix_len: usize,
    /// Which links in it stand for what they lead to.
    following: Option<Following>,
    /// From the source directory down to the current one.
    levels: Vec<Level>,
}

impl Walk {
    pub(super) fn new(
        base: Base,
        named: Vec<Named>,
        collector: Arc<Collector>,
        budget: &MemoryBudget,
    ) -> Walk {
        let base = Arc::new(base);
        Walk {
            overlay: Overlay::of(&base, named.iter().map(Named::place).collect()),
            base,
            opening: Opening::AtOnce,
            prunes: false,
            collector,
            links: HardLinks::within(budget),
            passed_over: PassedOver::default(),
            queued: None,
            selection: None,
            origins: Origins::Dropped,
            failures: VecDeque::new(),
            missing: None,
            broken: None,
            budget: budget.clone(),
            file_system: 0,
            named: named.into_iter(),
            root: None,
            prefix_len: 0,
            following: None,
            levels: Vec::new(),
        }
    }

    /// From now on lists only what is selected.
    pub(super) fn select(&mut self, selection: Selection) {
        self.selection = Some(selection);
    }

    /// Has the walk begin with failures of sources.
    pub(super) fn begin_with(&mut self, failures: impl IntoIterator<Item = FileError>) {
        self.failures.extend(failures);
    }

    /// From now on files are found and not opened.
    pub(super) fn postpone_opening(&mut self) {
        self.opening = Opening::Later;
    }

    /// From now on entries say where they are.
    pub(super) fn keep_origins(&mut self) {
        self.origins = Origins::Kept;
    }

    /// What it leaves out, also while it goes on.
    pub(super) fn passed_over(&self) -> PassedOver {
        self.passed_over.clone()
    }

    /// Why the walk has ended early, once.
    pub(super) fn take_broken(&mut self) -> Option<Error> {
        self.broken.take()
    }

    /// What reads the attributes.
    pub(super) fn collector(&self) -> &Collector {
        &self.collector
    }

    /// Whether the walk is at its end.
    pub(super) fn is_exhausted(&self) -> bool {
        let is_walked = self.levels.is_empty() && self.named.len() == 0;
        is_walked && self.queued.is_none() && self.failures.is_empty()
    }

    /// Opens a directory of the current one, and how the walk came to it.
    fn open_directory(&self, path: &[u8]) -> Result<(OwnedFd, Reached), Errno> {
        let root = self.root.as_ref().ok_or(Errno::BADF)?;
        let through = |following: &Following| {
            let directory = self.base.open(&following.place(path), READ_DIRECTORY)?;
            Ok((directory, Reached::ThroughLinks))
        };
        match (&self.following, self.reached()) {
            (Some(following), Reached::ThroughLinks) => through(following),
            (following, reached) => {
                let below = path.get(self.prefix_len..).unwrap_or_default();
                match (open_beneath(root, below, READ_DIRECTORY, Mode::empty(), Links::Refuse), following) {
                    (Err(Errno::LOOP), Some(following)) if self.is_led_through(path) => through(following),
                    (opened, _) => opened.map(|directory| (directory, reached)),
                }
            }
        }
    }

    /// Whether another file system is mounted on a directory, and none of those comes (`-xx`). Nothing
    /// follows then from what is missing around it.
    fn leaves_out(&mut self, path: &[u8]) -> bool {
        let is_asked = self.collector.preserve.file_systems == FileSystems::OneWithoutMounts;
        let is_other = |directory| fs::fstat(&directory).is_ok_and(|stat| stat.st_dev != self.file_system);
        let is_left_out =
            is_asked && self.open_directory(path).is_ok_and(|(directory, _)| is_other(directory));
        if is_left_out && let Some(around) = self.levels.last_mut() {
            around.contents = Contents::Unseen;
        }
        is_left_out
    }

    /// Opens a directory and begins to read it.
    fn enter(&mut self, path: Vec<u8>) -> Entry {
        let opened = self.open_directory(&path).and_then(|(directory, reached)| {
            let stat = fs::fstat(&directory)?;
            let stat = self.collector.seen(open_handle(&directory), &stat)?;
            // As rsync: what is in a directory does not judge that.
            let ruled = self.levels.last().and_then(|level| level.ruled.as_deref());
            let (collector, _) = ruled_by(ruled, &self.collector);
            let attributes = collector.attributes(open_handle(&directory), &stat);
            Ok((reached, (stat, attributes, Dir::new(directory)?)))
        });
        let opened = opened.map(|(reached, opened)| (reached, self.of_first(&path, opened)));
        match opened {
            Ok((_, (stat, ..))) if self.levels.iter().any(|level| level.id == (stat.st_dev, stat.st_ino)) => {
                let message =
                    format!("cannot enter '{}': the link leads back to a directory above it", show(&path));
                Entry::Failed(FileError { path, message })
            }
            Ok((reached, (stat, attributes, directory))) => {
                if self.levels.is_empty() {
                    self.file_system = stat.st_dev;
                }
                let selected = self.select_in(&path, &directory);
                let is_one = self.collector.preserve.file_systems.is_one();
                let is_other = is_one && stat.st_dev != self.file_system;
                let (contents, is_entered) = match selected {
                    Ok(_) if is_other => (Contents::Unseen, false),
                    Ok(listed) => (listed, true),
                    Err(without) => (without, false),
                };
                let (meta, owner) = (self.collector.meta(&stat), owner_in(&attributes));
                self.levels.push(Level {
                    path: path.clone(),
                    meta,
                    size: u64::try_from(stat.st_size).unwrap_or(0),
                    attributes,
                    reading: is_entered.then_some(directory),
                    subdirectories: Vec::new(),
                    contents,
                    kept: self.budget.charge(Keeps::Subdirectories),
                    id: (stat.st_dev, stat.st_ino),
                    reached,
                    ruled: self.ruled(),
                });
                Entry::Directory { path, meta, owner }
            }
            Err(errno) => lost(&path, errno),
        }
    }

    /// Enters a directory; none where it does not come.
    fn enter_if_meant(&mut self, path: Vec<u8>) -> Option<Entry> {
        let entered = (!self.leaves_out(&path)).then(|| self.enter(path))?;
        (!self.never_was(&entered)).then_some(entered)
    }

    /// What the directory that was entered last says of names of extended attributes.
    fn ruled(&self) -> Option<Arc<(Collector, XattrRules)>> {
        let rules = self.selection.as_ref()?.xattr_rules()?;
        Some(Arc::new((self.collector.ruled_by(&rules), rules)))
    }

    /// Reads a directory's filter files: how its entries are listed, or why none is looked at. Where one of
    /// the files cannot be used, it is not known what that leaves out.
    fn select_in(&mut self, path: &[u8], directory: &Dir) -> Result<Contents, Contents> {
        let Some(selection) = &mut self.selection else { return Ok(Contents::Seen) };
        let followed = |name: &[u8]| match &self.following {
            Some(following) => self.base.open_place(&following.place(&path::join(path, name)), READ),
            None => Err(Errno::LOOP),
        };
        let why = selection.enter(path, directory.fd(), &followed);
        if why.is_empty() {
            return if selection.enters(path) {
                Ok(selection.contents(path))
            } else {
                Err(Contents::NotMeant)
            };
        }
        self.failures.extend(why.into_iter().map(|message| FileError { path: path.to_vec(), message }));
        Err(Contents::Unseen)
    }

    /// What is kept of a directory that an earlier source has, too: that one's.
    fn of_first(&self, path: &[u8], (stat, kept, directory): Entered) -> Entered {
        let selection = self.selection.as_ref();
        let first = self.overlay.as_ref().and_then(|overlay| overlay.first_directory(path, selection));
        let seen = first.and_then(|first| {
            let found = self.collector.seen(open_handle(&first), &fs::fstat(&first).ok()?).ok()?;
            Some((found, self.collector.attributes(open_handle(&first), &found)))
        });
        match seen {
            // Where it is, it stays itself.
            Some((mut found, kept)) => {
                (found.st_dev, found.st_ino) = (stat.st_dev, stat.st_ino);
                (found, kept, directory)
            }
            None => (stat, kept, directory),
        }
    }

    /// Begins with the next source; whether another one's entry counts in its place.
    fn is_of_another_source(&mut self, named: &Named, kind: NameKind) -> bool {
        self.selection.iter_mut().for_each(|it| it.begin(named.index, &named.path));
        let Some(overlay) = &mut self.overlay else { return false };
        overlay.begin_next();
        kind == NameKind::Other && overlay.hides(&named.name, self.selection.as_ref())
    }

    /// Where a file of the current directory is that is left closed.
    fn later(&self) -> Option<Unopened> {
        let is_followed = self.reached() == Reached::ThroughLinks
            || self.following.as_ref().is_some_and(Following::is_asked);
        match (self.opening, &self.root) {
            (Opening::Later, Some(_)) if is_followed => {
                self.following.clone().map(|following| Unopened::Followed(Box::new(following)))
            }
            (Opening::Later, Some(root)) => Some(Unopened::Below(root.clone(), self.prefix_len)),
            _ => None,
        }
    }

    /// How the walk came to the current directory.
    fn reached(&self) -> Reached {
        self.levels.last().map_or(Reached::Plainly, |level| level.reached)
    }

    /// Whether a link of this path stands for the directory that it leads to.
    fn is_led_through(&self, path: &[u8]) -> bool {
        let is_above = self.selection.as_ref().is_some_and(|selection| selection.leads_to_names(path));
        is_above || self.following.as_ref().is_some_and(Following::is_asked)
    }

    /// Whether a sync lists something that went before it was looked at: to the receiver it was never there.
    fn never_was(&self, entry: &Entry) -> bool {
        let has_gone = matches!(entry, Entry::Failed(failure) if failure.has_vanished());
        has_gone && self.selection.is_some()
    }

    /// Ends the innermost directory.
    fn leave(&mut self, level: Level) -> Entry {
        let Level { path, meta, size, attributes, contents, .. } = level;
        match attributes {
            Ok(attributes) => Entry::DirectoryEnd { path, meta, size, attributes, contents },
            Err(errno) => {
                let failure = no_attributes(&path, errno);
                self.queued = Some(Entry::DirectoryEnd { path, meta, size, attributes: None, contents });
                failure
            }
        }
    }

    /// Whether names were listed (`--files-from`).
    pub(super) fn has_names(&self) -> bool {
        self.selection.as_ref().is_some_and(Selection::has_names)
    }

    fn search(&mut self) -> Search<'_> {
        Search {
            collector: &self.collector,
            rules: None,
            links: &mut self.links,
            passed_over: &self.passed_over,
            queued: &mut self.queued,
            lists_all: self.selection.is_some(),
            origins: self.origins,
            following: self.following.as_ref(),
            overlay: self.overlay.as_ref(),
        }
    }
}

impl Iterator for Walk {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if let Some(entry) = self.queued.take() {
            return Some(entry);
        }
        if let Some(failure) = self.failures.pop_front() {
            return Some(Entry::Failed(failure));
        }
        let later = self.later();
        while let Some(level) = self.levels.last_mut() {
            match level.reading.as_mut().map(Dir::read) {
                Some(Some(Ok(entry))) => {
                    let ruled = level.ruled.clone();
                    let (collector, rules) = ruled_by(ruled.as_deref(), &self.collector);
                    let mut search = Search {
                        collector,
                        rules,
                        links: &mut self.links,
                        passed_over: &self.passed_over,
                        queued: &mut self.queued,
                        lists_all: self.selection.is_some(),
                        origins: self.origins,
                        following: self.following.as_ref(),
                        overlay: self.overlay.as_ref(),
                    };
                    let selection = self.selection.as_mut();
                    let later = later.clone().map(|place| search.placed(place));
                    let child = level.child(&entry, later.as_ref(), &mut search, selection);
                    self.broken = self.selection.as_ref().and_then(Selection::failure);
                    let child = child.filter(|child| !self.never_was(child));
                    if child.is_some() || self.broken.is_some() {
                        return child;
                    }
                }
                Some(Some(Err(errno))) => {
                    level.stop_reading();
                    return Some(failed(&level.path, "read all of", errno));
                }
                Some(None) => level.reading = None,
                None => {
                    if let Some(name) = level.subdirectories.pop() {
                        let path = path::join(&level.path, &name);
                        let Some(entered) = self.enter_if_meant(path) else { continue };
                        return Some(entered);
                    }
                    let level = self.levels.pop()?;
                    if let Some(selection) = &mut self.selection {
                        selection.leave();
                    }
                    return Some(self.leave(level));
                }
            }
        }
        self.root = None;
        while let Some(named) = self.named.next() {
            let kind = match named.kind {
                NamedKind::Directory => NameKind::Directory,
                NamedKind::File | NamedKind::Link => NameKind::Other,
            };
            if self.is_of_another_source(&named, kind) {
                continue;
            }
            let selection = self.selection.as_mut().filter(|_| !named.name.is_empty());
            if selection.is_none_or(|selection| selection.takes(&named.name, kind)) {
                return Some(self.next_named(named));
            }
        }
        self.next_missing()
    }
}
