//! The chunks that a sender holds: from the first byte read until the receiver has verified them.

use super::gauge::Leaving;
use crate::failure::no_memory;
use fobs_model::budget::{Charge, Keeps, MemoryBudget, Spent};
use fobs_model::error::Result;
use fobs_proto::ChunkId;
use fobs_proto::object::TRAILER_LEN;
use fobs_store::{CHUNK_LEN_MAX, FileDone};
use fobs_sys::PageBuffer;
use std::collections::VecDeque;
use std::ops::Range;

/// A chunk: its bytes, and what is reported once it is verified.
pub(super) struct HeldChunk {
    pub(super) buffer: PageBuffer,
    /// The same chunk as a patch of what the receiver has, which leaves in its place until it is rejected.
    pub(super) patch: Option<Vec<u8>>,
    /// Bytes of the chunk in the buffer.
    pub(super) len: u32,
    pub(super) first_file: Option<Vec<u8>>,
    pub(super) about: AboutChunk,
}

/// What is reported of a chunk once it is verified.
pub(super) struct AboutChunk {
    /// Whether it has anything of the object: one without shows that the path works, no more.
    pub(super) has_content: bool,
    pub(super) data_bytes: u64,
    pub(super) left: Leaving,
    pub(super) files: Vec<FileDone>,
}

impl AboutChunk {
    /// Of a chunk of `len` bytes.
    pub(super) fn new(len: usize, data_bytes: u64, left: Leaving, files: Vec<FileDone>) -> AboutChunk {
        AboutChunk { has_content: len > TRAILER_LEN as usize, data_bytes, left, files }
    }
}

/// Chunks in order, without gaps, and buffers to use again, warmest last.
pub(super) struct HeldChunks {
    base: ChunkId,
    chunks: VecDeque<HeldChunk>,
    spare: Vec<PageBuffer>,
    /// All buffers, for the process.
    kept: Charge,
}

impl HeldChunks {
    pub(super) fn within(budget: &MemoryBudget) -> std::result::Result<HeldChunks, Spent> {
        let kept = budget.outside(Keeps::Chunks, 0)?;
        Ok(HeldChunks { base: 0, chunks: VecDeque::new(), spare: Vec::new(), kept })
    }

    /// An empty buffer.
    pub(super) fn buffer(&mut self) -> Result<PageBuffer> {
        if let Some(buffer) = self.spare.pop() {
            return Ok(buffer);
        }
        self.kept.grow(CHUNK_LEN_MAX)?;
        PageBuffer::new(CHUNK_LEN_MAX).map_err(no_memory)
    }

    /// A buffer that is not needed after all, or no longer.
    pub(super) fn give_back(&mut self, buffer: PageBuffer) {
        self.spare.push(buffer);
    }

    /// Takes a chunk.
    ///
    /// # Errors
    /// The process has no room for its patch.
    pub(super) fn push(&mut self, chunk: HeldChunk) -> Result<()> {
        self.kept.grow(chunk.patch.as_ref().map_or(0, Vec::len))?;
        self.chunks.push_back(chunk);
        Ok(())
    }

    /// Memory of a chunk that is held elsewhere, beside its buffer.
    ///
    /// # Errors
    /// The process has no room for it.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<()> {
        Ok(self.kept.grow(bytes)?)
    }

    /// That memory is free again.
    pub(super) fn let_go(&mut self, bytes: usize) {
        self.kept.shrink(bytes);
    }

    /// The length of a chunk that leaves as a patch, as it is whole.
    pub(super) fn whole_len(&self, chunk: ChunkId) -> Option<u32> {
        self.get(chunk).filter(|held| held.patch.is_some()).map(|held| held.len)
    }

    /// From now on a chunk leaves whole.
    pub(super) fn make_whole(&mut self, chunk: ChunkId) {
        let place = chunk.checked_sub(self.base).and_then(|place| usize::try_from(place).ok());
        let patch = place.and_then(|place| self.chunks.get_mut(place)?.patch.take());
        self.kept.shrink(patch.map_or(0, |patch| patch.len()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Takes out the oldest chunk.
    pub(super) fn pop(&mut self) -> Option<HeldChunk> {
        let mut chunk = self.chunks.pop_front()?;
        self.base += 1;
        self.kept.shrink(chunk.patch.take().map_or(0, |patch| patch.len()));
        Some(chunk)
    }

    /// Whether any has something of the object.
    pub(super) fn have_content(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.about.has_content)
    }

    fn get(&self, chunk: ChunkId) -> Option<&HeldChunk> {
        self.chunks.get(usize::try_from(chunk.checked_sub(self.base)?).ok()?)
    }

    /// A range of a chunk; `None` if that is not held.
    pub(super) fn bytes(&self, chunk: ChunkId, range: Range<usize>) -> Option<&[u8]> {
        let held = self.get(chunk)?;
        held.patch.as_deref().map_or_else(|| held.buffer.get(range.clone()), |patch| patch.get(range.clone()))
    }

    /// The first file with data in a chunk.
    pub(super) fn first_file(&self, chunk: ChunkId) -> Option<&[u8]> {
        self.get(chunk)?.first_file.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_held_chunks_have_bytes() {
        let mut held = HeldChunks::within(&MemoryBudget::default()).expect("memory");
        for _ in 0..2 {
            let buffer = held.buffer().expect("memory");
            held.push(HeldChunk {
                buffer,
                patch: None,
                len: 45,
                first_file: Some(b"f".to_vec()),
                about: AboutChunk::new(45, 1, Leaving::default(), Vec::new()),
            })
            .expect("room");
        }
        assert_eq!(held.bytes(1, 0..3).map(<[u8]>::len), Some(3));
        let done = held.pop().expect("the oldest");
        held.give_back(done.buffer);
        assert_eq!(held.first_file(1), Some(&b"f"[..]));
        for gone in [0, 2, ChunkId::MAX] {
            assert_eq!((held.bytes(gone, 0..1), held.first_file(gone)), (None, None), "{gone}");
        }
        assert_eq!(held.bytes(1, 0..usize::MAX), None);
    }
}
