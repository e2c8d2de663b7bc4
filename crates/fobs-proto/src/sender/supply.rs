//! What there is to send: the chunks handed in, the receiver's credit for them, and those it has verified.

use super::chunk::Chunks;
use super::limit::SendLimit;
use crate::ChunkId;
use crate::object::BLOCK_PACKETS;
use crate::wire::Ack;
use std::collections::VecDeque;

/// Unsent bytes that are held ready: two full chunks, so that reading and sending overlap.
const READY_BYTES: u64 = 8 << 20;

/// Chunks between the reader and the receiver.
#[derive(Debug)]
pub(super) struct Supply {
    pub(super) chunks: Chunks,
    chunks_max: usize,
    /// First chunk without credit.
    limit: ChunkId,
    verified_below: ChunkId,
    /// The final chunk was handed in.
    complete: bool,
    /// Bytes of all chunks so far.
    handed: u64,
    freed: VecDeque<ChunkId>,
}

impl Supply {
    pub(super) fn new(chunks_max: usize, limit: ChunkId) -> Supply {
        Supply {
            chunks: Chunks::default(),
            chunks_max,
            limit,
            verified_below: 0,
            complete: false,
            handed: 0,
            freed: VecDeque::new(),
        }
    }

    /// Whether another chunk should be read now.
    pub(super) fn wants_chunk(&self) -> bool {
        let room = self.chunks.count() < self.chunks_max && self.chunks.end() < self.limit;
        room && !self.complete && self.chunks.unsent() < READY_BYTES
    }

    pub(super) fn push(&mut self, len: u32, is_final: bool) -> ChunkId {
        debug_assert!(!self.complete, "a chunk after the final one");
        self.complete |= is_final;
        self.handed = self.handed.saturating_add(u64::from(len));
        self.chunks.push(len, is_final)
    }

    /// Another body takes a chunk's place, of which no packet has left under its present attempt.
    pub(super) fn replace(&mut self, chunk: ChunkId, len: u32) {
        if let Some(before) = self.chunks.replace(chunk, len) {
            self.handed = self.handed.saturating_sub(u64::from(before)).saturating_add(u64::from(len));
        }
    }

    /// A chunk whose memory may be used again.
    pub(super) fn pop_freed(&mut self) -> Option<ChunkId> {
        self.freed.pop_front()
    }

    /// First chunk without credit.
    pub(super) fn limit(&self) -> ChunkId {
        self.limit
    }

    /// Bytes of all chunks so far.
    pub(super) fn handed(&self) -> u64 {
        self.handed
    }

    /// Whether the receiver has verified every chunk of the object.
    pub(super) fn is_verified(&self) -> bool {
        self.complete && self.chunks.count() == 0
    }

    /// Whether everything of the object was sent at least once.
    pub(super) fn is_sent(&self) -> bool {
        self.complete && self.chunks.unsent() == 0
    }

    /// Whether the object goes on where the credit ends.
    pub(super) fn waits_for_credit(&self) -> bool {
        !self.complete && self.chunks.end() >= self.limit
    }

    /// What is waited for when there is nothing to send.
    pub(super) fn limit_when_idle(&self) -> SendLimit {
        match (self.chunks.unsent(), self.complete) {
            (1.., _) => SendLimit::Credit,
            (0, true) => SendLimit::Answers,
            (0, false) => SendLimit::Data,
        }
    }

    /// The receiver reports credit and verified chunks. Chunks that were never handed in are ignored.
    pub(super) fn on_ack(&mut self, ack: &Ack) {
        self.limit = self.limit.max(ack.chunk_limit);
        self.verified_below = self.verified_below.max(ack.verified_below.min(self.chunks.end()));
        while self.chunks.base() < self.verified_below && self.chunks.pop().is_some() {
            self.freed.push_back(self.chunks.base() - 1);
        }
    }

    /// Takes the bitmaps of an ack: they repeat what lost acks carried.
    pub(super) fn on_bitmaps(&mut self, ack: &Ack) {
        for bitmap in &ack.bitmaps {
            let first = u32::from(bitmap.block) * BLOCK_PACKETS;
            for (byte, bits) in (0u32..).zip(&bitmap.bits) {
                for bit in (0..8).filter(|bit| bits >> bit & 1 == 1) {
                    if let Ok(index) = u16::try_from(first + byte * 8 + bit) {
                        self.chunks.on_acked(bitmap.chunk, index, bitmap.attempt);
                    }
                }
            }
        }
    }
}
