//! The file that the source currently reads; it may span chunks.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use blake3::hazmat::ChainingValue;
use rustix::fs::{Advice, Stat, fadvise, fstat};
use rustix::io::{Errno, pread};

use super::beneath::sentence;
use super::tree_hash::{ExtentHasher, FileTree, Tail, hash_extent};
use super::walk::{self, Entry};

/// Smallest file for which sequential reading is announced to the kernel, bytes: below, the call costs more
/// than read-ahead saves.
const SEQUENTIAL_MIN: u64 = 4 << 20;

/// Most bytes read before they are hashed: less than a CPU's own cache. Measured over a veth pair, a sender
/// that reads whole chunks first uses 8% more CPU time.
const READ_MAX: usize = 256 << 10;

/// A file that is partly read.
pub(super) struct OpenFile {
    /// Path within the transfer.
    pub(super) path: Vec<u8>,
    /// Size by `fstat`, bytes; 0 for a stream.
    pub(super) size: u64,
    /// The hash and length of the part read so far.
    pub(super) tree: FileTree,
    input: Input,
}

/// The origin of a file's bytes.
pub(super) enum Input {
    /// A regular file, and what identified its content when it was opened.
    File(OwnedFd, Stamp),
    /// Anything without offsets.
    Stream(Box<dyn Read + Send>),
}

/// What identifies a file's content without reading it. The inode is that of the open file, so it cannot
/// change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    size: i64,
    modified: (i64, u64),
    /// Unlike the time of modification, no program can set it.
    changed: (i64, u64),
    links: u64,
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Stamp {
        Stamp {
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
            links: stat.st_nlink,
        }
    }

    /// Whether the content is the same, as far as can be seen.
    fn is_same_content(&self, now: &Stamp) -> bool {
        // A name that was added or removed changes the last time too: a file that another one replaced under
        // its name is still read whole.
        let untouched = self.changed == now.changed || self.links != now.links;
        (self.size, self.modified) == (now.size, now.modified) && untouched
    }
}

/// Why a file was not read on.
pub(super) enum Unread {
    /// One sentence.
    Failed(String),
    /// It changed since it was opened: what was read may be torn.
    Changed,
}

impl OpenFile {
    pub(super) fn new(path: Vec<u8>, input: Input, size: u64) -> OpenFile {
        if let Input::File(file, _) = &input
            && size >= SEQUENTIAL_MIN
        {
            // A hint; without it, reading is slower.
            let _ = fadvise(file, 0, None, Advice::Sequential);
        }
        OpenFile { path, size, tree: FileTree::default(), input }
    }

    /// Reads until `room` is full or the file ends, hashes the data, and appends the tree's new values to
    /// `values`. Returns the bytes read and whether the file ends there. After an error `values` is
    /// unchanged.
    pub(super) fn read(
        &mut self,
        room: &mut [u8],
        values: &mut Vec<ChainingValue>,
    ) -> Result<(usize, Tail), Unread> {
        let offset = self.tree.len();
        let expected = self.expected(room.len());
        let mut hasher = ExtentHasher::new(offset, expected.0 as u64, expected.1);
        let (len, tail) = match &mut self.input {
            Input::File(file, before) => read_file(file, room, offset, self.size, &mut hasher)
                .and_then(|read| Ok((read, Stamp::of(&fstat(file)?))))
                .map_err(|errno| Unread::Failed(sentence("read all of", &self.path, errno)))
                .and_then(|(read, now)| match before.is_same_content(&now) {
                    true => Ok(read),
                    false => Err(Unread::Changed),
                })?,
            Input::Stream(reader) => read_stream(reader, room, &mut hasher).map_err(|error| {
                Unread::Failed(format!(
                    "cannot read all of the input stream: {error}; what was read so far is discarded"
                ))
            })?,
        };
        if len > 0 {
            let first = values.len();
            match hasher.finish() {
                Some(mut hashed) if (len, tail) == expected => values.append(&mut hashed),
                // The file has another size than announced, so its end is cut into other pieces.
                _ => hash_extent(&room[..len], offset, tail, values),
            }
            let mut new = values[first..].iter().copied();
            self.tree.extend(len as u64, tail, &mut new).expect("every piece has its value");
        }
        Ok((len, tail))
    }

    /// The entry of the same open file as it is now, to read it once more; none of a stream.
    pub(super) fn anew(self) -> Option<Entry> {
        match self.input {
            Input::File(file, _) => Some(walk::opened(self.path, file)),
            Input::Stream(_) => None,
        }
    }

    /// The length and end of the next read if the file has the announced size. The size of a stream is
    /// unknown.
    fn expected(&self, room: usize) -> (usize, Tail) {
        match self.size.saturating_sub(self.tree.len()) {
            left if (1..=room as u64).contains(&left) => (left as usize, Tail::EndsFile),
            _ => (room, Tail::Continues),
        }
    }
}

fn read_file(
    file: &OwnedFd,
    room: &mut [u8],
    offset: u64,
    size: u64,
    hasher: &mut ExtentHasher,
) -> Result<(usize, Tail), Errno> {
    let mut len = 0;
    while len < room.len() {
        let part = &mut room[len..];
        let wanted = part.len().min(READ_MAX);
        let read = match pread(file, &mut part[..wanted], offset + len as u64) {
            Ok(0) => return Ok((len, Tail::EndsFile)),
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        hasher.update(&part[..read]);
        len += read;
        // A short read that ends at the announced size needs no further read.
        if read < wanted && offset + len as u64 == size {
            return Ok((len, Tail::EndsFile));
        }
    }
    // `room` is full. If the file should end there, reading one more byte shows whether this extent is its
    // last.
    let end = offset + len as u64;
    if end >= size && matches!(pread(file, &mut [0_u8; 1][..], end), Ok(0)) {
        return Ok((len, Tail::EndsFile));
    }
    Ok((len, Tail::Continues))
}

fn read_stream(
    reader: &mut dyn Read,
    room: &mut [u8],
    hasher: &mut ExtentHasher,
) -> io::Result<(usize, Tail)> {
    let mut len = 0;
    while len < room.len() {
        let part = &mut room[len..];
        let wanted = part.len().min(READ_MAX);
        match reader.read(&mut part[..wanted]) {
            Ok(0) => return Ok((len, Tail::EndsFile)),
            Ok(read) => {
                hasher.update(&part[..read]);
                len += read;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((len, Tail::Continues))
}
