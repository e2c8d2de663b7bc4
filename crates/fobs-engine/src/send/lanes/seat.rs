//! One lane's part of a sending session: the copies that it sends, by its own numbers.

use super::table::{LaneChunk, LaneTable, LaneWork};
use crate::failure::never_verified;
use fobs_model::error::Result;
use fobs_proto::sender::{Extent, Sender};
use fobs_proto::session::{ChunkRead, LaneSeen, ObjectSize, Rejection, SendPolicy, WITHDRAWN_LEN};
use fobs_proto::{ChunkId, Timestamp};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// What of a chunk a lane sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyForm {
    /// Its patch, if it has one; else all of it.
    First,
    Whole,
    /// Its number only: another lane was first.
    Withdrawn,
}

struct LaneCopy {
    chunk: Arc<LaneChunk>,
    form: CopyForm,
}

/// See the module.
pub(in crate::send) struct Seat {
    lane: usize,
    table: Arc<LaneTable>,
    /// Its first chunk of the schedule, by its own number: chunks before are the session's.
    from: ChunkId,
    /// The lane's number of the first of `copies`.
    base: ChunkId,
    copies: VecDeque<LaneCopy>,
}

impl Seat {
    /// Of a lane whose first chunk of the schedule is `from`.
    pub(super) fn new((lane, from): (usize, ChunkId), table: Arc<LaneTable>) -> Seat {
        Seat { lane, table, from, base: from, copies: VecDeque::new() }
    }

    /// Whether a chunk, by the lane's number, is one of the schedule.
    pub(in crate::send) fn has_had(&self, place: ChunkId) -> bool {
        place >= self.from
    }

    /// Gives back what the receiver has verified.
    pub(in crate::send) fn settle(&mut self, policy: &mut SendPolicy, machine: &mut Sender) {
        while policy.poll_freed(machine).is_some() {
            self.copies.pop_front();
            self.base += 1;
            self.table.handle_verified(self.lane);
        }
    }

    /// Withdraws what other lanes were first with, and takes chunks while there is room.
    pub(in crate::send) fn take_tasks(
        &mut self,
        now: Timestamp,
        policy: &mut SendPolicy,
        machine: &mut Sender,
    ) {
        while let Some(place) = self.table.withdrawal(self.lane) {
            if let Some(copy) = place.checked_sub(self.base).and_then(|at| self.copies.get_mut(at as usize))
                && machine.withdraw(place, WITHDRAWN_LEN)
            {
                copy.form = CopyForm::Withdrawn;
            }
        }
        while policy.has_room(machine)
            && let Some(LaneWork { chunk, len }) = self.table.next(now, self.lane, LaneSeen::of(machine))
        {
            let read = ChunkRead { len, data_bytes: chunk.data_bytes, is_final: false };
            self.copies.push_back(LaneCopy { chunk, form: CopyForm::First });
            policy.handle_granted();
            // A lane knows of nothing that is still to come.
            let object = ObjectSize { data_bytes: 0, extent: Extent::SoFar };
            policy.handle_chunk(now, machine, read, object);
        }
    }

    /// A range of a chunk, by the lane's number; `None` if that is not held.
    pub(in crate::send) fn bytes(&self, place: ChunkId, range: Range<usize>) -> Option<&[u8]> {
        let LaneCopy { chunk, form } = self.copies.get(place.checked_sub(self.base)? as usize)?;
        match (form, &chunk.patch) {
            (CopyForm::Withdrawn, _) => chunk.number.get(range),
            (CopyForm::First, Some(patch)) => patch.get(range),
            (CopyForm::First, None) | (CopyForm::Whole, _) => chunk.whole(range),
        }
    }

    /// A chunk did not verify. As without lanes: one that left as a patch is sent whole first. Whether that
    /// happened.
    ///
    /// # Errors
    /// `Integrity` for a chunk that failed too often.
    pub(in crate::send) fn send_again(
        &mut self,
        policy: &mut SendPolicy,
        machine: &mut Sender,
        (place, attempt): (ChunkId, u8),
    ) -> Result<bool> {
        let held = place.checked_sub(self.base).and_then(|at| self.copies.get_mut(at as usize));
        if let Some(copy) = held
            && copy.form == CopyForm::First
            && copy.chunk.patch.is_some()
            && machine.handle_unusable(place, attempt, copy.chunk.whole_len)
        {
            copy.form = CopyForm::Whole;
            return Ok(true);
        }
        match policy.handle_rejected(machine, place, attempt) {
            Rejection::Hopeless { tries } => {
                let held = place.checked_sub(self.base).and_then(|at| self.copies.get(at as usize));
                let file = held.and_then(|copy| copy.chunk.first_file.as_deref());
                Err(never_verified(place, tries, file))
            }
            Rejection::Stale | Rejection::Again => Ok(false),
        }
    }
}
