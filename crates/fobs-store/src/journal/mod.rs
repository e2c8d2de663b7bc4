//! The journal of a transfer, beside its destination: which files are complete, and how far the current one
//! is stored. The same command goes on from it after an interruption, a kill, or a power cut.
//!
//! ```text
//!   names     the names of journals, and of all files of ours
//!   format    the bytes: header, slots, log
//!   store     reading and writing them: a file, or a faulty one in tests
//!   book      what a journal says, and the order of its writes
//!   doubt     what the device may not have kept
//!   lock      one transfer at a time into a destination; taking over from a session that lost its peer
//!   sync      the thread that has the device keep the data, and then says so
//!   health    whether the device fails
//!   history   what earlier runs stored
//!   inspect   what a journal says that no transfer uses
//!   tenure    how long what is not synced counts
//!   unfinished  removing what is not gone on with
//!   watch       what a later session asks of the one that holds the lock
//!   whose       whether a journal is for this transfer
//! ```

#[cfg(any(test, feature = "testing"))]
mod any;
mod book;
mod doubt;
mod format;
mod health;
mod history;
mod inspect;
mod lock;
mod names;
mod store;
mod sync;
mod tenure;
#[cfg(test)]
mod tests;
mod unfinished;
mod watch;
mod whose;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

use self::book::{Book, LoadError, Loaded};
use self::format::{Claim, Completion, Current, Holder, Origin, Unreadable, encode_claim, encode_holder};
use self::history::{Left, Past};
use self::lock::Asker;
use self::store::Store;
use self::sync::{Finished, Finishing, Syncer, Unfinished};
use self::tenure::{suffix_for, tenure};
use self::watch::read_claim;
use self::whose::{Whose, whose};
use super::at;
use super::beneath::{open_self, sentence};
use super::identity::{Fingerprint, Identity, destination_mark, fingerprint, inode_of};
use super::keep;
use super::view::View;
use fobs_filter::path::show;
use fobs_model::budget::{Keeps, MemoryBudget};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::name::ComponentBuf;
use fobs_model::name::ours::Suffix;
pub use fobs_model::options::Terms;

#[cfg(any(test, feature = "testing"))]
pub use self::any::load_any;
pub use self::doubt::Doubt;
pub use self::format::{ClientId, TransferId};
pub(crate) use self::health::Health;
pub use self::history::{Adoption, Adoptions, Held, History};
pub(super) use self::inspect::is_interrupted;
pub(crate) use self::inspect::{Found, inspect};
pub use self::names::client_id;
pub(super) use self::names::{Top, journal_name, key as transfer_key};
pub(super) use self::sync::NotKept;
pub use self::watch::{Asked, TakeoverWatch};

/// What stays of a transfer that is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Partial {
    /// The partial file and the journal, so that the same command goes on.
    #[default]
    Keep,
    /// Nothing.
    Discard,
    /// What an earlier run left, as it is: of a pass that stores nothing.
    Untouched,
}

/// What was kept of an interrupted transfer, over all of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspended {
    /// Complete files.
    pub files: u64,
    /// Bytes of complete files and of the partial one.
    pub bytes: u64,
}

/// What a journal is opened for.
pub(super) struct JournalSpec<'a> {
    /// The directory that the top-level names land in.
    pub(super) directory: &'a Arc<OwnedFd>,
    /// Those names.
    pub(super) top: Top<'a>,
    /// The names of the sources.
    pub(super) sources: &'a [Vec<u8>],
    pub(super) keep: Partial,
    pub(super) transfer_id: TransferId,
    /// Who the client is, where it may come again while this session waits for it.
    pub(super) client: Option<ClientId>,
    /// On which terms it is stored.
    pub(super) terms: Terms,
    /// The peer, as another user is told while the destination is in use.
    pub(super) holder: &'a str,
    /// The destination as the user named it.
    pub(super) destination: &'a [u8],
    /// Whether the transfer may name a path twice: the contents of several directories.
    pub(super) may_repeat: bool,
    pub(super) budget: &'a MemoryBudget,
}

/// Whether temporary files may lie at the destination that no state of the journal names: a run that was
/// killed leaves the file that it had begun since its last state. They have the journal's suffix, so a later
/// run of the same journal makes them anew or completes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strays {
    None,
    Possible,
}

/// An open and locked journal. Dropped, it stays on disk if it says something that is to be kept.
pub(super) struct Journal {
    directory: Arc<OwnedFd>,
    name: ComponentBuf,
    book: Arc<Book>,
    suffix: Suffix,
    keep: Partial,
    /// It was there before, and stays as it is.
    stays: bool,
    generation: u64,
    past: Arc<Past>,
    syncer: Option<Syncer>,
    /// An earlier run left files that the device may not have kept.
    unsynced: bool,
    strays: Strays,
    /// Files that an earlier run stored and the device may not have kept.
    doubt: Option<Doubt>,
    /// Complete files of the current chunk.
    completions: Vec<Completion>,
    finished: Finishing,
    completed_bytes: u64,
    /// Length of the partial file that the newest slot names; 0 if none.
    partial_len: u64,
    /// The partial file of an earlier run is in use, or was replaced.
    partial_is_gone: bool,
    is_removed: bool,
    over: bool,
}

/// A file that is partly stored.
pub(super) struct PartialFile<'a> {
    /// Path within the transfer.
    pub(super) path: &'a [u8],
    /// Its path below the journal's directory, once it is complete.
    pub(super) place: &'a [u8],
    pub(super) fingerprint: Fingerprint,
    pub(super) file: &'a Arc<OwnedFd>,
    pub(super) directory: &'a Arc<OwnedFd>,
    pub(super) len: u64,
    pub(super) stack: Vec<[u8; 32]>,
}

impl Journal {
    /// Locks the destination and loads what earlier runs of the same transfer left; what others left is
    /// removed. `None`: the file system has no locks, or no room for a journal.
    pub(super) fn open(spec: &JournalSpec<'_>, notices: &mut Vec<String>) -> Result<Option<Journal>> {
        let name = journal_name(spec.top);
        let key = names::key(spec.top, spec.sources);
        let (transfer_id, client, destination) = (spec.transfer_id, spec.client, spec.destination);
        let asker = Asker { transfer_id, client, key, destination, sight: spec.terms.sight };
        let locked = lock::lock(spec.directory, name.as_component(), &asker)?;
        // A journal that says nothing lost its content, perhaps with files beside it.
        let Some((file, strays)) = locked.or_told(spec.terms.sight, name.as_component(), notices) else {
            return Ok(None);
        };
        let (boot, suffix) = (tenure(&file.0), suffix_for(&file.0));
        let (since, is_ours) = (Doubt::since(&file.0), lock::is_ours_alone(&file.0, spec.directory));
        let store: Arc<dyn Store> = Arc::new(file);
        let loaded = match Book::load(Arc::clone(&store), boot, spec.budget) {
            Ok(loaded) => Some(loaded),
            Err(LoadError::Unreadable(why)) if says_nothing(why, is_ours) => None,
            Err(LoadError::Unreadable(Unreadable::Foreign)) if lock::is_in_others_hands(spec.directory) => {
                // A file of this user's that another one has given the journal's name.
                notices.extend(lock::planted(spec.terms.sight, name.as_component()));
                return Ok(None);
            }
            Err(error) => return Err(unusable(name.as_bytes(), error)),
        };
        let doubts = doubt::is_due(loaded.as_ref(), &*store, strays);
        let stays = spec.keep == Partial::Untouched && (loaded.is_some() || strays == Strays::Possible);
        let strays = if loaded.is_none() { strays } else { Strays::None };
        let same = match loaded.map(|loaded| whose(spec, &key, &*store, loaded)) {
            Some(Whose::NotForUs) => return Ok(None),
            Some(Whose::Others(other)) => {
                unfinished::remove(spec, &other);
                None
            }
            Some(Whose::Ours(loaded)) => Some(loaded),
            None => None,
        };
        let past_of = |left| Past::new(left, spec.terms.overwrite, spec.may_repeat);
        let (book, suffix, past, unsynced, strays) = if let Some(loaded) = same {
            let Loaded { completions, kept, current, settled, origin, .. } = loaded;
            let past = past_of(Left { completions, kept, current, settled, suffix: origin.suffix });
            (loaded.book, origin.suffix, past, loaded.unsynced, Strays::Possible)
        } else {
            let origin = Origin { salt: random(), suffix, key };
            let book = Book::create(store, boot, &origin);
            let past = past_of(Left::nothing(suffix, spec.budget.charge(Keeps::Journal)));
            (book, suffix, past, false, strays)
        };
        let journal = Journal {
            directory: Arc::clone(spec.directory),
            name,
            generation: read_claim(book.store(), book.salt()).generation,
            book: Arc::new(book),
            suffix,
            keep: spec.keep,
            stays,
            partial_len: past.current().map_or(0, |current| current.len),
            partial_is_gone: false,
            past: Arc::new(past),
            syncer: None,
            unsynced,
            strays,
            doubt: doubts.then_some(since),
            completions: Vec::new(),
            finished: Finishing::default(),
            completed_bytes: 0,
            is_removed: false,
            over: false,
        };
        journal.sign(spec);
        Ok(Some(journal))
    }

    /// Says who holds the lock, and that nobody wants it yet.
    fn sign(&self, spec: &JournalSpec<'_>) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (salt, store) = (self.book.salt(), self.book.store());
        let (claim, claim_at) =
            encode_claim(salt, &Claim { generation: self.generation, ..Claim::default() });
        let holder = Holder::new(spec.transfer_id, since, spec.client, spec.holder);
        let (holder, holder_at) = encode_holder(salt, &holder);
        if self.doubt.is_some() {
            doubt::remember(salt, store);
        }
        // Without them, others are refused without learning by whom.
        let _ = store.write_at(&claim, claim_at).and_then(|()| store.write_at(&holder, holder_at));
    }

    /// The suffix of this transfer's temporary names.
    pub(super) fn suffix(&self) -> Suffix {
        self.suffix
    }

    /// What earlier runs may have stored that the device has not kept; `None` if it has all.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        self.doubt
    }

    /// What earlier runs stored; `None` if nothing.
    pub(super) fn history(&self, view: View) -> Option<History> {
        (!self.past.is_empty()).then(|| History::new(Arc::clone(&self.past), view))
    }

    /// The partial file that an earlier run left of this source, up to `len`, to go on with. Returned once.
    pub(super) fn take_partial(&mut self, source: &Fingerprint, len: u64) -> Option<Current> {
        let current =
            self.past.current().filter(|current| current.fingerprint == *source && current.len == len)?;
        (!std::mem::replace(&mut self.partial_is_gone, true)).then(|| current.clone())
    }

    /// The place of the partial file that an earlier run left, its suffix, and what it is known by.
    pub(super) fn unfinished(&self) -> Option<(Vec<u8>, Suffix, Current)> {
        self.past.current().map(|current| (current.place.clone(), self.suffix, current.clone()))
    }

    /// Whether states are still recorded.
    pub(super) fn records(&self) -> bool {
        self.keep == Partial::Keep && !self.book.has_failed()
    }

    pub(super) fn watch(&self) -> TakeoverWatch {
        TakeoverWatch::new(Arc::downgrade(&self.book), self.generation)
    }

    /// A file of `path` is complete and has its name.
    pub(super) fn completed(
        &mut self,
        path: &[u8],
        source: Fingerprint,
        file: &Arc<OwnedFd>,
        directory: &Arc<OwnedFd>,
    ) {
        if self.keep != Partial::Keep {
            return;
        }
        // It is stored all the same, only not remembered.
        let Ok(stat) = fstat(file) else { return };
        let index = self.completions.len() as u64;
        self.completions.push(Completion { source, destination: destination_mark(&stat) });
        self.completed_bytes += u64::try_from(stat.st_size).unwrap_or(0);
        self.finished.push(Finished {
            path: path.to_vec(),
            file: Arc::clone(file),
            directory: Arc::clone(directory),
            device: stat.st_dev,
            index,
        });
    }

    /// A link, device, fifo or socket of `path` is made.
    pub(super) fn made(&mut self, path: &[u8], stat: &Stat) {
        if self.keep == Partial::Keep {
            let source = fingerprint(path, &Identity::default());
            self.completions.push(Completion { source, destination: destination_mark(stat) });
        }
    }

    /// Records what was completed since the last call, and the file that is partly stored. Returns the files
    /// that the device failed to keep.
    pub(super) fn checkpoint(&mut self, partial: Option<PartialFile<'_>>) -> Vec<NotKept> {
        if self.keep != Partial::Keep {
            return Vec::new();
        }
        let len = partial.as_ref().map_or(0, |partial| partial.len);
        if !self.completions.is_empty() || len > 0 || self.partial_len > 0 {
            self.record(partial);
            self.partial_len = len;
        }
        self.syncer.as_ref().map(Syncer::take_not_kept).unwrap_or_default()
    }

    fn record(&mut self, partial: Option<PartialFile<'_>>) {
        let (first, _) = self.book.totals();
        let unfinished = partial.as_ref().map(|partial| Unfinished {
            path: partial.path.to_vec(),
            fingerprint: partial.fingerprint,
            file: Arc::clone(partial.file),
            directory: Arc::clone(partial.directory),
        });
        let current = partial.and_then(|partial| {
            Some(Current {
                fingerprint: partial.fingerprint,
                place: partial.place.to_vec(),
                inode: inode_of(&fstat(partial.file).ok()?),
                len: partial.len,
                stack: partial.stack,
                birth: at::birth(partial.file),
            })
        });
        let snapshot = self.book.record(&self.completions, self.completed_bytes, current);
        self.completions.clear();
        self.completed_bytes = 0;
        let mut finished = std::mem::take(&mut self.finished);
        let Some(snapshot) = snapshot else { return };
        finished.count_from(first);
        if self.syncer.is_none() {
            // Without the thread, what was stored outlives a kill, but not a power cut.
            let settle = if self.unsynced { open_self(&self.directory).map(Some) } else { Ok(None) };
            self.syncer = settle
                .ok()
                .and_then(|settle| Syncer::start(Arc::clone(&self.book), self.health(), settle).ok());
        }
        if let Some(syncer) = &self.syncer {
            syncer.hand_over(snapshot, unfinished, finished);
        }
    }

    /// The temporary file of `place` is about to be made anew or removed.
    pub(super) fn release(&mut self, place: &[u8]) {
        self.partial_is_gone |= self.past.current().is_some_and(|current| current.place == place);
        if self.book.release(place).is_err() {
            // What still names it must not be found, but the suffix must: files may have it.
            (self.partial_len, self.strays) = (0, Strays::Possible);
            if self.book.clear().is_err() {
                self.remove();
            }
        }
    }

    /// Something could not be stored: what is in doubt may be among it, so the next run has to know.
    pub(super) fn was_not_stored(&mut self) {
        self.stays |= self.doubt.is_some();
    }

    /// Where to note how calls at the destination fail.
    pub(super) fn health(&self) -> Health {
        Health::new(&self.book, &self.directory)
    }

    /// The transfer is complete: nothing stays, not even a partial file that it did not go on with.
    pub(super) fn finish(mut self) {
        self.over = true;
        if !self.stays
            && let Some(current) = self.past.current()
        {
            // It is another file where it was made anew, or has its name.
            unfinished::remove_partial(&self.directory, current, &self.suffix);
        }
        if self.stays {
            self.end_early();
        } else {
            self.remove();
        }
    }

    /// Likewise, and the device keeps that: with its sources the command goes that would remove it.
    pub(super) fn finish_for_good(self) -> std::result::Result<(), Errno> {
        let directory = open_self(&self.directory)?;
        self.finish();
        keep::file(directory)
    }

    /// The transfer ends early, its last state recorded: what stays, if anything.
    pub(super) fn suspend(mut self) -> Option<Suspended> {
        self.over = true;
        self.end_early()
    }

    fn end_early(&mut self) -> Option<Suspended> {
        let (files, bytes) = self.book.totals();
        let keeps_nothing = files == 0 && self.partial_len == 0;
        let has_none = self.keep != Partial::Keep || (keeps_nothing && self.strays == Strays::None);
        if has_none && !self.stays {
            self.remove();
            return None;
        }
        // The thread may hold the lock for one more call: the next run waits for it.
        let (salt, store) = (self.book.salt(), self.book.store());
        let claim = Claim { ending: true, ..read_claim(store, salt) };
        let (bytes_of_claim, at) = encode_claim(salt, &claim);
        // Without it the next run waits its full time for the lock.
        let _ = store.write_at(&bytes_of_claim, at);
        (!keeps_nothing).then_some(Suspended { files, bytes: bytes + self.partial_len })
    }

    fn remove(&mut self) {
        // Once only, and before the lock ends: what has the name later is another run's. If it stays, it is
        // found by the next run, or by `fobs clean`.
        if !std::mem::replace(&mut self.is_removed, true) {
            let _ = at::unlink(&self.directory, self.name.as_component());
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.over {
            self.end_early();
        }
    }
}

/// Whether a journal lost its content: nothing is there, or what a power cut left in place of its beginning.
fn says_nothing(why: Unreadable, is_ours: bool) -> bool {
    why == Unreadable::Blank || (why == Unreadable::Foreign && is_ours)
}

fn unusable(name: &[u8], error: LoadError) -> Error {
    let shown = show(name);
    let message = match error {
        LoadError::Unreadable(Unreadable::Version(version)) => format!(
            "cannot go on from '{shown}': it is of version {version}, from another version of fobs; use that one, or remove it with 'fobs clean'"
        ),
        LoadError::Unreadable(_) => {
            format!(
                "cannot use '{shown}': it is not a journal of fobs, but has the name of one; move it away"
            )
        }
        LoadError::Io(errno) => sentence("read the journal", name, errno),
    };
    Error::new(ErrorKind::Destination, message)
}

fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    // Only so that parts of two journals differ.
    let _ = getrandom::fill(&mut bytes);
    bytes
}
