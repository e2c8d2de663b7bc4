//! The object of a transfer: lengths of chunks, and nothing else. A petabyte takes as much memory as a byte.

use fobs_proto::ChunkId;
use fobs_proto::object::CHUNK_LEN_MAX;

/// Data bytes in a full chunk (protocol 7.1). The engine cuts smaller ones on short paths for the sake of
/// caches, which hosts here do not have.
pub const CHUNK_DATA: u64 = 4 << 20;
/// Trailer of every chunk, bytes (protocol 7.1).
const TRAILER: u32 = 44;
/// Largest object, data bytes: 2^32 chunks.
pub const BYTES_MAX: u64 = CHUNK_DATA << 32;

/// What a FOBS flow sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// So many data bytes, in full chunks and a last one; more than none.
    Bytes(u64),
    /// Chunks of these lengths, each 1 to [`CHUNK_LEN_MAX`]; not empty.
    Chunks(Vec<u32>),
}

impl Object {
    /// How many chunks.
    pub fn chunks(&self) -> u64 {
        match self {
            Object::Bytes(bytes) => bytes.div_ceil(CHUNK_DATA).max(1),
            Object::Chunks(lens) => lens.len() as u64,
        }
    }

    /// Length of a chunk, bytes, with its trailer.
    pub fn len(&self, chunk: ChunkId) -> u32 {
        match self {
            Object::Bytes(bytes) => {
                let left = bytes.saturating_sub(u64::from(chunk) * CHUNK_DATA);
                left.clamp(1, CHUNK_DATA) as u32 + TRAILER
            }
            Object::Chunks(lens) => lens.get(chunk as usize).map_or(1, |len| (*len).clamp(1, CHUNK_LEN_MAX)),
        }
    }

    /// Whether this is the last chunk.
    pub fn is_final(&self, chunk: ChunkId) -> bool {
        u64::from(chunk) + 1 == self.chunks()
    }

    /// Never: an object has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Bytes of all chunks.
    pub fn total(&self) -> u64 {
        match self {
            Object::Bytes(bytes) => (*bytes).max(1) + self.chunks() * u64::from(TRAILER),
            Object::Chunks(lens) => lens.iter().map(|len| u64::from((*len).clamp(1, CHUNK_LEN_MAX))).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_add_up() {
        for bytes in [1, 100, CHUNK_DATA, CHUNK_DATA + 1, 5 * CHUNK_DATA] {
            let object = Object::Bytes(bytes);
            let sum: u64 = (0..object.chunks()).map(|chunk| u64::from(object.len(chunk as ChunkId))).sum();
            assert_eq!(sum, object.total(), "{bytes}");
            assert!(object.is_final((object.chunks() - 1) as ChunkId));
        }
        let petabyte = Object::Bytes(1_000_000_000_000_000);
        assert_eq!(petabyte.chunks(), 238_418_580);
        assert_eq!(Object::Chunks(vec![5, 7]).total(), 12);
    }
}
