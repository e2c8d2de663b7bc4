//! What the lanes of a sending session share: the chunks that are read and not verified, and the schedule.

use super::LaneShown;
use super::news::LaneNews;
use crate::lanes::LaneNumber;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::measured::Measured;
use fobs_proto::loss_cause::Lesson;
use fobs_proto::session::{LaneSchedule, LaneSeen, LaneTask, LaneVerified};
use fobs_proto::{ChunkId, Timestamp};
use fobs_sys::{PageBuffer, Waker};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A chunk that lanes read from, with its number behind its bytes.
pub(in crate::send) struct LaneChunk {
    pub(in crate::send) buffer: PageBuffer,
    /// Bytes of the chunk and its number in the buffer.
    pub(super) whole_len: u32,
    /// The same as a patch, which leaves in its place until it is rejected.
    pub(in crate::send) patch: Option<Vec<u8>>,
    pub(super) number: [u8; crate::lanes::NUMBER_LEN],
    pub(super) data_bytes: u64,
    pub(super) first_file: Option<Vec<u8>>,
}

impl LaneChunk {
    /// Writes the number behind the bytes of a chunk of `len` bytes in `buffer`, and behind its patch.
    ///
    /// # Errors
    /// The object has too many chunks, or there is no room behind the chunk.
    pub(in crate::send) fn new(
        number: LaneNumber,
        (mut buffer, len): (PageBuffer, usize),
        mut patch: Option<Vec<u8>>,
        (data_bytes, first_file): (u64, Option<Vec<u8>>),
    ) -> Result<LaneChunk> {
        let Some(number) = number.encode() else {
            let message = "the object has more chunks than lanes can number; run the command without --lanes \
                           and with one --via at most";
            return Err(Error::new(ErrorKind::Usage, message));
        };
        let end = len + number.len();
        let Some(behind) = buffer.get_mut(len..end) else {
            return Err(Error::new(
                ErrorKind::Internal,
                "a chunk has no room for its number; report this bug",
            ));
        };
        behind.copy_from_slice(&number);
        patch.iter_mut().for_each(|patch| patch.extend_from_slice(&number));
        Ok(LaneChunk { buffer, whole_len: end as u32, patch, number, data_bytes, first_file })
    }

    /// Bytes on the wire in the form in which it leaves first.
    fn first_len(&self) -> u32 {
        self.patch.as_ref().map_or(self.whole_len, |patch| patch.len() as u32)
    }

    /// A range of it, whole.
    pub(super) fn whole(&self, range: Range<usize>) -> Option<&[u8]> {
        self.buffer.get(..self.whole_len as usize)?.get(range)
    }
}

/// A chunk that a lane is to send.
pub(super) struct LaneWork {
    pub(super) chunk: Arc<LaneChunk>,
    /// Bytes on the wire.
    pub(super) len: u32,
}

/// See the module.
pub(in crate::send) struct LaneTable(Mutex<LaneState>);

struct LaneState {
    schedule: LaneSchedule,
    /// The number of the first of `chunks`, and the first that no lane has begun.
    first: ChunkId,
    begun: ChunkId,
    /// At most the session's window.
    chunks: VecDeque<Arc<LaneChunk>>,
    berths: Vec<Berth>,
    course: LaneCourse,
    agreement: Agreement,
}

/// Whether the receiver knows that chunks are those of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agreement {
    /// Not yet: nothing may be sent.
    Awaited,
    Made,
}

/// Whether lanes send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneCourse {
    On,
    /// The user has paused the session.
    Paused,
    /// The session ends.
    Ends,
}

/// What is known of a lane.
struct Berth {
    waker: Waker,
    /// It has room and got nothing to send.
    is_idle: bool,
    /// Copies to be withdrawn, by their numbers on it: at most those that it holds.
    withdrawals: VecDeque<ChunkId>,
    shown: LaneShown,
    news: LaneNews,
}

impl Berth {
    fn new(waker: Waker) -> Berth {
        Berth {
            waker,
            is_idle: false,
            withdrawals: VecDeque::new(),
            shown: LaneShown::default(),
            news: LaneNews::default(),
        }
    }
}

impl LaneTable {
    /// For a first lane with this waker, and chunks from `from` on.
    pub(super) fn new(waker: Waker, (from, window): (ChunkId, u32), agreement: Agreement) -> Arc<LaneTable> {
        Arc::new(LaneTable(Mutex::new(LaneState {
            schedule: LaneSchedule::from_chunk(from, 1, window),
            first: from,
            begun: from,
            chunks: VecDeque::new(),
            berths: vec![Berth::new(waker)],
            course: LaneCourse::On,
            agreement,
        })))
    }

    /// Adds a lane with this waker; its number. `None` if there are too many.
    pub(super) fn add(&self, waker: Waker) -> Option<usize> {
        let mut state = self.lock();
        let lane = state.schedule.add_lane()?;
        state.berths.push(Berth::new(waker));
        Some(lane)
    }

    /// The receiver takes chunks of lanes from now on.
    pub(super) fn agree(&self) {
        let mut state = self.lock();
        state.agreement = Agreement::Made;
        state.berths.iter().for_each(|berth| berth.waker.wake());
    }

    /// A lane that panicked ends the session; what the others see until then is whole or a step behind.
    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next chunk of the object is read.
    pub(super) fn push(&self, chunk: Arc<LaneChunk>) {
        let mut state = self.lock();
        state.chunks.push_back(chunk);
        state.wake_idle();
    }

    /// Chunks that no lane has begun.
    pub(super) fn ready(&self) -> u32 {
        let state = self.lock();
        (state.first + state.chunks.len() as u32).saturating_sub(state.begun)
    }

    /// What is seen of a lane now, and what it shows.
    pub(super) fn observe(&self, now: Timestamp, lane: usize, seen: LaneSeen, shown: LaneShown) {
        let mut state = self.lock();
        state.schedule.observe(now, lane, seen);
        if let Some(berth) = state.berths.get_mut(lane) {
            berth.shown = shown;
        }
        // Chunks of a silent lane may be there for others.
        state.wake_idle();
    }

    /// What a lane with room sends next.
    pub(super) fn next(&self, now: Timestamp, lane: usize, seen: LaneSeen) -> Option<LaneWork> {
        let mut state = self.lock();
        if state.course != LaneCourse::On || state.agreement != Agreement::Made {
            return None;
        }
        state.schedule.observe(now, lane, seen);
        let more = state.begun < state.first + state.chunks.len() as u32;
        let task = state.schedule.poll_task(lane, more);
        state.berths.get_mut(lane)?.is_idle = task.is_none();
        let chunk = match task? {
            LaneTask::Next(chunk) => {
                state.begun = chunk + 1;
                chunk
            }
            LaneTask::Again(chunk) => chunk,
        };
        let held = state.chunks.get(chunk.checked_sub(state.first)? as usize)?.clone();
        let len = held.first_len();
        state.schedule.handle_read(lane, chunk, len);
        state.sort_withdrawals();
        Some(LaneWork { chunk: held, len })
    }

    /// The receiver has verified the oldest chunk of a lane.
    pub(super) fn handle_verified(&self, lane: usize) {
        let mut state = self.lock();
        let is_first = matches!(state.schedule.handle_verified(lane), Some(LaneVerified::First(_)));
        state.sort_withdrawals();
        while state.first < state.schedule.verified_below() && state.chunks.pop_front().is_some() {
            state.first += 1;
        }
        if is_first {
            state.wake_idle();
        }
    }

    /// A copy that a lane is to withdraw, by its number there.
    pub(super) fn withdrawal(&self, lane: usize) -> Option<ChunkId> {
        self.lock().berths.get_mut(lane)?.withdrawals.pop_front()
    }

    /// A lane has ended and does not come back.
    pub(super) fn handle_ended(&self, lane: usize) {
        let mut state = self.lock();
        state.schedule.handle_ended(lane);
        state.wake_idle();
    }

    /// Chunks below are verified.
    pub(super) fn verified_below(&self) -> ChunkId {
        self.lock().schedule.verified_below()
    }

    /// A lane has judged and changed this.
    pub(super) fn add_news(&self, lane: usize, measured: Vec<Measured>) {
        if let Some(berth) = self.lock().berths.get_mut(lane) {
            berth.news.add(measured);
        }
    }

    /// A lane at its end has learned this.
    pub(super) fn teach(&self, lane: usize, lessons: Vec<Lesson>) {
        if let Some(berth) = self.lock().berths.get_mut(lane) {
            berth.news.teach(lessons);
        }
    }

    /// What all lanes have judged and changed since the last call.
    pub(super) fn take_news(&self) -> Vec<Measured> {
        self.lock().berths.iter_mut().flat_map(|berth| berth.news.take_measured()).collect()
    }

    /// What lanes that have ended have learned.
    pub(super) fn take_lessons(&self) -> Vec<Lesson> {
        self.lock().berths.iter_mut().flat_map(|berth| berth.news.take_lessons()).collect()
    }

    /// What each lane shows.
    pub(super) fn shown(&self) -> Vec<LaneShown> {
        self.lock().berths.iter().map(|berth| berth.shown.clone()).collect()
    }

    /// What the schedule did.
    pub(super) fn counts(&self) -> fobs_proto::session::LaneCounts {
        self.lock().schedule.counts()
    }

    /// Nothing is sent while the session is paused, and nothing any more once it ends.
    pub(super) fn set_course(&self, course: LaneCourse) {
        let mut state = self.lock();
        if state.course != LaneCourse::Ends && state.course != course {
            state.course = course;
            state.berths.iter().for_each(|berth| berth.waker.wake());
        }
    }

    pub(super) fn course(&self) -> LaneCourse {
        self.lock().course
    }
}

impl LaneState {
    fn sort_withdrawals(&mut self) {
        while let Some(withdrawal) = self.schedule.poll_withdrawal() {
            if let Some(berth) = self.berths.get_mut(withdrawal.lane) {
                berth.withdrawals.push_back(withdrawal.place);
                berth.waker.wake();
            }
        }
    }

    fn wake_idle(&self) {
        self.berths.iter().filter(|berth| berth.is_idle).for_each(|berth| berth.waker.wake());
    }
}
