//! What a session may keep: every collection that grows with what a peer sends, or with a tree, is charged to
//! the one budget of its session. What does not fit is refused by name. No I/O.
//!
//! A budget may lie below that of a process, which bounds what all of its sessions have together.

mod keeps;

use std::collections::{HashSet, TryReserveError};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use keeps::Why;
pub use keeps::{Keeps, Spent};

use fobs_proto::object::CHUNK_LEN_MAX;
use fobs_proto::session::{MEMORY_DEFAULT_MAX, chunks_within, memory_within};

/// Bytes that a session may keep beside its chunks, sockets and streams: hashes of 16 million names in a
/// directory, or where four million files are in a journal.
pub const KEPT_BYTES_MAX: usize = 128 << 20;
/// Bytes that the message being read and the batch being answered take at most, as objects
/// (`VALUES_MAX`).
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// A session's memory beside what is in transit: what is kept, and a message.
pub const SESSION_KEPT_MAX: usize = KEPT_BYTES_MAX + MESSAGE_BYTES_MAX;
/// All of a session's memory (docs/security.md), on a host that has plenty.
pub const SESSION_BYTES_MAX: usize = MEMORY_DEFAULT_MAX as usize + SESSION_KEPT_MAX;
/// What a session takes before anything is in transit or kept: 32 MiB of sockets, the lane's store, streams
/// and threads, and a message.
pub const SESSION_BYTES_MIN: usize = (32 << 20) + MESSAGE_BYTES_MAX;

const CHUNKS_BYTES_MAX: usize = chunks_within(MEMORY_DEFAULT_MAX) as usize * CHUNK_LEN_MAX as usize;
const _: () = assert!(SESSION_BYTES_MIN + CHUNKS_BYTES_MAX + KEPT_BYTES_MAX <= SESSION_BYTES_MAX);

/// Least entries by which a vector grows: small ones are not charged one by one.
const GROWTH_MIN: usize = 16;

/// The memory of a session, or of all sessions of a process. Clones share it.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<Purse>);

#[derive(Debug)]
struct Purse {
    used: AtomicUsize,
    /// What transfers below it may have in transit.
    allotted: AtomicU64,
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
    /// A budget of `max` bytes.
    pub fn of(max: usize) -> MemoryBudget {
        MemoryBudget(Arc::new(Purse {
            used: AtomicUsize::new(0),
            allotted: AtomicU64::new(0),
            max,
            above: None,
            _own: None,
        }))
    }

    /// A session's, of which everything counts here too, and `own` bytes from the beginning.
    ///
    /// # Errors
    /// All sessions together have no room for it.
    pub fn session_below(&self, own: usize) -> Result<MemoryBudget, Spent> {
        let mut charge = self.charge(Keeps::Session);
        charge.grow(own).map_err(|spent| spent.of_process(self.0.max))?;
        Ok(MemoryBudget(Arc::new(Purse {
            used: AtomicUsize::new(0),
            allotted: AtomicU64::new(0),
            max: KEPT_BYTES_MAX,
            above: Some(self.clone()),
            _own: Some(charge),
        })))
    }

    /// What one more transfer may have in transit while this many bytes are available to the process: a share
    /// of them, or of what all sessions together have left, whichever is less.
    pub fn allot(&self, available: u64) -> Allotment {
        let process = self.0.above.as_ref();
        let left = process.map_or(u64::MAX, |process| {
            let Purse { used, allotted, max, .. } = &*process.0;
            let taken = (used.load(Ordering::Relaxed) as u64).max(allotted.load(Ordering::Relaxed));
            (*max as u64).saturating_sub(taken)
        });
        let bytes = memory_within(available.min(left));
        if let Some(process) = process {
            process.0.allotted.fetch_add(bytes, Ordering::Relaxed);
        }
        Allotment { bytes, process: process.cloned() }
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
        charge.grow(bytes).map_err(|spent| spent.of_process(budget.0.max))?;
        Ok(charge)
    }

    /// Bytes charged.
    #[cfg(any(test, feature = "testing"))]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    fn left(&self) -> usize {
        let left = self.0.max.saturating_sub(self.0.used.load(Ordering::Relaxed));
        self.0.above.as_ref().map_or(left, |above| left.min(above.left()))
    }

    fn take(&self, bytes: usize) -> Result<(), Why> {
        let Purse { used, max, above, .. } = &*self.0;
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

/// What one transfer may have in transit. Dropped, others may.
#[derive(Debug)]
pub struct Allotment {
    bytes: u64,
    process: Option<MemoryBudget>,
}

impl Allotment {
    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Chunks that it holds.
    pub fn chunks(&self) -> u32 {
        chunks_within(self.bytes)
    }
}

impl Drop for Allotment {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            process.0.allotted.fetch_sub(self.bytes, Ordering::Relaxed);
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
    /// Charges that many bytes more.
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

/// Bytes of a hash table with room for `entries`: at least four buckets, a power of two, one in eight
/// of which is left free, with a byte of control each.
fn table_bytes<T>(entries: usize) -> usize {
    match entries {
        0 => 0,
        _ => (entries * 8).div_ceil(7).next_power_of_two().max(4) * (size_of::<T>() + 1),
    }
}

#[cfg(test)]
mod tests;
