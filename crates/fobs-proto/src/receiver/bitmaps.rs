//! Which block's bitmap goes with the next ack that has one.

use super::chunk::{Arriving, Progress};
use crate::ChunkId;
use crate::object::BLOCK_PACKETS;
use crate::wire::BlockBitmap;

/// Acks from one bitmap of an incomplete block to the next: bitmaps cost bytes and matter only after lost
/// acks.
pub(super) const BITMAP_EVERY: usize = 16;

/// Whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Bitmaps(usize);

impl Bitmaps {
    /// A bitmap of one of the incomplete blocks, the oldest first and each in turn.
    pub(super) fn next<'a>(
        &mut self,
        chunks: impl Iterator<Item = (&'a Arriving, ChunkId)>,
    ) -> Option<BlockBitmap> {
        let blocks = chunks.filter(|(chunk, _)| chunk.progress == Progress::Arriving);
        let blocks: Vec<_> = blocks
            .flat_map(|(chunk, id)| {
                let packets = chunk.received().highest().map_or(0, |i| i + 1);
                (0..packets.div_ceil(BLOCK_PACKETS)).map(move |block| (chunk, id, block, packets))
            })
            .take(2 * BITMAP_EVERY)
            .collect();
        let (chunk, id, block, packets) = *blocks.get(self.0 % blocks.len().max(1))?;
        let first = block * BLOCK_PACKETS;
        let mut bits = Vec::new();
        chunk.received().write_bytes(first, (packets - first).min(BLOCK_PACKETS), &mut bits);
        self.0 = self.0.wrapping_add(1);
        Some(BlockBitmap { chunk: id, attempt: chunk.attempt(), block: block as u8, bits })
    }
}
