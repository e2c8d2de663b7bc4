//! The file that the source is reading: it may span chunks.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, pread};

use super::beneath::sentence;
use super::tree_hash::FileTree;

/// Files from this size on are announced to the kernel as read from front to back, bytes: below, the call costs
/// more than its read-ahead saves.
const SEQUENTIAL_MIN: u64 = 4 << 20;

/// A file that has been begun and not ended.
pub(super) struct OpenFile {
    /// Path within the transfer.
    pub(super) path: Vec<u8>,
    /// What `fstat` said, bytes; 0 for a stream.
    pub(super) size: u64,
    /// The hash of what was read so far, and how much that is.
    pub(super) tree: FileTree,
    input: Input,
}

/// Where a file's bytes come from.
pub(super) enum Input {
    /// A regular file.
    File(OwnedFd),
    /// Anything that has no offsets.
    Stream(Box<dyn Read + Send>),
}

/// How far a read came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadEnd {
    /// The file's end.
    EndOfFile,
    /// The room's end.
    Full,
}

impl OpenFile {
    pub(super) fn new(path: Vec<u8>, input: Input, size: u64) -> OpenFile {
        if let Input::File(file) = &input
            && size >= SEQUENTIAL_MIN
        {
            // A hint; where it is not taken, reading is only slower.
            let _ = fadvise(file, 0, None, Advice::Sequential);
        }
        OpenFile { path, size, tree: FileTree::default(), input }
    }

    /// Reads on, until the room or the file ends. An error is one sentence.
    pub(super) fn read(&mut self, room: &mut [u8]) -> Result<(usize, ReadEnd), String> {
        match &mut self.input {
            Input::File(file) => read_file(file, room, self.tree.len(), self.size)
                .map_err(|errno| sentence("read all of", &self.path, errno)),
            Input::Stream(reader) => read_stream(reader, room).map_err(|error| {
                format!("cannot read all of the input stream: {error}; what was read so far is discarded")
            }),
        }
    }
}

fn read_file(file: &OwnedFd, room: &mut [u8], offset: u64, size: u64) -> Result<(usize, ReadEnd), Errno> {
    let mut len = 0;
    while len < room.len() {
        let at = offset + len as u64;
        match pread(file, &mut room[len..], at) {
            Ok(0) => return Ok((len, ReadEnd::EndOfFile)),
            Ok(read) => len += read,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
        // A read that was cut short just where the file was said to end needs no further read to be believed.
        if len < room.len() && offset + len as u64 == size {
            return Ok((len, ReadEnd::EndOfFile));
        }
    }
    // The room is full. Where the file should end just there, one byte more tells whether it did, and whether the
    // extent is its last.
    let end = offset + len as u64;
    if end >= size && matches!(pread(file, &mut [0_u8; 1][..], end), Ok(0)) {
        return Ok((len, ReadEnd::EndOfFile));
    }
    Ok((len, ReadEnd::Full))
}

fn read_stream(reader: &mut dyn Read, room: &mut [u8]) -> io::Result<(usize, ReadEnd)> {
    let mut len = 0;
    while len < room.len() {
        match reader.read(&mut room[len..]) {
            Ok(0) => return Ok((len, ReadEnd::EndOfFile)),
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((len, ReadEnd::Full))
}
