//! Chunks from their arrival to their turn in the file: what the thread that stores shares with the hands
//! that verify and write beside it.

mod writes;

pub(super) use writes::{Awaited, Task, WriteTask, Written};

use fobs_proto::ChunkId;
use fobs_store::{Verified, needs_scratch};
use fobs_sys::PageBuffer;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use writes::Writes;

/// Chunks that wait before one more hand starts, and before chunks are written beside each other: with fewer
/// the storing thread is nearly done.
const WAITING_MIN: usize = 2;
/// Unpacked bodies that wait for their turn, for each hand: each is as long as a chunk.
const UNPACKED_MAX: usize = 2;

/// A chunk that has arrived and is not verified.
pub(super) struct Arrived {
    pub(super) chunk: ChunkId,
    pub(super) buffer: PageBuffer,
    pub(super) len: usize,
    /// Whether verifying it takes a second buffer.
    pub(super) packed: bool,
}

/// A verified chunk.
pub(super) struct Held {
    pub(super) chunk: ChunkId,
    pub(super) buffer: PageBuffer,
    pub(super) len: usize,
    pub(super) verified: Verified,
    /// The second buffer of a packed chunk.
    pub(super) unpacked: Option<Vec<u8>>,
}

/// What the storing thread does next.
pub(super) enum Step {
    Store(Held),
    Check(Arrived),
    /// The oldest chunk that was begun is written.
    Settle(Written),
    /// No hand is free for this one.
    Write(WriteTask),
    /// All is stored.
    Finish,
    /// The receiving thread is gone, or a hand has failed: what is still to be stored is not wanted.
    Leave,
}

/// See [`Stock::turn`].
pub(super) struct Turn {
    pub(super) step: Step,
    /// Bytes that have arrived since the last turn.
    pub(super) arrived: usize,
    /// Whether one more hand would have something to do.
    pub(super) wants_hand: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Finish,
    Leave,
}

/// What has arrived, and what is next.
struct Shelves {
    /// The chunk to be stored next.
    next: ChunkId,
    /// Both hold at most the receiver's credit of chunks.
    arrived: BTreeMap<ChunkId, Arrived>,
    verified: BTreeMap<ChunkId, Held>,
    /// Bytes since the last turn.
    bytes: usize,
    hands: usize,
    idle: usize,
    /// Chunks that are begun and not settled: those before the next.
    writes: Writes,
    /// Second buffers of packed chunks that hands have filled or fill, and those to use again.
    unpacked: usize,
    spare: Vec<Vec<u8>>,
    end: End,
}

/// What the threads share.
pub(super) struct Stock {
    shelves: Mutex<Shelves>,
    news: Condvar,
}

impl Shelves {
    /// The first chunk that its finder may verify. Only the next one is always unpacked.
    fn to_check(&self, may_unpack: bool) -> Option<ChunkId> {
        let may = |it: &&Arrived| may_unpack || !it.packed || it.chunk == self.next;
        self.arrived.values().find(may).map(|it| it.chunk)
    }

    fn step(&mut self) -> Option<Step> {
        match self.end {
            End::Leave => return Some(Step::Leave),
            End::Finish => return Some(Step::Finish),
            End::Open => {}
        }
        if let Some(written) = self.writes.pop_written() {
            return Some(Step::Settle(written));
        }
        if self.writes.have_room()
            && let Some(held) = self.verified.remove(&self.next)
        {
            self.unpacked -= usize::from(held.unpacked.is_some());
            return Some(Step::Store(held));
        }
        match self.to_check(false) {
            Some(chunk) => self.arrived.remove(&chunk).map(Step::Check),
            None => self.writes.pop_waiting().map(Step::Write),
        }
    }

    /// Whether one more hand would have something to do.
    fn want_hand(&self) -> bool {
        self.idle == 0 && (self.arrived.len() >= WAITING_MIN || self.writes.are_waiting())
    }
}

impl Stock {
    pub(super) fn new() -> Arc<Stock> {
        let shelves = Shelves {
            next: 0,
            arrived: BTreeMap::new(),
            verified: BTreeMap::new(),
            bytes: 0,
            hands: 0,
            idle: 0,
            writes: Writes::default(),
            unpacked: 0,
            spare: Vec::new(),
            end: End::Open,
        };
        Arc::new(Stock { shelves: Mutex::new(shelves), news: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, shelves: MutexGuard<'a, Shelves>) -> MutexGuard<'a, Shelves> {
        self.news.wait(shelves).unwrap_or_else(PoisonError::into_inner)
    }

    /// A complete chunk comes.
    pub(super) fn arrives(&self, chunk: ChunkId, buffer: PageBuffer, len: usize) {
        let packed = needs_scratch(&buffer[..len]);
        let mut shelves = self.lock();
        shelves.bytes += len;
        shelves.arrived.insert(chunk, Arrived { chunk, buffer, len, packed });
        self.news.notify_all();
    }

    /// All is stored.
    pub(super) fn finish(&self) {
        self.end(End::Finish);
    }

    /// Ends all threads.
    pub(super) fn leave(&self) {
        self.end(End::Leave);
    }

    fn end(&self, end: End) {
        let mut shelves = self.lock();
        if shelves.end != End::Leave {
            shelves.end = end;
        }
        self.news.notify_all();
    }

    /// What the storing thread does next; waits for it.
    pub(super) fn turn(&self) -> Turn {
        let mut shelves = self.lock();
        loop {
            if let Some(step) = shelves.step() {
                let wants_hand = shelves.want_hand();
                return Turn { step, arrived: std::mem::take(&mut shelves.bytes), wants_hand };
            }
            shelves = self.wait(shelves);
        }
    }

    /// Counts one more hand, unless there are `max`.
    pub(super) fn admit_hand(&self, max: usize) -> bool {
        let mut shelves = self.lock();
        let admitted = shelves.hands < max;
        shelves.hands += usize::from(admitted);
        admitted
    }

    /// What a hand does next; waits for it. `None`: the session ends.
    pub(super) fn task(&self) -> Option<Task> {
        let mut shelves = self.lock();
        loop {
            if shelves.end != End::Open {
                return None;
            }
            if let Some(write) = shelves.writes.pop_waiting() {
                return Some(Task::Write(write));
            }
            let may_unpack = shelves.unpacked < shelves.hands * UNPACKED_MAX;
            if let Some(chunk) = shelves.to_check(may_unpack) {
                let task = shelves.arrived.remove(&chunk)?;
                shelves.unpacked += usize::from(task.packed);
                let unpacked = task.packed.then(|| shelves.spare.pop().unwrap_or_default());
                return Some(Task::Check(task, unpacked));
            }
            shelves.idle += 1;
            shelves = self.wait(shelves);
            shelves.idle -= 1;
        }
    }

    /// A hand has verified a chunk.
    pub(super) fn is_verified(&self, held: Held) {
        let mut shelves = self.lock();
        shelves.verified.insert(held.chunk, held);
        self.news.notify_all();
    }

    /// The storing thread has verified a chunk: given back if it is the next.
    pub(super) fn is_next(&self, held: Held) -> Option<Held> {
        let mut shelves = self.lock();
        if held.chunk == shelves.next {
            return Some(held);
        }
        shelves.verified.insert(held.chunk, held);
        None
    }

    /// A hand has found a chunk to be wrong; with its second buffer.
    pub(super) fn is_rejected(&self, unpacked: Option<Vec<u8>>) {
        let mut shelves = self.lock();
        shelves.unpacked -= usize::from(unpacked.is_some());
        shelves.spare.extend(unpacked);
    }

    /// The next chunk is stored; with its second buffer, if a hand had filled one.
    pub(super) fn is_stored(&self, unpacked: Option<Vec<u8>>) {
        let mut shelves = self.lock();
        shelves.next += 1;
        if unpacked.is_some() {
            shelves.spare.extend(unpacked);
            // A hand may have waited for it.
            self.news.notify_all();
        }
    }
}
