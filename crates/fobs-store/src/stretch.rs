//! A part of a large file that is read and hashed apart from the rest, while chunks before it are in work.

use std::os::fd::OwnedFd;

use blake3::hazmat::ChainingValue;

use crate::tree_hash::{ExtentHasher, Tail};
use crate::uncached::Reads;

/// A part of the file that a source reads, which will be all the data of one of its next chunks.
#[derive(Debug)]
pub struct Stretch {
    pub(crate) file: OwnedFd,
    /// Which opened file of the source it is of.
    pub(crate) of: u64,
    pub(crate) reads: Reads,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

/// What was read of a [`Stretch`]: its bytes are in the room that was given.
#[derive(Debug)]
pub struct ReadStretch {
    of: u64,
    offset: u64,
    len: usize,
    pub(crate) values: Vec<ChainingValue>,
}

impl Stretch {
    /// Reads it to the front of `room` and hashes it. `None` where that cannot be done; then the source
    /// finds out why.
    pub fn read(&self, room: &mut [u8]) -> Option<ReadStretch> {
        let room = room.get_mut(..self.len)?;
        let mut hasher = ExtentHasher::new(self.offset, self.len as u64, Tail::Continues);
        let mut len = 0;
        while len < self.len {
            let at = self.offset + len as u64;
            match self.reads.read(&self.file, &mut room[len..], at) {
                Ok(0) | Err(_) => return None,
                Ok(read) => {
                    hasher.update(&room[len..len + read]);
                    len += read;
                }
            }
        }
        Some(ReadStretch { of: self.of, offset: self.offset, len, values: hasher.finish()? })
    }
}

impl ReadStretch {
    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether it is this part of this opened file.
    pub(crate) fn is(&self, of: u64, offset: u64, len: usize) -> bool {
        (self.of, self.offset, self.len) == (of, offset, len)
    }
}
