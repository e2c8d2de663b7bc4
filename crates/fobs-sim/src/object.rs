//! The object of a transfer: lengths of chunks, and nothing else. A petabyte takes as much memory as a byte.

use fobs_proto::ChunkId;
use fobs_proto::object::{CHUNK_DATA_MAX, CHUNK_LEN_MAX, TRAILER_LEN};
use fobs_proto::sender::Extent;
use fobs_proto::session::{ChunkRead, ObjectSize};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Largest object, data bytes: fewer than 2^32 chunks of 1 MiB, the smallest beside the first three.
pub const BYTES_MAX: u64 = 1 << 51;

/// What a FOBS flow sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// This number of data bytes, more than 0, cut by the sender's policy.
    Bytes(u64),
    /// Chunks of these lengths, each 1 to [`CHUNK_LEN_MAX`]; not empty.
    Chunks(Vec<u32>),
}

impl Object {
    /// How many chunks, if all are full ones; there may be more.
    pub fn chunks(&self) -> u64 {
        match self {
            Object::Bytes(bytes) => bytes.div_ceil(u64::from(CHUNK_DATA_MAX)).max(1),
            Object::Chunks(lens) => lens.len() as u64,
        }
    }

    /// Length of a chunk, bytes, with its trailer, if all before are full ones.
    pub fn len(&self, chunk: ChunkId) -> u32 {
        match self {
            Object::Bytes(bytes) => {
                let left = bytes.saturating_sub(u64::from(chunk) * u64::from(CHUNK_DATA_MAX));
                left.clamp(1, u64::from(CHUNK_DATA_MAX)) as u32 + TRAILER_LEN
            }
            Object::Chunks(lens) => lens.get(chunk as usize).map_or(1, |len| (*len).clamp(1, CHUNK_LEN_MAX)),
        }
    }

    /// Never: an object has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Bytes of all chunks, if all are full ones.
    pub fn total(&self) -> u64 {
        match self {
            Object::Bytes(_) => self.data_bytes() + self.chunks() * u64::from(TRAILER_LEN),
            Object::Chunks(_) => self.data_bytes(),
        }
    }

    /// Bytes without trailers; chunks of given lengths count in full.
    pub(crate) fn data_bytes(&self) -> u64 {
        match self {
            Object::Bytes(bytes) => (*bytes).max(1),
            Object::Chunks(lens) => lens.iter().map(|len| u64::from((*len).clamp(1, CHUNK_LEN_MAX))).sum(),
        }
    }
}

/// The object while it is cut: lengths of the chunks that a side still has to do with.
#[derive(Debug)]
pub(crate) struct Cut {
    object: Object,
    size: ObjectSize,
    /// Bytes without trailers that are not cut yet.
    left: u64,
    /// Lengths of chunks from `base` on.
    base: ChunkId,
    lens: VecDeque<u32>,
    /// What of the object they hold, by their places in it.
    spans: VecDeque<Range<u64>>,
    /// Bytes of the whole object before the next chunk.
    at: u64,
    /// Bytes of all chunks cut so far.
    total: u64,
    /// Lengths that chunks had before they were withdrawn.
    before: HashMap<ChunkId, u32>,
}

impl Cut {
    pub(crate) fn new(object: Object) -> Cut {
        let data_bytes = object.data_bytes();
        Cut {
            object,
            size: ObjectSize { data_bytes, extent: Extent::Whole },
            left: data_bytes,
            base: 0,
            lens: VecDeque::new(),
            spans: VecDeque::new(),
            at: 0,
            total: 0,
            before: HashMap::new(),
        }
    }

    /// The chunks of one lane of several, which are pushed and have no end.
    pub(crate) fn of_lane() -> Cut {
        Cut { left: 1, ..Cut::new(Object::Chunks(Vec::new())) }
    }

    /// Another chunk of a lane.
    pub(crate) fn push(&mut self, chunk: ChunkRead) {
        self.total += u64::from(chunk.len);
        self.lens.push_back(chunk.len);
        self.spans.push_back(self.at..self.at + chunk.data_bytes);
        self.at += chunk.data_bytes;
    }

    /// A chunk of a lane is withdrawn: `len` bytes are in its place.
    pub(crate) fn withdraw(&mut self, chunk: ChunkId, len: u32) {
        let place = chunk.checked_sub(self.base).map(|place| place as usize);
        if let Some(old) = place.and_then(|place| self.lens.get_mut(place)) {
            self.before.insert(chunk, std::mem::replace(old, len));
        }
    }

    /// As [`len`](Self::len); of a withdrawn chunk `said`, if it had that length before.
    pub(crate) fn len_as(&self, chunk: ChunkId, said: u32) -> u32 {
        if self.before.get(&chunk) == Some(&said) { said } else { self.len(chunk) }
    }

    /// What is left of an object after `done` bytes, which end with a chunk; `None` if nothing is.
    pub(crate) fn after(object: Object, done: u64) -> Option<Cut> {
        let rest = match object {
            Object::Bytes(bytes) => Object::Bytes(bytes.checked_sub(done).filter(|left| *left > 0)?),
            Object::Chunks(lens) => {
                let mut before = 0;
                let is_left = |len: &u32| {
                    before += u64::from((*len).clamp(1, CHUNK_LEN_MAX));
                    before > done
                };
                let place = lens.iter().position(is_left)?;
                Object::Chunks(lens[place..].to_vec())
            }
        };
        Some(Cut { at: done, ..Cut::new(rest) })
    }

    /// Size of the object, which the reader knows from the start.
    pub(crate) fn size(&self) -> ObjectSize {
        self.size
    }

    /// Cuts the next chunk, with up to `data_max` bytes of data; `None` after the final one.
    pub(crate) fn next(&mut self, data_max: u32) -> Option<ChunkRead> {
        if self.is_done() {
            return None;
        }
        let (data_bytes, len) = match &self.object {
            Object::Bytes(_) => {
                let data = self.left.min(u64::from(data_max.max(1)));
                (data, data as u32 + TRAILER_LEN)
            }
            Object::Chunks(_) => {
                let len = self.object.len(self.end());
                (u64::from(len), len)
            }
        };
        self.left -= data_bytes;
        self.total += u64::from(len);
        self.lens.push_back(len);
        self.spans.push_back(self.at..self.at + data_bytes);
        self.at += data_bytes;
        Some(ChunkRead { len, data_bytes, is_final: self.is_done() })
    }

    /// Whether everything is cut.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Length of a chunk that was cut and not forgotten, bytes.
    pub(crate) fn len(&self, chunk: ChunkId) -> u32 {
        let place = chunk.checked_sub(self.base).map(|place| place as usize);
        place.and_then(|place| self.lens.get(place)).copied().unwrap_or(0)
    }

    /// What of the object a chunk holds that was cut and not forgotten.
    pub(crate) fn span(&self, chunk: ChunkId) -> Range<u64> {
        let place = chunk.checked_sub(self.base).map(|place| place as usize);
        place.and_then(|place| self.spans.get(place)).cloned().unwrap_or(0..0)
    }

    /// Whether a chunk is the last one.
    pub(crate) fn is_final(&self, chunk: ChunkId) -> bool {
        self.is_done() && chunk + 1 == self.end()
    }

    /// Chunks cut so far.
    pub(crate) fn end(&self) -> ChunkId {
        self.base + self.lens.len() as ChunkId
    }

    /// Bytes of all chunks cut so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Chunks below are no longer needed by either side.
    pub(crate) fn forget_below(&mut self, chunk: ChunkId) {
        while self.base < chunk && self.lens.pop_front().is_some() {
            self.spans.pop_front();
            self.before.remove(&self.base);
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn chunks_add_up() {
        for bytes in [1, 100, 4 * MIB, 4 * MIB + 1, 20 * MIB] {
            let mut cut = Cut::new(Object::Bytes(bytes));
            let mut data = 0;
            while let Some(chunk) = cut.next(if data < MIB { 256 << 10 } else { CHUNK_DATA_MAX }) {
                data += chunk.data_bytes;
                assert_eq!(chunk.is_final, cut.is_final(cut.end() - 1), "{bytes}");
            }
            assert_eq!(data, bytes);
            let sum: u64 = (0..cut.end()).map(|chunk| u64::from(cut.len(chunk))).sum();
            assert_eq!(sum, cut.total(), "{bytes}");
            assert!(cut.is_final(cut.end() - 1) && cut.next(1).is_none(), "{bytes}");
        }
        let petabyte = Object::Bytes(1_000_000_000_000_000);
        assert_eq!(petabyte.chunks(), 238_418_580);
        assert_eq!(Object::Chunks(vec![5, 7]).total(), 12);
    }

    #[test]
    fn given_chunks_keep_their_lengths_until_forgotten() {
        let mut cut = Cut::new(Object::Chunks(vec![5, 7, 9]));
        while cut.next(1).is_some() {}
        assert_eq!(((0..3).map(|chunk| cut.len(chunk)).collect::<Vec<_>>(), cut.end()), (vec![5, 7, 9], 3));
        cut.forget_below(2);
        assert_eq!((cut.len(1), cut.len(2), cut.end(), cut.total()), (0, 9, 3, 21));
    }
}
