//! What a session may keep: every collection that grows with what a peer sends, or with a tree, is charged to
//! the one budget of its session. What does not fit is refused by name. No I/O.
//!
//! A budget may lie below that of a process, which bounds what all of its sessions have together.

use std::collections::{HashSet, TryReserveError};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, ErrorKind};
use fobs_proto::object::CHUNK_LEN_MAX;
use fobs_proto::session::{CHUNKS_MAX, MEMORY_DEFAULT};

/// Bytes that a session may keep beside its chunks, sockets and streams: hashes of 16 million names in a
/// directory, or where four million files are in a journal.
pub const KEPT_BYTES_MAX: usize = 128 << 20;
/// Bytes that the message being read and the batch being answered take at most, as objects
/// ([`VALUES_MAX`](crate::control::frame::VALUES_MAX)).
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// All of a session's memory (docs/security.md): what is in transit, what is kept, and a message.
pub const SESSION_BYTES_MAX: usize = MEMORY_DEFAULT as usize + KEPT_BYTES_MAX + MESSAGE_BYTES_MAX;
/// What a session takes before anything is in transit or kept: sockets, the lane's store, streams
/// ([`MEMORY_DEFAULT`] leaves an eighth for them), threads, and a message.
pub const SESSION_BYTES_MIN: usize = MEMORY_DEFAULT as usize / 8 + MESSAGE_BYTES_MAX;

const CHUNKS_BYTES_MAX: usize = CHUNKS_MAX as usize * CHUNK_LEN_MAX as usize;
const _: () = assert!(SESSION_BYTES_MIN + CHUNKS_BYTES_MAX + KEPT_BYTES_MAX <= SESSION_BYTES_MAX);

/// Least entries by which a vector grows: small ones are not charged one by one.
const GROWTH_MIN: usize = 16;

/// What is kept, as a sentence names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// The paths of a request.
    Sources,
    /// The names of `--files-from`.
    Names,
    /// Filter rules, of the request and of directories.
    Rules,
    /// Subdirectories that the walk has found and not entered.
    Subdirectories,
    /// The first names of files with several.
    HardLinks,
    /// Batches of a listing, and decisions on them.
    Survey,
    /// Hashes of the names that the sources have in a directory.
    Seen,
    /// The listing of a directory that is looked through, or removed.
    Listing,
    /// What is to be deleted.
    Deletions,
    /// Hashes of backups that were made.
    Backups,
    /// Files of several names whose first is sent again.
    Resent,
    /// Links of `--link-dest` that wait.
    Links,
    /// Sources that are to be removed.
    Removals,
    /// What a journal of an earlier run says.
    Journal,
    /// Files of other programs that are to be continued.
    Adoptions,
    /// Names that a hard link may lead to, or may not.
    Linkable,
    /// Answers about files by name.
    Answers,
    /// Chunks in transit; they count for the process only.
    Chunks,
    /// A session by itself: threads, sockets, buffers; likewise.
    Session,
}

impl Keeps {
    /// In a sentence, and what its reader can do.
    fn words(self) -> (&'static str, &'static str) {
        let part = "copy parts of the tree one by one";
        match self {
            Keeps::Sources => ("the paths of the request", "name fewer at once, or their directory"),
            Keeps::Names => ("the names of --files-from", "split the list"),
            Keeps::Rules => ("the filter rules", "use fewer, or patterns in place of names"),
            Keeps::Subdirectories => ("the names of a directory's subdirectories", part),
            Keeps::HardLinks => ("the first names of hard links", part),
            Keeps::Survey => ("the listing and the decisions on it", part),
            Keeps::Seen | Keeps::Listing => ("the names in a directory", part),
            Keeps::Deletions => ("the names to delete", "run the sync again"),
            Keeps::Backups => ("the backups that were made", part),
            Keeps::Resent => ("the hard links to make anew", part),
            Keeps::Links => ("the links to unchanged files", part),
            Keeps::Removals => ("the sources to remove", "sync again"),
            Keeps::Journal => ("the journal of an earlier run", part),
            Keeps::Adoptions => ("the files to continue", part),
            Keeps::Linkable => ("the names that hard links may lead to", part),
            Keeps::Answers => ("the answers", "ask for a part"),
            Keeps::Chunks => ("the data in transit", "try again later, or allow fewer sessions at once"),
            Keeps::Session => {
                ("the sessions and what they keep", "try again later, or allow fewer sessions at once")
            }
        }
    }
}

/// Why something cannot be kept: one sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    what: Keeps,
    why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The session's budget.
    Session { max: usize },
    /// That of all sessions of the process.
    Process { max: usize },
    /// The allocation failed.
    Host,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, advice) = self.what.words();
        match self.why {
            Why::Session { max } => {
                write!(
                    f,
                    "{what} and what else is kept take more than the {} a session may keep; {advice}",
                    Size(max)
                )
            }
            Why::Process { max } => {
                write!(
                    f,
                    "{what} take more than the {} that all sessions of this server may use; {advice}",
                    Size(max)
                )
            }
            Why::Host => write!(f, "the host has no memory left for {what}; {advice}"),
        }
    }
}

impl std::error::Error for Spent {}

impl From<Spent> for Error {
    fn from(spent: Spent) -> Error {
        let kind = match (spent.what, spent.why) {
            (_, Why::Process { .. }) => ErrorKind::Connect,
            (_, Why::Host) => ErrorKind::FileIo,
            (Keeps::Sources | Keeps::Names | Keeps::Rules | Keeps::Answers, _) => ErrorKind::Usage,
            _ => ErrorKind::FileIo,
        };
        Error::new(kind, spent.to_string())
    }
}

impl Spent {
    /// The same, of the budget of a process.
    fn of_process(self, budget: &MemoryBudget) -> Spent {
        Spent { why: Why::Process { max: budget.0.max }, ..self }
    }
}

/// Bytes for a reader: whole MiB where there are any.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 >> 20 {
            0 => write!(f, "{} bytes", self.0),
            mib => write!(f, "{mib} MiB"),
        }
    }
}

/// The memory of a session, or of all sessions of a process. Clones share it.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<Purse>);

#[derive(Debug)]
struct Purse {
    used: AtomicUsize,
    max: usize,
    above: Option<MemoryBudget>,
    /// What the session takes by itself.
    _own: Option<Charge>,
}

impl Default for MemoryBudget {
    /// That of a session by itself.
    fn default() -> MemoryBudget {
        MemoryBudget::of(KEPT_BYTES_MAX)
    }
}

impl MemoryBudget {
    /// So many bytes.
    pub fn of(max: usize) -> MemoryBudget {
        MemoryBudget(Arc::new(Purse { used: AtomicUsize::new(0), max, above: None, _own: None }))
    }

    /// A session's, of which everything counts here too, and `own` bytes from the beginning.
    ///
    /// # Errors
    /// All sessions together have no room for it.
    pub fn session_below(&self, own: usize) -> Result<MemoryBudget, Spent> {
        let mut charge = self.charge(Keeps::Session);
        charge.grow(own).map_err(|spent| spent.of_process(self))?;
        let (used, above) = (AtomicUsize::new(0), Some(self.clone()));
        Ok(MemoryBudget(Arc::new(Purse { used, max: KEPT_BYTES_MAX, above, _own: Some(charge) })))
    }

    /// Nothing yet, to be charged to it as it grows.
    pub fn charge(&self, what: Keeps) -> Charge {
        Charge { budget: self.clone(), what, bytes: 0 }
    }

    /// What counts for the process only: it is bounded by itself in a session.
    ///
    /// # Errors
    /// All sessions together have no room for it.
    pub fn outside(&self, what: Keeps, bytes: usize) -> Result<Charge, Spent> {
        let budget = self.0.above.clone().unwrap_or_else(|| MemoryBudget::of(usize::MAX));
        let mut charge = budget.charge(what);
        charge.grow(bytes).map_err(|spent| spent.of_process(&budget))?;
        Ok(charge)
    }

    /// Bytes charged.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    fn left(&self) -> usize {
        let left = self.0.max.saturating_sub(self.0.used.load(Ordering::Relaxed));
        self.0.above.as_ref().map_or(left, |above| left.min(above.left()))
    }

    fn take(&self, bytes: usize) -> Result<(), Why> {
        let Purse { used, max, above, _own: _ } = &*self.0;
        let fits = |now: usize| now.checked_add(bytes).filter(|sum| sum <= max);
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .map_err(|_| Why::Session { max: *max })?;
        let Some(process) = above else { return Ok(()) };
        process.take(bytes).map_err(|_| {
            used.fetch_sub(bytes, Ordering::Relaxed);
            Why::Process { max: process.0.max }
        })
    }

    fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(above) = &self.0.above {
            above.give_back(bytes);
        }
    }
}

/// What one collection is charged. Dropped, it is given back.
#[derive(Debug)]
pub struct Charge {
    budget: MemoryBudget,
    what: Keeps,
    bytes: usize,
}

impl Charge {
    /// Charges so many bytes more.
    ///
    /// # Errors
    /// They do not fit: nothing is charged.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Spent> {
        let what = self.what;
        self.budget.take(bytes).map_err(|why| Spent { what, why })?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives back some of it.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.give_back(bytes);
    }

    /// Nothing yet, for something else of the same kind.
    pub fn another(&self) -> Charge {
        self.budget.charge(self.what)
    }

    /// Bytes that could be charged now.
    pub fn left(&self) -> usize {
        self.budget.left()
    }

    /// Bytes charged.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes room for `more` entries of a vector, charged by its capacity; it grows by half.
    ///
    /// # Errors
    /// There is none: the vector is as it was.
    pub fn room_in_vec<T>(&mut self, vec: &mut Vec<T>, more: usize) -> Result<(), Spent> {
        if vec.capacity() - vec.len() >= more {
            return Ok(());
        }
        let growth = more.max(vec.len() / 2).max(GROWTH_MIN);
        let before = vec.capacity();
        self.grow(growth.saturating_mul(size_of::<T>()))?;
        let reserved = vec.try_reserve_exact(growth);
        let grown = (vec.capacity() - before) * size_of::<T>();
        self.settle(growth * size_of::<T>(), grown, reserved)
    }

    /// Adds to a vector.
    ///
    /// # Errors
    /// As [`room_in_vec`](Self::room_in_vec).
    pub fn push<T>(&mut self, vec: &mut Vec<T>, value: T) -> Result<(), Spent> {
        self.room_in_vec(vec, 1)?;
        vec.push(value);
        Ok(())
    }

    /// Adds to a set; while its table is made anew, both count.
    ///
    /// # Errors
    /// There is no room: the set is as it was.
    pub fn insert<T: Eq + Hash, S: BuildHasher>(
        &mut self,
        set: &mut HashSet<T, S>,
        value: T,
    ) -> Result<(), Spent> {
        if set.len() == set.capacity() {
            let before = table_bytes::<T>(set.capacity());
            // One more entry than fits doubles the table.
            let after = table_bytes::<T>(set.capacity() + 1);
            self.grow(after)?;
            let reserved = set.try_reserve(1);
            self.settle(after, if reserved.is_ok() { after } else { 0 }, reserved)?;
            self.shrink(before);
        }
        set.insert(value);
        Ok(())
    }

    /// Corrects a charge after an allocation of about as much.
    fn settle(
        &mut self,
        charged: usize,
        taken: usize,
        reserved: Result<(), TryReserveError>,
    ) -> Result<(), Spent> {
        let spent = Spent { what: self.what, why: Why::Host };
        match taken.checked_sub(charged) {
            Some(more) => self.grow(more)?,
            None => self.shrink(charged - taken),
        }
        reserved.map_err(|_| spent)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

/// Bytes of a hash table with room for so many entries: at least four buckets, a power of two, one in eight of
/// which is left free, with a byte of control each.
fn table_bytes<T>(entries: usize) -> usize {
    match entries {
        0 => 0,
        _ => (entries * 8).div_ceil(7).next_power_of_two().max(4) * (size_of::<T>() + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let budget = MemoryBudget::of(2 << 20);
        let mut names = budget.charge(Keeps::Names);
        names.grow(2 << 20).expect("all of it");
        let spent = budget.charge(Keeps::Deletions).grow(1).expect_err("nothing is left");
        let sentence = "the names to delete and what else is kept take more than the 2 MiB a session may keep; \
            run the sync again";
        assert_eq!(spent.to_string(), sentence);
        assert_eq!(Error::from(spent).kind, ErrorKind::FileIo);
        drop(names);
        assert_eq!(budget.used(), 0, "what is dropped is given back");
        assert!(budget.charge(Keeps::Deletions).grow(2 << 20).is_ok());
    }

    #[test]
    fn all_sessions_together_have_a_bound() {
        let process = MemoryBudget::of(100);
        let [one, other] = [process.session_below(0), process.session_below(0)].map(|it| it.expect("room"));
        let mut kept = one.charge(Keeps::Rules);
        kept.grow(60).expect("room");
        let error = Error::from(other.charge(Keeps::Rules).grow(41).expect_err("one byte too many"));
        assert!(
            error.kind == ErrorKind::Connect && error.message.contains("all sessions of this server"),
            "{error}"
        );
        assert_eq!((one.used(), other.used(), process.used()), (60, 0, 60), "a refusal leaves nothing");
        let chunk = other.outside(Keeps::Chunks, 40).expect("room");
        assert_eq!((other.used(), process.used()), (0, 100), "chunks count for the process only");
        assert!(one.outside(Keeps::Chunks, 1).is_err());
        drop((kept, chunk));
        let third = process.session_below(70).expect("room");
        let error = Error::from(process.session_below(31).expect_err("30 are left"));
        assert!(
            error.kind == ErrorKind::Connect
                && error.message.contains("the sessions and what they keep take"),
            "{error}"
        );
        drop(third);
        assert_eq!(process.used(), 0);
    }

    #[test]
    fn vectors_and_sets_are_charged_by_what_they_take() {
        let budget = MemoryBudget::of(1 << 20);
        let mut charge = budget.charge(Keeps::Seen);
        let (mut vec, mut set) = (Vec::new(), HashSet::new());
        for value in 0..20_000_u64 {
            charge.push(&mut vec, value).expect("room");
        }
        assert_eq!(charge.bytes(), vec.capacity() * 8);
        assert!(vec.capacity() <= 20_000 * 3 / 2 + GROWTH_MIN);
        let before = charge.bytes();
        for value in 0..20_000_u64 {
            charge.insert(&mut set, value).expect("room");
        }
        // hashbrown: buckets of 8 bytes and one of control each, seven of eight in use.
        let buckets = (set.capacity() * 8).div_ceil(7).next_power_of_two();
        assert_eq!(charge.bytes() - before, buckets * 9);
        let more = (20_000..).take_while(|&value| charge.insert(&mut set, value).is_ok()).count();
        assert!(more > 0 && budget.used() <= 1 << 20, "{more}");
    }

    /// What is kept, in the order of the tables of protocol 8.1.
    const ALL: [Keeps; 19] = [
        Keeps::Sources,
        Keeps::Names,
        Keeps::Rules,
        Keeps::Subdirectories,
        Keeps::HardLinks,
        Keeps::Survey,
        Keeps::Seen,
        Keeps::Listing,
        Keeps::Deletions,
        Keeps::Backups,
        Keeps::Resent,
        Keeps::Links,
        Keeps::Removals,
        Keeps::Journal,
        Keeps::Adoptions,
        Keeps::Linkable,
        Keeps::Answers,
        Keeps::Session,
        Keeps::Chunks,
    ];

    #[test]
    fn the_documents_list_what_is_kept() {
        let protocol = include_str!("../../../docs/protocol.md");
        let (_, table) = protocol.split_once("8.1 **What a session keeps.**").expect("its section");
        let mut rest = table;
        for what in ALL {
            let row = format!("\n| {} |", what.words().0);
            if what != Keeps::Listing {
                rest = rest.split_once(&row).unwrap_or_else(|| panic!("no row {row}")).1;
            }
        }
        let mib = |bytes: usize| format!("{} MiB", bytes >> 20);
        assert!(protocol.contains(&format!("one\nbudget of {} for each", mib(KEPT_BYTES_MAX))));
        assert!(table.contains(&format!("| {} for each |", mib(SESSION_BYTES_MIN))));
        let security = include_str!("../../../docs/security.md");
        let promise = format!("memory: {} for each session, at most", mib(SESSION_BYTES_MAX));
        assert!(security.contains(&promise), "{promise}");
    }

    #[test]
    fn an_allocation_that_fails_is_an_error() {
        let budget = MemoryBudget::of(usize::MAX);
        let mut charge = budget.charge(Keeps::Journal);
        let mut vec: Vec<u8> = Vec::new();
        let spent = charge.room_in_vec(&mut vec, isize::MAX as usize / 2).expect_err("no host has that");
        assert!(spent.to_string().starts_with("the host has no memory left for the journal"), "{spent}");
        assert_eq!(budget.used(), 0);
    }
}
