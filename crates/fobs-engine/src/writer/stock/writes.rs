//! Chunks of a large file that are written beside each other, by the threads that are free: begun in order,
//! written in any, settled in order.

use super::{Arrived, End, Stock, WAITING_MIN};
use fobs_proto::ChunkId;
use fobs_store::{Apart, WrittenApart};
use fobs_sys::PageBuffer;
use std::collections::{BTreeMap, VecDeque};

/// Most chunks that are begun and not settled: two for each thread that may write, so that none waits for the
/// oldest.
const BEGUN_MAX: usize = 16;

/// A chunk to be written.
pub(crate) struct WriteTask {
    pub(crate) chunk: ChunkId,
    pub(crate) buffer: PageBuffer,
    pub(crate) len: usize,
    /// The second buffer of a packed chunk.
    pub(crate) unpacked: Option<Vec<u8>>,
    pub(crate) apart: Apart,
}

/// One that was.
pub(crate) struct Written {
    pub(crate) chunk: ChunkId,
    pub(crate) buffer: PageBuffer,
    pub(crate) unpacked: Option<Vec<u8>>,
    pub(crate) result: WrittenApart,
}

/// What a hand does next.
pub(crate) enum Task {
    Write(WriteTask),
    /// With a second buffer for a packed chunk.
    Check(Arrived, Option<Vec<u8>>),
}

/// See [`Stock::await_writes`].
pub(crate) enum Awaited {
    Settle(Written),
    Write(WriteTask),
    /// Nothing is begun.
    Nothing,
    /// The session ends.
    Leave,
}

/// Chunks that are begun and not settled.
#[derive(Default)]
pub(super) struct Writes {
    /// Their numbers, oldest first.
    begun: VecDeque<ChunkId>,
    /// Those that nobody writes yet, oldest first.
    waiting: VecDeque<WriteTask>,
    /// How many are being written.
    in_hand: usize,
    written: BTreeMap<ChunkId, Written>,
    /// How many were begun so far.
    #[cfg(test)]
    in_all: usize,
}

impl Writes {
    pub(super) fn have_room(&self) -> bool {
        self.begun.len() < BEGUN_MAX
    }

    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The oldest one, if it is written.
    pub(super) fn pop_written(&mut self) -> Option<Written> {
        let written = self.written.remove(self.begun.front()?)?;
        self.begun.pop_front();
        Some(written)
    }

    /// One to be written by the caller.
    pub(super) fn pop_waiting(&mut self) -> Option<WriteTask> {
        let task = self.waiting.pop_front()?;
        self.in_hand += 1;
        Some(task)
    }
}

impl WriteTask {
    /// Writes it.
    pub(crate) fn write(self, stock: &Stock) {
        let in_hand = InHand(stock);
        let WriteTask { chunk, buffer, len, unpacked, apart } = self;
        let result = apart.write(&buffer[..len], unpacked.as_deref().unwrap_or_default());
        stock.lock().writes.written.insert(chunk, Written { chunk, buffer, unpacked, result });
        drop(in_hand);
    }
}

/// A chunk is being written. Dropped, it is no more, even if its thread panics: the storing thread waits for
/// that.
struct InHand<'s>(&'s Stock);

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.0.lock().writes.in_hand -= 1;
        self.0.news.notify_all();
    }
}

impl Stock {
    /// Whether chunks wait behind the next one, or are begun: then it is written beside them.
    pub(crate) fn is_busy(&self) -> bool {
        let shelves = self.lock();
        !shelves.writes.begun.is_empty() || shelves.verified.len() + shelves.arrived.len() >= WAITING_MIN
    }

    /// Whether chunks are begun and not settled.
    pub(crate) fn has_begun(&self) -> bool {
        !self.lock().writes.begun.is_empty()
    }

    /// The next chunk is to be written by the first thread that is free.
    pub(crate) fn begin(&self, task: WriteTask) {
        let mut shelves = self.lock();
        shelves.next += 1;
        shelves.unpacked += usize::from(task.unpacked.is_some());
        shelves.writes.begun.push_back(task.chunk);
        shelves.writes.waiting.push_back(task);
        #[cfg(test)]
        {
            shelves.writes.in_all += 1;
        }
        self.news.notify_all();
    }

    /// A chunk that was begun is settled; with its second buffer, if it has one.
    pub(crate) fn is_settled(&self, unpacked: Option<Vec<u8>>) {
        if unpacked.is_some() {
            let mut shelves = self.lock();
            shelves.unpacked -= 1;
            shelves.spare.extend(unpacked);
            self.news.notify_all();
        }
    }

    /// What there is to do until nothing is begun any more; waits for it.
    pub(crate) fn await_writes(&self) -> Awaited {
        let mut shelves = self.lock();
        loop {
            if shelves.end == End::Leave {
                return Awaited::Leave;
            }
            if shelves.writes.begun.is_empty() {
                return Awaited::Nothing;
            }
            if let Some(written) = shelves.writes.pop_written() {
                return Awaited::Settle(written);
            }
            if let Some(task) = shelves.writes.pop_waiting() {
                return Awaited::Write(task);
            }
            shelves = self.wait(shelves);
        }
    }

    /// How many chunks were begun so far.
    #[cfg(test)]
    pub(crate) fn begun_in_all(&self) -> usize {
        self.lock().writes.in_all
    }

    /// Nothing more is begun: once nobody writes, those before the first that is not written, in order.
    pub(crate) fn last_written(&self) -> Vec<Written> {
        let mut shelves = self.lock();
        shelves.writes.waiting.clear();
        while shelves.writes.in_hand > 0 {
            shelves = self.wait(shelves);
        }
        std::iter::from_fn(|| shelves.writes.pop_written()).collect()
    }
}
