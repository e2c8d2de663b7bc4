//! Where chunks of all lanes come together: which is new, which is known, and whose room is free again.
//!
//! A chunk that is verified behind one that is not gives its lane the room back at once, so that no lane
//! waits for a slower one; what is verified in order gives it back when it is stored, so that a slow disk
//! holds the lanes up. So at most the window and the credits of all lanes are held.

use super::berth::ToLaneReceiver;
use crate::lanes::{LaneNumber, NUMBER_LEN, broken};
use fobs_model::error::Result;
use fobs_proto::ChunkId;
use fobs_proto::receiver::ChunkVerification;
use fobs_sys::PageBuffer;
use std::collections::{BTreeMap, VecDeque};

/// What is to be done with what came.
pub(super) enum Deed {
    /// A chunk is to be verified and stored: its number in the object, and its length.
    Check { chunk: ChunkId, buffer: PageBuffer, len: usize },
    /// A lane is to hear something.
    Tell { lane: usize, letter: ToLaneReceiver },
}

/// A copy of a chunk.
struct CopyHere {
    lane: usize,
    /// The lane's number of it.
    place: ChunkId,
}

/// How far a complete chunk has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Checked,
    Verified,
    /// And its lane has its room back.
    Freed,
}

/// A chunk that is complete, and not stored.
struct Entry {
    copy: CopyHere,
    stage: Stage,
    /// Copies that other lanes brought while it was being verified: they count if it is wrong.
    others: VecDeque<(CopyHere, PageBuffer, usize)>,
}

/// See the module.
pub(super) struct Desk {
    /// The first chunk that comes here.
    from: ChunkId,
    window: u32,
    /// Chunks below are stored, and verified.
    stored_below: ChunkId,
    verified_below: ChunkId,
    /// At most the window of them, and the credits of all lanes.
    entries: BTreeMap<ChunkId, Entry>,
    /// Chunks that are verified and not stored, and whose lanes have their room back.
    freed: u32,
    /// One past the final chunk, once that is known.
    end: Option<ChunkId>,
    /// Lanes whose buffers come back because a chunk did not verify, in the order of the verdicts.
    returns: VecDeque<usize>,
    deeds: VecDeque<Deed>,
}

impl Desk {
    /// For chunks from `from` on.
    pub(super) fn new((from, window): (ChunkId, u32)) -> Desk {
        Desk {
            from,
            window: window.max(1),
            stored_below: from,
            verified_below: from,
            entries: BTreeMap::new(),
            freed: 0,
            end: None,
            returns: VecDeque::new(),
            deeds: VecDeque::new(),
        }
    }

    /// Whether a chunk of the first lane, by its number there, comes here.
    pub(super) fn has_had(&self, place: ChunkId) -> bool {
        place >= self.from
    }

    pub(super) fn poll(&mut self) -> Option<Deed> {
        self.deeds.pop_front()
    }

    /// Whether every chunk of the object is stored.
    pub(super) fn is_complete(&self) -> bool {
        self.end == Some(self.stored_below)
    }

    /// A chunk is complete that is `place` on its lane.
    ///
    /// # Errors
    /// `Protocol` for a number that no chunk of the session can have now.
    pub(super) fn arrives(
        &mut self,
        (lane, place): (usize, ChunkId),
        buffer: PageBuffer,
        len: usize,
    ) -> Result<()> {
        let copy = CopyHere { lane, place };
        if len == NUMBER_LEN {
            // It was withdrawn.
            self.is_known(copy, buffer);
            return Ok(());
        }
        let number = buffer.get(..len).and_then(LaneNumber::decode);
        let Some((LaneNumber { chunk, is_final }, len)) = number else {
            return Err(broken(&format!("lane {lane} brought a chunk of {len} bytes, without a number")));
        };
        self.check_end(lane, chunk, is_final)?;
        if chunk < self.verified_below {
            self.is_known(copy, buffer);
            return Ok(());
        }
        if chunk - self.verified_below >= self.window {
            let Desk { window, verified_below, .. } = self;
            return Err(broken(&format!(
                "lane {lane} brought chunk {chunk} of the {window} from {verified_below} on"
            )));
        }
        match self.entries.get_mut(&chunk) {
            None => {
                let entry = Entry { copy, stage: Stage::Checked, others: VecDeque::new() };
                self.entries.insert(chunk, entry);
                self.deeds.push_back(Deed::Check { chunk, buffer, len });
            }
            Some(entry) if entry.stage != Stage::Checked => self.is_known(copy, buffer),
            // A lane's copies are bounded by its credit.
            Some(entry) => entry.others.push_back((copy, buffer, len)),
        }
        Ok(())
    }

    /// A chunk was checked.
    pub(super) fn handle_verdict(&mut self, chunk: ChunkId, verdict: ChunkVerification) {
        let Some(entry) = self.entries.get_mut(&chunk) else { return };
        let CopyHere { lane, place } = entry.copy;
        self.deeds.push_back(Deed::Tell { lane, letter: ToLaneReceiver::Verdict { place, verdict } });
        if verdict == ChunkVerification::Mismatch {
            self.returns.push_back(lane);
            match entry.others.pop_front() {
                Some((copy, buffer, len)) => {
                    entry.copy = copy;
                    self.deeds.push_back(Deed::Check { chunk, buffer, len });
                }
                None => drop(self.entries.remove(&chunk)),
            }
            return;
        }
        entry.stage = Stage::Verified;
        let others = std::mem::take(&mut entry.others);
        while self.entries.get(&self.verified_below).is_some_and(|entry| entry.stage != Stage::Checked) {
            self.verified_below += 1;
        }
        if chunk >= self.verified_below
            && self.freed < self.window
            && let Some(entry) = self.entries.get_mut(&chunk)
        {
            entry.stage = Stage::Freed;
            self.freed += 1;
            self.deeds.push_back(Deed::Tell { lane, letter: ToLaneReceiver::Free { place } });
        }
        others.into_iter().for_each(|(copy, buffer, _)| self.is_known(copy, buffer));
    }

    /// The next chunk is stored.
    pub(super) fn handle_stored(&mut self, chunk: ChunkId, buffer: PageBuffer) {
        let Some(Entry { copy: CopyHere { lane, place }, stage, .. }) = self.entries.remove(&chunk) else {
            return;
        };
        self.stored_below = chunk + 1;
        if stage == Stage::Freed {
            self.freed -= 1;
        } else {
            self.deeds.push_back(Deed::Tell { lane, letter: ToLaneReceiver::Free { place } });
        }
        self.deeds.push_back(Deed::Tell { lane, letter: ToLaneReceiver::Buffer(buffer) });
    }

    /// The buffer of a chunk comes back that did not verify.
    pub(super) fn handle_returned(&mut self, buffer: PageBuffer) {
        let lane = self.returns.pop_front().unwrap_or(0);
        self.deeds.push_back(Deed::Tell { lane, letter: ToLaneReceiver::Buffer(buffer) });
    }

    /// A copy of a chunk that is verified: its lane's sender need not send it again.
    fn is_known(&mut self, CopyHere { lane, place }: CopyHere, buffer: PageBuffer) {
        let verdict = ChunkVerification::Verified;
        for letter in [
            ToLaneReceiver::Verdict { place, verdict },
            ToLaneReceiver::Free { place },
            ToLaneReceiver::Buffer(buffer),
        ] {
            self.deeds.push_back(Deed::Tell { lane, letter });
        }
    }

    fn check_end(&mut self, lane: usize, chunk: ChunkId, is_final: bool) -> Result<()> {
        let newest = self.entries.keys().next_back().map_or(self.verified_below, |newest| newest + 1);
        let fits = match self.end {
            Some(end) => chunk < end && is_final == (chunk + 1 == end),
            None => !is_final || chunk + 1 >= newest,
        };
        if !fits {
            return Err(broken(&format!(
                "lane {lane} brought chunk {chunk}, and says another end of the object"
            )));
        }
        if is_final {
            self.end = Some(chunk + 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
