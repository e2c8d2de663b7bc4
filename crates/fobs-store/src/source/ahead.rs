//! What other threads may read of the current file, and have read.

use rustix::io::fcntl_dupfd_cloexec;

use super::Source;
use super::spec::FilledChunk;
use crate::chunk::CHUNK_DATA_MAX;
use crate::stretch::{ReadStretch, Stretch};
use crate::tree_hash::GROUP;
use crate::uncached::UNCACHED_MIN;
use fobs_model::error::Result;

impl Source {
    /// What the chunk will hold that comes after `before` more bytes of the current file and has room for
    /// `data_max`; `None` unless that is a part of it that any thread may read.
    pub fn stretch(&self, before: u64, data_max: usize) -> Option<Stretch> {
        let file = self.file.as_ref().filter(|file| file.size >= UNCACHED_MIN)?;
        let (fd, plain_until) = file.readable_apart()?;
        let (offset, len) = (file.tree.len().checked_add(before)?, stretch_len(data_max));
        // The last part may be shorter, or longer, than was announced.
        let is_inside = offset.checked_add(len as u64).is_some_and(|end| end < plain_until);
        let file_of_its_own = is_inside.then(|| fcntl_dupfd_cloexec(fd, 0).ok())??;
        Some(Stretch { file: file_of_its_own, of: file.serial, reads: file.reads, offset, len })
    }

    /// As [`Source::next_chunk`], into a buffer at whose front is what was read of the chunk's [`Stretch`].
    pub fn next_chunk_of(
        &mut self,
        buf: &mut [u8],
        data_max: usize,
        read: Option<ReadStretch>,
    ) -> Result<FilledChunk> {
        self.ahead = read;
        let filled = self.next_chunk(buf, data_max);
        self.ahead = None;
        filled
    }
}

/// How much of a file a chunk holds that has room for `data_max` bytes and holds nothing else.
pub fn stretch_len(data_max: usize) -> usize {
    let data_max = data_max.clamp(GROUP as usize, CHUNK_DATA_MAX);
    data_max - data_max % GROUP as usize
}
