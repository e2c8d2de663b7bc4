//! Chunks that did not verify at the receiver.

use super::Sender;
use crate::ChunkId;
use crate::object::CHUNK_LEN_MAX;

impl Sender {
    /// The receiver found that a chunk does not verify (control channel): it is sent anew. False if it was
    /// tried too often.
    pub fn handle_rejected(&mut self, chunk: ChunkId, attempt: u8) -> bool {
        match self.flight.supply.chunks.get(chunk).map(|c| c.attempt()) {
            Some(current) if current == attempt => self.flight.start_over(chunk),
            // A verdict on an earlier attempt, or on a chunk that is not held.
            _ => true,
        }
    }

    /// The receiver could make nothing of a chunk's shorter form: the chunk itself, of `len` bytes, is sent
    /// under the next attempt. False if that is old news, or the chunk was tried too often.
    pub fn handle_unusable(&mut self, chunk: ChunkId, attempt: u8, len: u32) -> bool {
        debug_assert!((1..=CHUNK_LEN_MAX).contains(&len), "a chunk of {len} bytes");
        let is_current = self.flight.supply.chunks.get(chunk).is_some_and(|held| held.attempt() == attempt);
        let again = is_current && self.flight.start_over(chunk);
        if again {
            self.flight.supply.replace(chunk, len);
        }
        again
    }

    /// A chunk is not needed any more: `len` bytes, which say that, are sent in its place under the next
    /// attempt. False if it is not held, has arrived, or was tried too often.
    pub fn withdraw(&mut self, chunk: ChunkId, len: u32) -> bool {
        let held = self.flight.supply.chunks.get(chunk).filter(|held| !held.is_acked());
        let attempt = held.map(|held| held.attempt());
        attempt.is_some_and(|attempt| self.handle_unusable(chunk, attempt, len))
    }
}
