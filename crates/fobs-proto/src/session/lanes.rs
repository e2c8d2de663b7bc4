//! The schedule that the lanes of a session share: which lane sends which chunk.
//!
//! A lane is a whole sender and receiver with its own socket, packet numbers, recovery and controller. Each
//! numbers the chunks that it carries from 0 on; the schedule knows which chunk of the object that is. A lane
//! with room takes the next chunk. A chunk whose lane is silent goes to the others. A chunk that its lane
//! would finish later than an idle one goes there too; the copy that is verified second is withdrawn.

mod held;
mod seen;

pub use seen::LaneSeen;

use crate::{ChunkId, Timestamp};
use held::{Held, Lane, Liveness};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Most lanes of a session: as many as a host of sixteen cores can use, and more than it has addresses.
pub const LANES_MAX: usize = 16;
/// Length of what takes the place of a withdrawn chunk on its lane, bytes: room for a chunk's number.
pub const WITHDRAWN_LEN: u32 = 4;
/// A lane whose packets have had no new answer for this long sends nothing more until it has one: longer than
/// the probe timeouts of a path that only lost a burst.
const SILENT_MIN: Duration = Duration::from_secs(1);
/// And for as many round trips.
const SILENT_ROUND_TRIPS: u32 = 4;
/// Copies of a chunk: that of its lane, and that of the lane that took it over.
const COPIES_MAX: usize = 2;

/// What a lane with room sends next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneTask {
    /// The next chunk of the object, which no lane has.
    Next(ChunkId),
    /// A chunk that another lane has and has not finished.
    Again(ChunkId),
}

/// What follows from a chunk that a lane's receiver has verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneVerified {
    /// The chunk's first copy: its memory may be used again once no other lane sends it.
    First(ChunkId),
    /// Another lane was first, or the chunk was withdrawn.
    Known(ChunkId),
}

/// A copy to be withdrawn: another lane was first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Withdrawal {
    /// The lane that still sends it.
    pub lane: usize,
    /// Its number on that lane.
    pub place: ChunkId,
}

/// Counters of a schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Chunks that an idle lane took over because it would be faster.
    pub taken_over: u64,
    /// Chunks that another lane took because theirs was silent.
    pub given_up: u64,
    /// Copies that were withdrawn.
    pub withdrawn: u64,
    /// Bytes of chunks that more than one lane was given.
    pub bytes_twice: u64,
}

/// A chunk of the object that is not verified.
#[derive(Debug)]
struct Open {
    len: u32,
    /// Its lanes, in the order in which they got it.
    lanes: Vec<usize>,
    is_verified: bool,
}

/// Which lane sends which chunk. Holds at most a window of chunks.
#[derive(Debug)]
pub struct LaneSchedule {
    lanes: Vec<Lane>,
    /// Chunks below are verified.
    base: ChunkId,
    open: VecDeque<Open>,
    /// Chunks from the oldest unverified one on that may be begun.
    window: u32,
    /// Chunks that only silent lanes have.
    given_up: BTreeSet<ChunkId>,
    withdrawals: VecDeque<Withdrawal>,
    counts: LaneCounts,
}

impl LaneSchedule {
    /// A schedule for 1 to [`LANES_MAX`] lanes that holds `window` chunks at once.
    pub fn new(lanes: usize, window: u32) -> LaneSchedule {
        LaneSchedule::from_chunk(0, lanes, window)
    }

    /// The same of an object whose chunks below `first` are not its concern.
    pub fn from_chunk(first: ChunkId, lanes: usize, window: u32) -> LaneSchedule {
        LaneSchedule {
            lanes: (0..lanes.clamp(1, LANES_MAX)).map(|_| Lane::default()).collect(),
            base: first,
            open: VecDeque::new(),
            window: window.max(1),
            given_up: BTreeSet::new(),
            withdrawals: VecDeque::new(),
            counts: LaneCounts::default(),
        }
    }

    /// Adds a lane; its number. `None` if there are [`LANES_MAX`].
    pub fn add_lane(&mut self) -> Option<usize> {
        let lane = self.lanes.len();
        (lane < LANES_MAX).then(|| self.lanes.push(Lane::default())).map(|()| lane)
    }

    /// What is measured of a lane now; to be called before each [`poll_task`](Self::poll_task).
    pub fn observe(&mut self, now: Timestamp, lane: usize, seen: LaneSeen) {
        let Some(state) = self.lanes.get_mut(lane) else { return };
        let silent_after = SILENT_MIN.max(seen.round_trip * SILENT_ROUND_TRIPS);
        if state.observe(now, seen, silent_after) == Liveness::Silent {
            let held: Vec<ChunkId> = state.waiting().collect();
            held.into_iter().for_each(|chunk| self.look_for_lane(chunk));
        }
    }

    /// A lane has ended and does not come back: its chunks go to the others.
    pub fn handle_ended(&mut self, lane: usize) {
        let Some(state) = self.lanes.get_mut(lane) else { return };
        state.liveness = Liveness::Ended;
        let held: Vec<ChunkId> = state.waiting().collect();
        held.into_iter().for_each(|chunk| self.look_for_lane(chunk));
        self.withdrawals.retain(|withdrawal| withdrawal.lane != lane);
    }

    /// What this lane sends next, if it has room; `more` is whether the object has further chunks at hand.
    pub fn poll_task(&mut self, lane: usize, more: bool) -> Option<LaneTask> {
        let state = self.lanes.get(lane).filter(|state| state.has_room())?;
        let given_up =
            self.given_up.iter().copied().find(|chunk| !state.has(*chunk) && self.has_no_lane(*chunk));
        if let Some(chunk) = given_up {
            self.given_up.remove(&chunk);
            self.counts.given_up += 1;
            return Some(self.give_again(lane, chunk));
        }
        if more && self.open.len() < self.window as usize {
            let chunk = self.base + self.open.len() as ChunkId;
            self.open.push_back(Open { len: 0, lanes: vec![lane], is_verified: false });
            self.lanes[lane].give(chunk);
            return Some(LaneTask::Next(chunk));
        }
        let chunk = self.slowest(lane)?;
        self.counts.taken_over += 1;
        Some(self.give_again(lane, chunk))
    }

    /// A chunk that a lane was given is read: `len` bytes.
    pub fn handle_read(&mut self, lane: usize, chunk: ChunkId, len: u32) {
        if let Some(open) = self.open_mut(chunk) {
            open.len = len;
        }
        let Some(state) = self.lanes.get_mut(lane) else { return };
        if let Some(place) = state.set_len(chunk, len) {
            // Another lane was first while it was read.
            self.withdraw(lane, place);
        }
        if self.lanes[lane].liveness != Liveness::Answers {
            self.look_for_lane(chunk);
        }
    }

    /// The receiver of a lane has verified the oldest chunk that the lane has; `None` if it has none.
    pub fn handle_verified(&mut self, lane: usize) -> Option<LaneVerified> {
        let Held { chunk, .. } = self.lanes.get_mut(lane)?.pop()?;
        let Some(open) = self.open_mut(chunk).filter(|open| !open.is_verified) else {
            return Some(LaneVerified::Known(chunk));
        };
        open.is_verified = true;
        let others: Vec<usize> = open.lanes.iter().copied().filter(|other| *other != lane).collect();
        self.given_up.remove(&chunk);
        for other in others {
            if let Some(place) = self.lanes[other].withdraw(chunk) {
                self.withdraw(other, place);
            }
        }
        while self.open.front().is_some_and(|open| open.is_verified) {
            self.open.pop_front();
            self.base += 1;
        }
        Some(LaneVerified::First(chunk))
    }

    /// A copy to be withdrawn: its lane sends [`WITHDRAWN_LEN`] bytes in its place.
    pub fn poll_withdrawal(&mut self) -> Option<Withdrawal> {
        self.withdrawals.pop_front()
    }

    /// Chunks below are verified.
    pub fn verified_below(&self) -> ChunkId {
        self.base
    }

    /// Chunks that are begun and not verified, with those verified behind one that is not.
    pub fn open(&self) -> u32 {
        u32::try_from(self.open.len()).unwrap_or(u32::MAX)
    }

    /// Whether a lane has had no answer for so long that it gets nothing to send.
    pub fn is_silent(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_none_or(|state| state.liveness != Liveness::Answers)
    }

    /// Counters.
    pub fn counts(&self) -> LaneCounts {
        self.counts
    }

    fn open_mut(&mut self, chunk: ChunkId) -> Option<&mut Open> {
        self.open.get_mut(chunk.checked_sub(self.base)? as usize)
    }

    fn open_of(&self, chunk: ChunkId) -> Option<&Open> {
        self.open.get(chunk.checked_sub(self.base)? as usize)
    }

    fn withdraw(&mut self, lane: usize, place: ChunkId) {
        self.counts.withdrawn += 1;
        self.withdrawals.push_back(Withdrawal { lane, place });
    }

    /// A chunk's lane is silent: another one must send it, unless one does.
    fn look_for_lane(&mut self, chunk: ChunkId) {
        if self.has_no_lane(chunk) {
            self.given_up.insert(chunk);
        }
    }

    /// Whether none of the lanes of an unverified chunk answers.
    fn has_no_lane(&self, chunk: ChunkId) -> bool {
        let answers = |lane: &usize| self.lanes[*lane].liveness == Liveness::Answers;
        self.open_of(chunk)
            .is_some_and(|open| !open.is_verified && open.len > 0 && !open.lanes.iter().any(answers))
    }

    fn give_again(&mut self, lane: usize, chunk: ChunkId) -> LaneTask {
        self.lanes[lane].give(chunk);
        let mut bytes = 0;
        if let Some(open) = self.open_mut(chunk) {
            open.lanes.push(lane);
            bytes = open.len;
        }
        self.counts.bytes_twice += u64::from(bytes);
        LaneTask::Again(chunk)
    }

    /// Of the chunks that other lanes would finish later than this one, that which takes longest.
    fn slowest(&self, lane: usize) -> Option<ChunkId> {
        let mut slowest: Option<(Duration, ChunkId)> = None;
        for (other, state) in self.lanes.iter().enumerate().filter(|(other, _)| *other != lane) {
            // What is behind a chunk on its lane is not in its way.
            let mut behind = 0;
            for held in state.newest_first() {
                let takes = state.time_for(state.seen.left.saturating_sub(behind));
                behind += u64::from(held.len);
                let Some(open) = self.open_of(held.chunk) else { continue };
                let can_move = !open.is_verified
                    && open.len > 0
                    && open.lanes.len() < COPIES_MAX
                    && open.lanes.contains(&other)
                    && !self.lanes[lane].has(held.chunk);
                let here = self.lanes[lane].time_for(self.lanes[lane].seen.left + u64::from(open.len));
                if can_move && here < takes && slowest.is_none_or(|(longest, _)| takes > longest) {
                    slowest = Some((takes, held.chunk));
                }
            }
        }
        slowest.map(|(_, chunk)| chunk)
    }
}

#[cfg(test)]
mod tests;
