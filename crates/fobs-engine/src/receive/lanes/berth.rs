//! One lane's part of a receiving session: what the session says of its chunks, in the lane's own numbers.

use fobs_proto::receiver::{ChunkVerification, Receiver};
use fobs_proto::session::{ReceivePolicy, VerdictOutcome};
use fobs_proto::{ChunkId, Timestamp};
use fobs_sys::PageBuffer;
use std::collections::BTreeSet;

/// To the thread of a lane.
pub(super) enum ToLaneReceiver {
    /// A chunk was checked.
    Verdict { place: ChunkId, verdict: ChunkVerification },
    /// The room of a verified chunk is free.
    Free { place: ChunkId },
    /// The lane has room for this number of chunks from now on.
    Room(u32),
    /// A buffer to use again.
    Buffer(PageBuffer),
    /// The session ends.
    End,
}

/// Chunks whose room is free, until all before them are free too: at most the credit.
pub(super) struct Berth {
    next: ChunkId,
    free: BTreeSet<ChunkId>,
}

impl Berth {
    /// Of a lane whose chunks before `from` are none of the desk's.
    pub(super) fn new(from: ChunkId) -> Berth {
        Berth { next: from, free: BTreeSet::new() }
    }

    /// The room of a chunk is free.
    pub(super) fn free(&mut self, machine: &mut Receiver, place: ChunkId) {
        self.free.insert(place);
        self.settle(machine);
    }

    /// Gives rooms back, in order.
    pub(super) fn settle(&mut self, machine: &mut Receiver) {
        while machine.stored_below() == self.next && self.free.remove(&self.next) {
            machine.handle_stored(self.next);
            self.next += 1;
        }
    }
}

/// What the sender and the session are told of a verdict.
pub(super) enum OfVerdict {
    Verified,
    /// The chunk is to come again; after how many tries it is given up.
    Rejected {
        attempt: u8,
        hopeless: Option<u8>,
    },
}

/// A chunk of a lane was checked.
pub(super) fn of_verdict(
    now: Timestamp,
    (policy, machine): (&mut ReceivePolicy, &mut Receiver),
    place: ChunkId,
    verdict: ChunkVerification,
) -> OfVerdict {
    match policy.handle_verdict(now, machine, place, verdict) {
        VerdictOutcome::Verified => OfVerdict::Verified,
        VerdictOutcome::Reject { attempt } => OfVerdict::Rejected { attempt, hopeless: None },
        VerdictOutcome::Hopeless { attempt, tries } => OfVerdict::Rejected { attempt, hopeless: Some(tries) },
    }
}
