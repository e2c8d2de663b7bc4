//! The sender's part: the walk as batches of rows, and the entries that belong to them.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::choice::Choice;
use super::pruned::Pruned;
use super::row::{BatchWriter, Row, RowKind};
use crate::attributes::{Attributes, Collector};
use crate::identity::Identity;
use crate::input::Input;
use crate::looked::{Counted, Looked};
use crate::record::Meta;
use crate::walk::{CommonFacts, Contents, Entry, Unopened, Walk};
use fobs_filter::path::show;
use fobs_model::error::Result;
use fobs_model::event::FileError;

/// Rows of the first batch: data flows as soon as they are decided. Each batch is twice as long as the one
/// before.
const FIRST_ROWS: usize = 64;
/// A batch is sent this long after its first row, however short it is: a walk may be slow.
const BATCH_WAIT: Duration = Duration::from_millis(100);

/// An entry that was listed and waits for its decision.
pub struct Listed(pub(crate) Entry);

/// What a file takes beside itself that is reached through links.
const FOLLOWED_BYTES: usize = 64;

impl Listed {
    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        let entry = &self.0;
        // A link's target or first name is as long as a path at most, and mostly shorter.
        let target = match entry {
            Entry::Symlink { target, .. } => target.len(),
            Entry::Hardlink { first, .. } => first.len(),
            Entry::Found { unopened, .. }
                if !matches!(unopened, Unopened::Below(..) | Unopened::Named(..)) =>
            {
                FOLLOWED_BYTES
            }
            _ => 0,
        };
        let attributes = entry.attributes().map_or(0, Attributes::memory);
        size_of::<Listed>() + entry.path().len() + target + attributes
    }
}

#[cfg(any(test, feature = "testing"))]
impl Listed {
    /// Some entry.
    pub fn of_test() -> Listed {
        Listed(Entry::Directory { path: Vec::new(), meta: Meta::default(), owner: None })
    }
}

/// A batch of the listing.
pub struct Batch {
    /// Rows listed before.
    pub first: u64,
    /// The rows, as they are sent.
    pub bytes: Vec<u8>,
    /// The entries of the rows, in order.
    pub entries: Vec<Listed>,
    /// Whether it is the last batch.
    pub last: bool,
}

/// What a surveyed source gets next.
pub enum Next {
    /// An entry and the receiver's answer to it.
    Decided(Box<(Listed, Choice)>),
    /// The next entry is not decided yet.
    NotYet,
    /// Every entry was taken.
    End,
    /// The session is over.
    Broken,
}

/// The entries with their decisions, in the order in which they were listed.
pub trait Decided: Send {
    /// The next one; waits for it until `end`, if given.
    fn next(&mut self, end: Option<Instant>) -> Next;

    /// Whether every entry was taken.
    fn is_exhausted(&self) -> bool;

    /// Whether the session is over, so that nothing of this is wanted any more.
    fn is_over(&self) -> bool;
}

/// Whether rows carry the hash of their file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// They do; every file is read for that.
    Listed,
    /// They do not.
    Omitted,
}

/// How a directory is listed of which the walk has not looked at everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// As such: the receiver deletes nothing there.
    Told,
    /// As any other: the receiver deletes nothing at all.
    Untold,
    /// As one that cannot be read, because the receiver is too old to leave one directory alone: it then
    /// deletes nothing anywhere.
    Failed,
}

/// What a listing has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListingForm {
    /// Whether it has hashes of contents.
    pub checksums: Checksums,
    /// How it says what was not looked at.
    pub parts: Parts,
}

impl From<Checksums> for ListingForm {
    fn from(checksums: Checksums) -> ListingForm {
        ListingForm { checksums, parts: Parts::Untold }
    }
}

/// Lists what a source would send.
pub struct Lister {
    walk: Walk,
    pruned: Option<Pruned>,
    form: ListingForm,
    /// What comes after a failure that stands for it.
    postponed: Option<Entry>,
    writer: BatchWriter,
    rows: u64,
    /// Rows of the next batch, at most.
    batch_rows: usize,
    over: bool,
    looked: Looked,
}

impl Lister {
    pub(crate) fn new(mut walk: Walk, form: ListingForm, looked: Looked) -> Lister {
        walk.postpone_opening();
        Lister {
            pruned: Pruned::of(&walk),
            walk,
            form,
            postponed: None,
            writer: BatchWriter::default(),
            rows: 0,
            batch_rows: FIRST_ROWS,
            over: false,
            looked,
        }
    }

    /// The next batch; `None` after the last one.
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        if self.over {
            return Ok(None);
        }
        let mut entries = Vec::new();
        let mut until = None;
        while entries.len() < self.batch_rows && !self.writer.is_full() {
            let entry = self.next_entry();
            if let Some(error) = self.walk.take_broken() {
                return Err(error);
            }
            let Some(entry) = entry else {
                self.over = true;
                break;
            };
            self.writer.push(&row(&entry, self.form, self.walk.collector(), &self.looked));
            entries.push(Listed(entry));
            if Instant::now() >= *until.get_or_insert_with(|| Instant::now() + BATCH_WAIT) {
                break;
            }
        }
        let first = self.rows;
        self.rows += entries.len() as u64;
        // The writer's own bound is reached first.
        self.batch_rows = self.batch_rows.saturating_mul(2);
        Ok(Some(Batch { first, bytes: self.writer.finish()?, entries, last: self.over }))
    }

    fn next_entry(&mut self) -> Option<Entry> {
        if let Some(entry) = self.postponed.take() {
            return Some(entry);
        }
        let entry = match &mut self.pruned {
            Some(pruned) => pruned.next(&mut self.walk)?,
            None => self.walk.next()?,
        };
        match &entry {
            Entry::DirectoryEnd { path, contents: Contents::Unseen | Contents::NotMeant, .. }
                if self.form.parts == Parts::Failed =>
            {
                let failure = FileError { path: path.clone(), message: older_receiver(path) };
                self.postponed = Some(entry);
                Some(Entry::Failed(failure))
            }
            _ => Some(entry),
        }
    }
}

fn older_receiver(path: &[u8]) -> String {
    format!(
        "'{}' is not looked at, and the older fobs at the other end would delete what is in it there: nothing is \
         deleted; install the same version there",
        show(path)
    )
}

/// An entry as the receiver is told of it.
fn row(entry: &Entry, form: ListingForm, collector: &Collector, looked: &Looked) -> Row {
    let (path, kind, meta, identity) = match entry {
        Entry::Directory { path, meta, .. } => (path, RowKind::Directory, *meta, None),
        Entry::DirectoryEnd { path, meta, size, contents, .. } => {
            let is_part = *contents != Contents::Seen && form.parts == Parts::Told;
            let kind = if is_part { RowKind::PartEnd } else { RowKind::DirectoryEnd };
            // Its size is for people.
            (path, kind, *meta, Some(Identity { size: *size, mtime_s: 0, mtime_ns: 0, inode: 0 }))
        }
        Entry::Symlink { path, target, meta, .. } => {
            (path, RowKind::Symlink { target: target.clone() }, *meta, None)
        }
        Entry::Special { path, kind, device, meta, .. } => {
            (path, RowKind::Special { kind: *kind, device: *device }, *meta, None)
        }
        Entry::Hardlink { path, first, shared: CommonFacts { meta, bits, size }, .. } => {
            // Type and size are for people.
            let meta = Meta { mode: meta.mode | bits, ..*meta };
            let identity = Identity { size: *size, mtime_s: 0, mtime_ns: 0, inode: 0 };
            let identity = entry.origin().map_or(identity, |origin| origin.stamp.source);
            (path, RowKind::Hardlink { first: first.clone() }, meta, Some(identity))
        }
        Entry::Found { path, meta, identity, .. } => (path, RowKind::File, *meta, Some(*identity)),
        Entry::File { path, meta, input, .. } => (path, RowKind::File, *meta, input.identity()),
        Entry::Missing { path } => (path, RowKind::Missing, Meta::default(), None),
        Entry::Failed(failure) => (&failure.path, RowKind::Failed, Meta::default(), None),
    };
    let checksum = match (entry, form.checksums) {
        (Entry::Found { path, unopened, .. }, Checksums::Listed) => {
            match unopened.open(path.clone(), collector) {
                // A file that cannot be read equals no other.
                Entry::File { input: Input::File(file, _), .. } => checksum(file, looked).ok(),
                _ => None,
            }
        }
        _ => None,
    };
    // Of the other entries only where sources are removed: none that is the destination's own is.
    let identity = identity.or(entry.origin().map(|origin| origin.stamp.source));
    let identity = identity.unwrap_or(Identity { size: 0, mtime_s: 0, mtime_ns: 0, inode: 0 });
    let attributes = match entry {
        Entry::Directory { owner, .. } => owner.as_deref(),
        entry => entry.attributes(),
    };
    let attributes = attributes.cloned();
    Row { path: path.clone(), kind, meta, identity, attributes, checksum }
}

/// BLAKE3 of a whole file.
pub(super) fn checksum(file: OwnedFd, looked: &Looked) -> io::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(Counted(file.into(), looked))?;
    Ok(*hasher.finalize().as_bytes())
}
