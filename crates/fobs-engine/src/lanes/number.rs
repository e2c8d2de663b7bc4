//! The number that a chunk has in the object, which is sent behind its bytes on a lane.

use fobs_proto::ChunkId;
use fobs_proto::session::WITHDRAWN_LEN;

/// Bytes of it.
pub(crate) const NUMBER_LEN: usize = 4;
/// A withdrawn chunk has nothing else.
const _: () = assert!(NUMBER_LEN == WITHDRAWN_LEN as usize);
/// The bit that marks the final chunk; numbers stay below it.
const FINAL: u32 = 1 << 31;

/// Where a chunk of a lane belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneNumber {
    /// Its number in the object, below 2^31: 2 PiB in chunks of 1 MiB.
    pub(crate) chunk: ChunkId,
    /// Whether the object ends with it.
    pub(crate) is_final: bool,
}

impl LaneNumber {
    /// The bytes; `None` for a number that has no room.
    pub(crate) fn encode(self) -> Option<[u8; NUMBER_LEN]> {
        let end = if self.is_final { FINAL } else { 0 };
        (self.chunk < FINAL).then(|| (self.chunk | end).to_le_bytes())
    }

    /// From the last bytes of a chunk; the rest of its length. `None` if it is too short.
    pub(crate) fn decode(chunk: &[u8]) -> Option<(LaneNumber, usize)> {
        let (rest, number) = chunk.split_last_chunk::<NUMBER_LEN>()?;
        let number = u32::from_le_bytes(*number);
        Some((LaneNumber { chunk: number & !FINAL, is_final: number & FINAL != 0 }, rest.len()))
    }
}
