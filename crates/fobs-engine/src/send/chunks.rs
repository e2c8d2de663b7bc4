//! Chunks at the sending thread: buffers to the reader, filled ones to the machine or to the lanes, verified
//! ones back.

use super::Sending;
use super::held::{AboutChunk, HeldChunk, HeldChunks};
use super::lanes::{LaneChunk, LaneHub, Settle};
use super::outbox::Turn;
use crate::failure::never_verified;
use crate::lanes::LaneNumber;
use crate::letters::{Filled, Grant};
use fobs_model::error::Result;
use fobs_proto::ChunkId;
use fobs_proto::sender::Extent;
use fobs_proto::session::{ChunkRead, ObjectSize, Rejection, Wait};
use fobs_store::survey::Way;
use std::ops::Range;
use std::sync::mpsc::TrySendError;

impl Sending {
    /// Gives back the buffers of the chunks that the receiver has verified.
    pub(super) fn settle_verified(&mut self) {
        // Those before the first of several lanes, or all of a session without.
        while !self.held.is_empty() && self.policy.poll_freed(&mut self.machine).is_some() {
            let Some(HeldChunk { buffer, about, .. }) = self.held.pop() else { break };
            self.held.give_back(buffer);
            self.settle(about);
        }
        if self.held.is_empty() {
            self.settle_lanes(Settle::Verified);
        }
    }

    /// Likewise of all chunks: the receiver has said that it has everything.
    pub(super) fn settle_all(&mut self) {
        while let Some(HeldChunk { buffer, about, .. }) = self.held.pop() {
            self.held.give_back(buffer);
            self.settle(about);
        }
        self.settle_lanes(Settle::All);
    }

    fn settle_lanes(&mut self, which: Settle) {
        let Some(lanes) = &mut self.lanes else { return };
        lanes.seat.settle(&mut self.policy, &mut self.machine);
        while let Some(about) = self.lanes.as_mut().and_then(|lanes| lanes.pop_settled(which)) {
            self.settle(about);
        }
        while let Some(LaneChunk { buffer, patch, .. }) = self.lanes.as_mut().and_then(LaneHub::pop_free) {
            self.held.give_back(buffer);
            self.held.let_go(patch.map_or(0, |patch| patch.len()));
        }
    }

    /// The receiver has verified a chunk.
    fn settle(&mut self, done: AboutChunk) {
        if done.has_content {
            self.reporter.advance();
        }
        self.reporter.add_bytes(done.data_bytes);
        let gone = (done.left, done.data_bytes);
        self.gauge.settled(self.link.clock().now(), gone, self.machine.rtt().min());
        done.files.into_iter().for_each(|file| self.reporter.file_done(file));
    }

    pub(super) fn take_chunk(&mut self, filled: Filled) -> Result<()> {
        let Filled { buffer, chunk, known, root, waited, removal } = filled;
        let next = self.policy.next_chunk();
        let held = self.lanes.as_ref().map_or_else(|| self.policy.held(), LaneHub::held);
        let left = self.gauge.leaves(self.link.clock().now(), held, &chunk, waited);
        self.known = known;
        self.root = root;
        self.removal = removal;
        chunk.failures.into_iter().for_each(|error| self.reporter.failed(error));
        let extent = if self.known.scan_complete { Extent::Whole } else { Extent::SoFar };
        let patch = chunk.patch.map(|patch| patch.chunk);
        let len = patch.as_ref().map_or(chunk.len, Vec::len) as u32;
        let read = ChunkRead { len, data_bytes: chunk.data_bytes, is_final: chunk.is_final };
        self.resumed_bytes += chunk.resumed_bytes;
        self.reporter.resumed(chunk.resumed_bytes);
        chunk.started_over.iter().for_each(|file| self.reporter.started_over(&file.path, file.why));
        chunk.items.into_iter().for_each(|item| self.reporter.item(item, Way::Sent));
        chunk.notice.into_iter().for_each(|text| self.reporter.notice_here(text));
        let about = AboutChunk::new(chunk.len, chunk.data_bytes, left, chunk.files);
        if let Some(lanes) = self.lanes.as_mut().filter(|lanes| lanes.seat.has_had(next)) {
            let number = LaneNumber { chunk: lanes.next_number(), is_final: chunk.is_final };
            let of_files = (chunk.data_bytes, chunk.first_file);
            let chunk = LaneChunk::new(number, (buffer, chunk.len), patch, of_files)?;
            self.held.keep(chunk.patch.as_ref().map_or(0, Vec::len))?;
            lanes.push(about, chunk);
            return Ok(());
        }
        let data_bytes = self.known.bytes.saturating_sub(self.resumed_bytes);
        let object = ObjectSize { data_bytes, extent };
        self.policy.handle_chunk(self.link.clock().now(), &mut self.machine, read, object);
        let (len, first_file) = (chunk.len as u32, chunk.first_file);
        self.held.push(HeldChunk { buffer, patch, len, first_file, about })
    }

    /// A chunk did not verify. One that left as a patch may be of a file that changed at the receiver: it is
    /// sent whole, which counts as its first try.
    pub(super) fn send_again(&mut self, chunk: ChunkId, attempt: u8) -> Result<()> {
        if self.lanes.is_some() {
            // Of a receiver that does not know which lane, or of a chunk before the lanes.
            return self.send_lane_again(0, chunk, attempt);
        }
        self.send_own_again(chunk, attempt)
    }

    /// Likewise of a chunk that no schedule of lanes has.
    pub(super) fn send_own_again(&mut self, chunk: ChunkId, attempt: u8) -> Result<()> {
        if let Some(len) = self.held.whole_len(chunk)
            && self.machine.handle_unusable(chunk, attempt, len)
        {
            self.held.make_whole(chunk);
            self.gauge.was_mistaken();
            return Ok(());
        }
        match self.policy.handle_rejected(&mut self.machine, chunk, attempt) {
            Rejection::Hopeless { tries } => Err(never_verified(chunk, tries, self.held.first_file(chunk))),
            Rejection::Stale | Rejection::Again => Ok(()),
        }
    }

    pub(super) fn grant_buffers(&mut self) -> Result<()> {
        while let Some(data_max) = self.next_grant() {
            let grant = Grant { buffer: self.held.buffer()?, data_max: data_max as usize };
            if let Err(error) = self.grants.try_send(grant) {
                // The reader has read the final chunk, or its error waits in the mailbox.
                let (TrySendError::Full(grant) | TrySendError::Disconnected(grant)) = error;
                self.held.give_back(grant.buffer);
                return Ok(());
            }
            match &mut self.lanes {
                None => self.policy.handle_granted(),
                Some(lanes) => lanes.handle_granted(),
            }
        }
        Ok(())
    }

    fn next_grant(&self) -> Option<u32> {
        match &self.lanes {
            None => self.policy.next_grant(&self.machine),
            Some(lanes) => lanes.next_grant(&self.machine, self.grants_max),
        }
    }

    /// Sends bursts, until the machine or the socket wants to wait.
    pub(super) fn send_bursts(&mut self) -> Result<Turn> {
        let Sending { outbox, machine, link, peer, held, lanes, .. } = self;
        outbox.bursts(machine, link, peer, |chunk, range| bytes_of((held, lanes.as_ref()), chunk, range))
    }

    /// A range of a chunk, by its number on the first lane; `None` if that is not held.
    pub(super) fn chunk_bytes(&self, chunk: ChunkId, range: Range<usize>) -> Option<&[u8]> {
        bytes_of((&self.held, self.lanes.as_ref()), chunk, range)
    }

    /// Why the machine, which gives no burst, is waiting.
    pub(super) fn why_waiting(&self) -> Wait {
        match &self.lanes {
            Some(lanes) if lanes.awaits_source() && self.machine.bytes_unsent() == 0 => Wait::Source,
            _ => self.policy.wait(&self.machine),
        }
    }
}

/// A range of a chunk, by its number on the first lane; `None` if that is not held.
fn bytes_of<'c>(
    (held, lanes): (&'c HeldChunks, Option<&'c LaneHub>),
    chunk: ChunkId,
    range: Range<usize>,
) -> Option<&'c [u8]> {
    match lanes.filter(|lanes| lanes.seat.has_had(chunk)) {
        None => held.bytes(chunk, range),
        Some(lanes) => lanes.seat.bytes(chunk, range),
    }
}
