//! The file that the source currently reads; it may span chunks.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use blake3::hazmat::ChainingValue;
use rustix::fs::{Advice, fadvise, fstat};
use rustix::io::{Errno, pread};

use super::attributes::{Collector, Part, hash_hole, may_have_holes, part_at};
use super::beneath::sentence;
use super::delta::{Matcher, PatchBuilder};
use super::input::Input;
use super::stamp::Stamp;
use super::stretch::ReadStretch;
use super::tree_hash::{ExtentHasher, FileTree, Tail, hash_extent};
use super::uncached::{LargeReads, READ_MAX, Reads};
use super::walk;
use super::walk::Entry;
use fobs_model::deltas::Because;

/// Smallest file for which sequential reading is announced to the kernel, bytes: below, the call costs more
/// than read-ahead saves.
const SEQUENTIAL_MIN: u64 = 4 << 20;

/// A file that is partly read.
pub(super) struct OpenFile {
    /// Path within the transfer.
    pub(super) path: Vec<u8>,
    /// Size by `fstat`, bytes; 0 for a stream.
    pub(super) size: u64,
    /// The hash and length of the part read so far.
    pub(super) tree: FileTree,
    /// The part that the receiver has from an earlier run, bytes.
    pub(super) resumed: u64,
    pub(super) input: Input,
    holes: Holes,
    pub(super) reads: Reads,
    /// Counts what is read of it; none of a small file.
    pub(super) large: Option<LargeReads>,
    /// Finds in it what the receiver has.
    pub(super) matcher: Option<Matcher>,
    /// Another one for each file that a source opens.
    pub(super) serial: u64,
}

/// What is read of a file at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Bytes, now in the room.
    Data(usize),
    /// Zeros, in no room.
    Hole(u64),
}

/// Whether a file is searched for holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holes {
    /// All is read.
    Read,
    /// They are; up to this place the file has data, bytes.
    Found { data_until: u64 },
}

/// Why a file was not read on.
pub(super) enum Unread {
    /// One sentence.
    Failed(String),
    /// It changed since it was opened: what was read may be torn.
    Changed,
}

impl OpenFile {
    /// What identified its content when it was opened; none of a stream.
    pub(super) fn stamp(&self) -> Option<&Stamp> {
        match &self.input {
            Input::File(_, stamp) => Some(stamp),
            Input::Stream(_) => None,
        }
    }

    pub(super) fn new(path: Vec<u8>, input: Input, size: u64, sparse: bool) -> OpenFile {
        if let Input::File(file, _) = &input
            && size >= SEQUENTIAL_MIN
        {
            // A hint; without it, reading is slower.
            let _ = fadvise(file, 0, None, Advice::Sequential);
        }
        let holes = match &input {
            Input::File(file, _) if sparse && may_have_holes(file) => Holes::Found { data_until: 0 },
            _ => Holes::Read,
        };
        OpenFile {
            path,
            size,
            tree: FileTree::default(),
            resumed: 0,
            input,
            holes,
            reads: Reads::Cached,
            large: None,
            matcher: None,
            serial: 0,
        }
    }

    /// Goes on after the part that `tree` stands for, which the receiver has.
    pub(super) fn go_on(path: Vec<u8>, input: Input, size: u64, tree: FileTree, sparse: bool) -> OpenFile {
        let resumed = tree.len();
        OpenFile { tree, resumed, ..OpenFile::new(path, input, size, sparse) }
    }

    /// Says what the `len` bytes are made of that were read at `offset`, the next of a chunk's data.
    pub(super) fn describe(&mut self, offset: u64, len: usize, to: &mut PatchBuilder) {
        match (&mut self.matcher, &self.input) {
            (Some(matcher), Input::File(..)) => matcher.cover(offset, len, to),
            _ => to.new_bytes(len, Because::NoBasis),
        }
    }

    /// A file that any thread may read on, and the place up to which it has data alone.
    pub(super) fn readable_apart(&self) -> Option<(&OwnedFd, u64)> {
        match (&self.input, self.holes) {
            _ if self.matcher.is_some() => None,
            (Input::File(file, _), Holes::Read) => Some((file, self.size)),
            (Input::File(file, _), Holes::Found { data_until }) => Some((file, data_until.min(self.size))),
            (Input::Stream(_), _) => None,
        }
    }

    /// Reads until `room` is full or the file or its data ends, or takes a hole of at most `hole_max` bytes;
    /// hashes that and appends the tree's new values to `values`. What was read `ahead`, if it is that, is in
    /// the room. Returns what there is and whether the file ends there. After an error `values` is unchanged.
    pub(super) fn read(
        &mut self,
        mut room: &mut [u8],
        hole_max: u64,
        values: &mut Vec<ChainingValue>,
        ahead: Option<ReadStretch>,
    ) -> Result<(Content, Tail), Unread> {
        let offset = self.tree.len();
        if let (Holes::Found { data_until }, Input::File(file, before)) = (&mut self.holes, &self.input) {
            if *data_until <= offset {
                match part_at(file, offset, self.size, hole_max) {
                    Part::Hole { len, tail } => {
                        let now = fstat(file)
                            .map_err(|errno| Unread::Failed(sentence("read all of", &self.path, errno)))?;
                        if !before.is_same_content(&Stamp::of(&now)) {
                            return Err(Unread::Changed);
                        }
                        self.take_hole(offset, len, tail, values);
                        return Ok((Content::Hole(len), tail));
                    }
                    Part::Data { len } => *data_until = offset.saturating_add(len),
                }
            }
            let len = usize::try_from(*data_until - offset).unwrap_or(usize::MAX).min(room.len());
            room = &mut room[..len];
        }
        if let Some(ahead) = ahead.filter(|ahead| ahead.is(self.serial, offset, room.len()))
            && let Some(len) = self.take_ahead(ahead, values)?
        {
            return Ok((Content::Data(len), Tail::Continues));
        }
        self.read_data(room, values).map(|(len, tail)| (Content::Data(len), tail))
    }

    fn take_hole(&mut self, offset: u64, len: u64, tail: Tail, values: &mut Vec<ChainingValue>) {
        let first = values.len();
        hash_hole(offset, len, tail, values);
        self.tree.extend(len, tail, &mut values[first..].iter().copied()).expect("every piece has its value");
    }

    /// Takes what another thread has read and hashed, if it is not the file's end: that may have moved.
    fn take_ahead(
        &mut self,
        mut ahead: ReadStretch,
        values: &mut Vec<ChainingValue>,
    ) -> Result<Option<usize>, Unread> {
        let (Input::File(file, before), len) = (&self.input, ahead.len()) else { return Ok(None) };
        if self.tree.len() + len as u64 >= self.size {
            return Ok(None);
        }
        let now = fstat(file).map_err(|errno| Unread::Failed(sentence("read all of", &self.path, errno)))?;
        if !before.is_same_content(&Stamp::of(&now)) {
            return Err(Unread::Changed);
        }
        self.large.iter().for_each(|large| large.add(len));
        let mut new = ahead.values.iter().copied();
        self.tree.extend(len as u64, Tail::Continues, &mut new).expect("every piece has its value");
        values.append(&mut ahead.values);
        Ok(Some(len))
    }

    fn read_data(
        &mut self,
        room: &mut [u8],
        values: &mut Vec<ChainingValue>,
    ) -> Result<(usize, Tail), Unread> {
        let offset = self.tree.len();
        let expected = self.expected(room.len());
        let mut hasher = ExtentHasher::new(offset, expected.0 as u64, expected.1);
        let (len, tail) = match &mut self.input {
            Input::File(file, before) => read_file(file, room, (offset, self.size), self.reads, &mut hasher)
                .and_then(|read| Ok((read, Stamp::of(&fstat(file)?))))
                .map_err(|errno| Unread::Failed(sentence("read all of", &self.path, errno)))
                .and_then(
                    |(read, now)| if before.is_same_content(&now) { Ok(read) } else { Err(Unread::Changed) },
                )?,
            Input::Stream(reader) => read_stream(reader, room, &mut hasher).map_err(|error| {
                Unread::Failed(format!(
                    "cannot read all of the input stream: {error}; what was read so far is discarded"
                ))
            })?,
        };
        self.large.iter().for_each(|large| large.add(len));
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
    pub(super) fn anew(self, collector: &Collector) -> Option<Entry> {
        match self.input {
            Input::File(file, _) => Some(walk::opened(self.path, file, collector)),
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
    (offset, size): (u64, u64),
    reads: Reads,
    hasher: &mut ExtentHasher,
) -> Result<(usize, Tail), Errno> {
    let mut len = 0;
    while len < room.len() {
        let part = &mut room[len..];
        let wanted = part.len().min(reads.at_most());
        let read = match reads.read(file, part, offset + len as u64)? {
            0 => return Ok((len, Tail::EndsFile)),
            read => read,
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
