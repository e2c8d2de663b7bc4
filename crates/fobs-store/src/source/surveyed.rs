//! A source that takes its entries as the receiver decides on them (protocol 7.8).

use std::time::{Duration, Instant};

use super::{Begun, Feed, FilledChunk, Source, StartOverReason, StartedOver};
use crate::Item;
use crate::input::Input;
use crate::looked::Looked;
use crate::open_file::OpenFile;
use crate::prefix::hash_prefix;
use crate::record::{Meta, Record};
use crate::survey::{Changes, Choice, Decided, Decision, ItemKind, Listed, Lister, ListingForm, Next};
use crate::tree_hash::FileTree;
use crate::walk::{Entry, SourcePlaces};
use fobs_model::error::{Error, ErrorKind, Result};

/// Most items that wait for a chunk: with more, a chunk ends early.
const ITEMS_MAX: usize = 4096;
/// A decision that takes longer is waited for.
const LOOK: Duration = Duration::from_millis(1);
/// Bytes of their paths, likewise.
const ITEMS_BYTES_MAX: usize = 1 << 20;

/// What is reported of an entry.
fn item(entry: &Entry, changes: Changes) -> Option<Item> {
    let (path, kind, target) = match entry {
        Entry::DirectoryEnd { path, .. } => (path, ItemKind::Directory, None),
        Entry::File { path, .. } | Entry::Found { path, .. } => (path, ItemKind::File, None),
        Entry::Hardlink { path, first, shared, .. } => {
            // What leads there already is not said to.
            let target = changes.is_significant().then(|| first.clone());
            (path, ItemKind::of_type(shared.bits), target)
        }
        Entry::Symlink { path, target, .. } => (path, ItemKind::Symlink, Some(target.clone())),
        Entry::Special { path, kind, .. } => (path, ItemKind::of_special(*kind), None),
        Entry::Directory { .. } | Entry::Missing { .. } | Entry::Failed(_) => return None,
    };
    let facts = entry.facts(changes.stays());
    Some(Item { path: path.clone(), kind, changes, target, facts })
}

impl Source {
    /// From now on takes its entries from `decided`; the lister makes the listing that is decided on. `None`
    /// for a stream, of which there is nothing to decide.
    pub fn survey(&mut self, decided: Box<dyn Decided>, form: impl Into<ListingForm>) -> Option<Lister> {
        if !matches!(self.feed, Feed::Walk(_)) {
            return None;
        }
        match std::mem::replace(&mut self.feed, Feed::Surveyed(decided)) {
            Feed::Walk(walk) => Some(Lister::new(*walk, form.into(), self.looked.clone())),
            _ => None,
        }
    }

    /// Where its sources lie; none of a stream, and once it has begun.
    pub fn places(&self) -> Option<SourcePlaces> {
        match &self.feed {
            Feed::Walk(walk) => Some(walk.places()),
            _ => None,
        }
    }

    /// What is read of it to be compared with what the receiver has.
    pub fn looked(&self) -> &Looked {
        &self.looked
    }

    /// Waits until there is something to put into a chunk, for `patience` at most. Whether that took longer
    /// than a look, because the receiver had not decided.
    pub fn await_decision(&mut self, patience: Duration) -> Result<bool> {
        let end = Instant::now() + patience;
        if let Some(file) = &mut self.file {
            file.is_covered(Some(end))?;
        }
        let began = Instant::now();
        while self.is_waiting() {
            let Feed::Surveyed(decided) = &mut self.feed else { break };
            match decided.next(Some(end)) {
                Next::Decided(next) => self.next = self.wanted(*next)?,
                Next::NotYet | Next::End => break,
                Next::Broken => return Err(broken()),
            }
        }
        Ok(began.elapsed() > LOOK)
    }

    fn has_room_for_items(&self) -> bool {
        self.items.len() < ITEMS_MAX && self.items_bytes < ITEMS_BYTES_MAX
    }

    /// Whether there is nothing that could go into a chunk.
    fn is_waiting(&self) -> bool {
        let is_between = self.file.is_none() && self.postponed.is_none();
        let is_reported = self.has_room_for_items();
        is_between && self.next.is_none() && self.early_failures.len() == 0 && is_reported
    }

    /// Advances to the next entry that the receiver wants.
    pub(super) fn begin_decided(&mut self, filled: &mut FilledChunk) -> Result<Begun> {
        while self.next.is_none() {
            if !self.has_room_for_items() {
                return Ok(Begun::NotYet);
            }
            let Feed::Surveyed(decided) = &mut self.feed else { return Ok(Begun::End) };
            match decided.next(None) {
                Next::Decided(next) => self.next = self.wanted(*next)?,
                Next::NotYet => return Ok(Begun::NotYet),
                Next::End => return Ok(Begun::End),
                Next::Broken => return Err(broken()),
            }
        }
        let Some((Listed(entry), choice)) = self.next.take() else { return Ok(Begun::NotYet) };
        if choice.changes.contains(Changes::STARTS_OVER)
            && let Entry::Found { path, .. } = &entry
        {
            filled.started_over.push(StartedOver { path: path.clone(), why: StartOverReason::Changed });
        }
        match (entry, choice.decision) {
            (
                Entry::Found { path, identity, unopened, origin, .. },
                Decision::Resume { len, stack, check },
            ) => {
                self.origin = origin;
                let tree = FileTree::resume(len, stack).filter(|_| len <= identity.size);
                let tree =
                    tree.ok_or_else(|| misdecided("it goes on with a file where that has no place"))?;
                match (unopened.open(path, &self.collector), check) {
                    (Entry::File { path, meta, attributes, size, input }, check)
                        if input.identity() == Some(identity)
                            && (!check || self.has_prefix(&input, &tree)) =>
                    {
                        let entry = Entry::File { path, meta, attributes, size, input };
                        self.begin_with(entry, Some(tree), filled);
                    }
                    (entry, _) => {
                        if let Entry::File { path, input, .. } = &entry {
                            let why = if input.identity() == Some(identity) {
                                StartOverReason::OtherBeginning
                            } else {
                                StartOverReason::Changed
                            };
                            filled.started_over.push(StartedOver { path: path.clone(), why });
                        }
                        self.begin(entry, filled);
                    }
                }
            }
            (entry, _) => self.begin(entry, filled),
        }
        Ok(Begun::Entry)
    }

    /// The entry, if any of it goes into the object.
    fn wanted(&mut self, (listed, choice): (Listed, Choice)) -> Result<Option<(Listed, Choice)>> {
        self.note_row(choice.changes);
        if choice.changes.is_reported(self.report) {
            let item = item(&listed.0, choice.changes);
            self.items_bytes +=
                item.as_ref().map_or(0, |item| item.path.len() + item.target.iter().flatten().count());
            self.items.extend(item);
        }
        match (&listed.0, &choice.decision) {
            (
                Entry::Directory { .. } | Entry::DirectoryEnd { .. },
                Decision::Skip | Decision::Same | Decision::Failed(_),
            ) => return Ok(None),
            // They are in the object whatever was decided.
            (Entry::Directory { .. } | Entry::DirectoryEnd { .. } | Entry::Failed(_), _) => {}
            (_, Decision::Send) | (Entry::Found { .. }, Decision::Resume { .. }) => {}
            (entry, Decision::Same) => {
                if let Some(origin) = entry.origin() {
                    self.leaves(entry.path(), origin);
                }
                return Ok(None);
            }
            (_, Decision::Skip | Decision::Failed(_)) => return Ok(None),
            (Entry::Found { identity, .. }, Decision::Done) => {
                self.resumed += identity.size;
                self.bytes = self.bytes.saturating_add(identity.size);
                self.files += 1;
                return Ok(None);
            }
            (_, Decision::Done | Decision::Resume { .. }) => {
                return Err(misdecided("it has the content of something that has none"));
            }
        }
        Ok(Some((listed, choice)))
    }

    /// Whether the file begins with what the receiver has.
    fn has_prefix(&self, input: &Input, tree: &FileTree) -> bool {
        let Input::File(file, _) = input else { return false };
        let is_over = || matches!(&self.feed, Feed::Surveyed(decided) if decided.is_over());
        let ours = hash_prefix(file, tree.len(), &self.looked, &is_over).ok().flatten();
        ours.is_some_and(|ours| ours.stack() == tree.stack())
    }

    /// Begins a file of which the receiver has the part that `tree` stands for.
    pub(super) fn go_on(&mut self, path: Vec<u8>, meta: Meta, size: u64, input: Input, tree: FileTree) {
        let meta = self.told(meta);
        self.begin_records(&input);
        Record::Resume { path: &path, meta, size, from: tree.len() }.encode(&mut self.records);
        self.resumed += tree.len();
        let file = OpenFile::go_on(path, input, size, tree, self.collector.preserve.sparse);
        self.file = Some(self.opened(file));
    }
}

/// The receiver violated the protocol.
fn misdecided(what: &str) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("the receiver's decisions make no sense: {what}; use the same version of fobs on both sides"),
    )
}

/// The session ended; its own error is the one that counts.
pub(super) fn broken() -> Error {
    Error::new(ErrorKind::Connect, "the session ended before the other side had said what to send")
}
