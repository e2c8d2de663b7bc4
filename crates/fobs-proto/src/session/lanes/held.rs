//! The chunks that one lane has, in the order in which it sends them.

use super::LaneSeen;
use crate::{ChunkId, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// Unsent bytes below which a lane takes another chunk: reading that one takes less time than sending these.
const READY_BYTES: u64 = 256 << 10;
/// The same as time at the lane's rate: a few wake-ups of the threads that hand chunks over.
const READY_TIME: Duration = Duration::from_millis(10);
/// Chunks that wait for a reader on one lane.
const UNREAD_MAX: usize = 2;

/// Whether a lane is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Liveness {
    #[default]
    Answers,
    /// Not for long; it may be again.
    Silent,
    /// Never again.
    Ended,
}

/// A chunk on a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// Its number in the object.
    pub(super) chunk: ChunkId,
    /// Bytes; 0 until it is read.
    pub(super) len: u32,
    /// Another lane's copy was verified first.
    is_withdrawn: bool,
}

/// One lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) liveness: Liveness,
    pub(super) seen: LaneSeen,
    /// Since when it waits for an answer, as of the last look.
    silent_since: Option<Timestamp>,
    /// Its number of the oldest chunk that it has.
    first: ChunkId,
    held: VecDeque<Held>,
}

impl Lane {
    /// What is seen of it now; whether it is answered.
    pub(super) fn observe(&mut self, now: Timestamp, seen: LaneSeen, silent_after: Duration) -> Liveness {
        let is_answered = seen.answered != self.seen.answered;
        self.seen = seen;
        if self.liveness == Liveness::Ended {
            return Liveness::Ended;
        }
        if is_answered || !seen.awaits_answer && self.liveness == Liveness::Answers {
            self.silent_since = None;
            self.liveness = Liveness::Answers;
        } else if now - *self.silent_since.get_or_insert(now) >= silent_after {
            self.liveness = Liveness::Silent;
        }
        self.liveness
    }

    /// Whether it can send another chunk soon.
    pub(super) fn has_room(&self) -> bool {
        let unread = self.held.iter().rev().take_while(|held| held.len == 0).count();
        let ready = self.seen.rate.map_or(0, |rate| rate.bytes_in(READY_TIME)).max(READY_BYTES);
        // Before its first round trip it has one chunk, so that a lane that leads nowhere holds no more.
        let is_known = self.seen.rate.is_some() || self.held.is_empty();
        self.liveness == Liveness::Answers && unread < UNREAD_MAX && self.seen.unsent < ready && is_known
    }

    pub(super) fn has(&self, chunk: ChunkId) -> bool {
        self.held.iter().any(|held| held.chunk == chunk)
    }

    pub(super) fn give(&mut self, chunk: ChunkId) {
        self.held.push_back(Held { chunk, len: 0, is_withdrawn: false });
    }

    /// A chunk is read; its number here if it is not wanted any more.
    pub(super) fn set_len(&mut self, chunk: ChunkId, len: u32) -> Option<ChunkId> {
        let (place, held) = (self.first..).zip(&mut self.held).find(|(_, held)| held.chunk == chunk)?;
        held.len = len;
        held.is_withdrawn.then_some(place)
    }

    /// The oldest chunk is done.
    pub(super) fn pop(&mut self) -> Option<Held> {
        let held = self.held.pop_front()?;
        self.first += 1;
        Some(held)
    }

    /// Another lane was first: the chunk's number here, if it is still sent.
    pub(super) fn withdraw(&mut self, chunk: ChunkId) -> Option<ChunkId> {
        let ended = self.liveness == Liveness::Ended;
        let (place, held) = (self.first..).zip(&mut self.held).find(|(_, held)| held.chunk == chunk)?;
        let is_sent = !ended && held.len > 0 && !held.is_withdrawn;
        held.is_withdrawn = true;
        is_sent.then_some(place)
    }

    /// Chunks that it has and that are wanted.
    pub(super) fn waiting(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.held.iter().filter(|held| !held.is_withdrawn).map(|held| held.chunk)
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Held> {
        self.held.iter().rev().filter(|held| !held.is_withdrawn)
    }

    /// When a chunk that ends these bytes would be known to have arrived.
    pub(super) fn time_for(&self, bytes: u64) -> Duration {
        self.seen.rate.map_or(Duration::MAX, |rate| rate.time_for(bytes).saturating_add(self.seen.round_trip))
    }
}
