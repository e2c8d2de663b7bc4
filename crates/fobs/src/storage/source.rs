//! The sending side's storage: reads the sources and fills chunks with them (protocol 7).

use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

use blake3::hazmat::ChainingValue;

use super::FileDone;
use super::beneath::Base;
use super::chunk::{CHUNK_DATA_MAX, CHUNK_LEN_MAX, Encoding, Layout, RECORDS_MAX, digest};
use super::compression::Compression;
use super::open_file::{Input, OpenFile, Unread};
use super::path::show;
use super::record::{Meta, RECORD_LEN_MAX, Record, bounded_reason};
use super::transfer_root::TransferRoot;
use super::tree_hash::{GROUP, Tail};
use super::walk::{Entry, Named, Unusable, Walk, means_contents};
use crate::error::{Error, ErrorKind, Result};
use crate::event::FileError;

/// The name that a stream has in the transfer; the destination gives it another.
const STREAM_NAME: &[u8] = b"-";

/// What to read, and how.
#[derive(Debug)]
pub struct SourceSpec {
    /// What `paths` are relative to.
    pub base: Base,
    /// The sources, raw bytes. `dir/` and `dir/.` mean the directory's contents.
    pub paths: Vec<Vec<u8>>,
    /// Copy directories too.
    pub recursive: bool,
    /// Send modification times. Modes are always sent.
    pub preserve: bool,
    /// Compress each chunk with zstd where it becomes smaller.
    pub compress: bool,
}

/// A chunk that [`Source::next_chunk`] made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilledChunk {
    /// Length of the chunk in the buffer, bytes.
    pub len: usize,
    /// Whether it is the object's last.
    pub is_final: bool,
    /// Files whose end is in it.
    pub files: Vec<FileDone>,
    /// Files that failed while it was filled; its records say so too.
    pub failures: Vec<FileError>,
    /// File data in it, bytes, before compression.
    pub data_bytes: u64,
    /// The first file with data in it, for messages about the chunk.
    pub first_file: Option<Vec<u8>>,
}

/// The extent of the object, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// Sizes of all files that have been opened, bytes.
    pub bytes: u64,
    /// Files that have been opened.
    pub files: u64,
    /// Whether all files have been found.
    pub scan_complete: bool,
}

/// What a receiver must know of the sources before the first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceShape {
    /// Files and directories.
    Paths {
        /// How many were named.
        count: u32,
        /// Whether any of them was `dir/`: its contents, not the directory itself.
        contents: bool,
    },
    /// One stream without a name, such as standard input.
    Stream,
}

impl Default for SourceShape {
    /// One path: assumed of a peer that does not describe its sources.
    fn default() -> Self {
        SourceShape::Paths { count: 1, contents: false }
    }
}

impl SourceShape {
    /// Whether more than one name may arrive at the top of the destination.
    pub(super) fn needs_directory(self) -> bool {
        matches!(self, SourceShape::Paths { count, contents } if count > 1 || contents)
    }
}

/// Reads sources into chunks, lazily: the first chunk is filled before the scan ends.
pub struct Source {
    shape: SourceShape,
    feed: Feed,
    /// Sources that failed before the first entry.
    early_failures: std::vec::IntoIter<FileError>,
    file: Option<OpenFile>,
    /// Where in `records` the current file begins, while it can be read once more: its first record is in
    /// this chunk, and it has not been read a second time.
    begun_at: Option<usize>,
    preserve: bool,
    compression: Option<Compression>,
    records: Vec<u8>,
    values: Vec<ChainingValue>,
    root: TransferRoot,
    /// Files begun.
    files: u64,
    /// Bytes of complete files.
    bytes: u64,
    finished: bool,
}

enum Feed {
    Walk(Walk),
    /// `None` once its only entry is made.
    Stream(Option<Box<dyn Read + Send>>),
}

impl Feed {
    /// Whether no further file can come. The length of a stream is unknown until its end.
    fn is_exhausted(&self) -> bool {
        match self {
            Feed::Walk(walk) => walk.is_exhausted(),
            Feed::Stream(_) => false,
        }
    }
}

impl Source {
    /// Checks every source. Those that cannot be used are reported with the first chunk; it fails if none can
    /// be used.
    pub fn open(spec: SourceSpec) -> Result<Source> {
        let shape = SourceShape::Paths {
            count: u32::try_from(spec.paths.len()).unwrap_or(u32::MAX),
            contents: spec.paths.iter().any(|path| means_contents(path)),
        };
        let mut usable = Vec::new();
        let mut failures = Vec::new();
        let mut first_kind = ErrorKind::NoSource;
        for path in spec.paths {
            match Named::look(&spec.base, path, spec.recursive) {
                Ok(named) => usable.push(named),
                Err((why, failure)) => {
                    if failures.is_empty() {
                        first_kind = match why {
                            Unusable::NeedsRecursive => ErrorKind::Usage,
                            Unusable::Outside => ErrorKind::Denied,
                            Unusable::Other => ErrorKind::NoSource,
                        };
                    }
                    failures.push(failure);
                }
            }
        }
        if usable.is_empty() {
            let message = match &failures[..] {
                [] => "no source was named; name at least one".to_owned(),
                [only] => only.message.clone(),
                [first, rest @ ..] => format!("{} (nor can {} more be read)", first.message, rest.len()),
            };
            return Err(Error::new(first_kind, message));
        }
        let walk = Walk::new(spec.base, usable);
        Source::new(shape, Feed::Walk(walk), failures, spec.preserve, spec.compress)
    }

    /// One file of unknown length from `reader`, such as standard input.
    pub fn from_stream(reader: Box<dyn Read + Send>, compress: bool) -> Result<Source> {
        Source::new(SourceShape::Stream, Feed::Stream(Some(reader)), Vec::new(), true, compress)
    }

    fn new(
        shape: SourceShape,
        feed: Feed,
        failures: Vec<FileError>,
        preserve: bool,
        compress: bool,
    ) -> Result<Source> {
        let compression = match compress {
            true => Some(Compression::new()?),
            false => None,
        };
        Ok(Source {
            shape,
            feed,
            early_failures: failures.into_iter(),
            file: None,
            begun_at: None,
            preserve,
            compression,
            records: Vec::new(),
            values: Vec::new(),
            root: TransferRoot::default(),
            files: 0,
            bytes: 0,
            finished: false,
        })
    }

    /// What the receiver must know before the first record.
    pub fn shape(&self) -> SourceShape {
        self.shape
    }

    /// What is known of the object so far.
    pub fn known(&self) -> Known {
        let in_work = self.file.as_ref().map_or(0, |file| file.size.max(file.tree.len()));
        Known {
            bytes: self.bytes.saturating_add(in_work),
            files: self.files,
            scan_complete: self.finished || self.feed.is_exhausted(),
        }
    }

    /// The transfer's root (protocol 7.6), once the final chunk has been filled.
    pub fn root(&self) -> [u8; 32] {
        self.root.finish()
    }

    /// Fills the next chunk into `buf`, of at least [`CHUNK_LEN_MAX`] bytes, with up to `data_max` bytes of
    /// file data, from [`GROUP`] to [`CHUNK_DATA_MAX`]. Must not be called again after the final one.
    pub fn next_chunk(&mut self, buf: &mut [u8], data_max: usize) -> Result<FilledChunk> {
        if self.finished || buf.len() < CHUNK_LEN_MAX {
            let message =
                "next_chunk was called after the final chunk or with a small buffer; report this bug";
            return Err(Error::new(ErrorKind::Internal, message));
        }
        self.records.clear();
        self.begun_at = None;
        self.values.clear();
        let data_max = data_max.clamp(GROUP as usize, CHUNK_DATA_MAX);

        let mut filled = FilledChunk::default();
        let mut data_len = 0;
        // Each iteration writes one record, or an `Extent` and its `End`: less than the longest record.
        while self.records.len() + RECORD_LEN_MAX <= RECORDS_MAX {
            match self.file.take() {
                // Data comes in whole groups or up to a file's end, so at least one group must fit.
                Some(file) if data_max - data_len < GROUP as usize => {
                    self.file = Some(file);
                    break;
                }
                Some(file) => data_len += self.read_on(file, &mut buf[data_len..data_max], &mut filled),
                None if self.begin_next(&mut filled) => {}
                None => {
                    self.finished = true;
                    break;
                }
            }
        }
        filled.is_final = self.finished;
        filled.data_bytes = data_len as u64;
        filled.len = self.seal(buf, data_len);
        Ok(filled)
    }

    /// Advances to the next entry and writes its first record; false if there is none.
    fn begin_next(&mut self, filled: &mut FilledChunk) -> bool {
        if let Some(failure) = self.early_failures.next() {
            self.fail(failure, filled);
            return true;
        }
        let entry = match &mut self.feed {
            Feed::Walk(walk) => walk.next(),
            Feed::Stream(reader) => {
                let Some(reader) = reader.take() else { return false };
                self.begin_file(STREAM_NAME.to_vec(), stream_meta(), 0, Input::Stream(reader));
                return true;
            }
        };
        let Some(entry) = entry else { return false };
        match entry {
            Entry::Directory { path } => {
                Record::Directory { path: &path }.encode(&mut self.records);
                self.root.directory(&path);
            }
            Entry::DirectoryEnd { path, meta } => {
                let meta = self.told(meta);
                Record::DirectoryEnd { path: &path, meta }.encode(&mut self.records);
            }
            Entry::Symlink { path, target, meta } => {
                let meta = self.told(meta);
                Record::Symlink { path: &path, target: &target, meta }.encode(&mut self.records);
                self.root.symlink(&path, &target);
            }
            Entry::File { path, meta, size, input } => self.begin_file(path, meta, size, input),
            Entry::Failed(failure) => self.fail(failure, filled),
        }
        true
    }

    fn begin_file(&mut self, path: Vec<u8>, meta: Meta, size: u64, input: Input) {
        let meta = self.told(meta);
        self.begun_at = Some(self.records.len());
        Record::File { path: &path, meta, size }.encode(&mut self.records);
        self.files += 1;
        self.file = Some(OpenFile::new(path, input, size));
    }

    /// Mode and time for the receiver; without `preserve` no time, which saves eight bytes per file.
    fn told(&self, meta: Meta) -> Meta {
        match self.preserve {
            true => meta,
            false => Meta { mode: meta.mode, ..Meta::default() },
        }
    }

    fn fail(&mut self, failure: FileError, filled: &mut FilledChunk) {
        let reason = bounded_reason(&failure.message);
        Record::Failed { path: &failure.path, reason }.encode(&mut self.records);
        filled.failures.push(failure);
    }

    /// Reads the current file into `room` and writes its records. Returns the bytes used.
    fn read_on(&mut self, mut file: OpenFile, room: &mut [u8], filled: &mut FilledChunk) -> usize {
        let offset = file.tree.len();
        // Whole groups, like `offset`, so that the file continues at a group.
        let room_len = room.len() - room.len() % GROUP as usize;
        let (len, tail) = match file.read(&mut room[..room_len], &mut self.values) {
            Ok(read) => read,
            Err(unread) => {
                if let (Unread::Changed, Some(at)) = (&unread, self.begun_at.take()) {
                    return self.read_again(file, at, filled);
                }
                let message = match unread {
                    Unread::Failed(message) => message,
                    Unread::Changed => changed(&file.path),
                };
                // The data of this call is overwritten: the receiver discards the file.
                self.bytes += offset;
                self.fail(FileError { path: file.path, message }, filled);
                return 0;
            }
        };
        if len > 0 {
            filled.first_file.get_or_insert_with(|| file.path.clone());
            // At most a chunk's data.
            Record::Extent { offset, len: len as u32 }.encode(&mut self.records);
        }
        match tail {
            Tail::EndsFile => {
                Record::End.encode(&mut self.records);
                let (bytes, root) = (file.tree.len(), file.tree.root());
                self.bytes += bytes;
                self.root.file(&file.path, &root);
                filled.files.push(FileDone { path: file.path, bytes, root });
            }
            Tail::Continues => self.file = Some(file),
        }
        len
    }

    /// Takes back the current file's first record, which is at `at`, and begins it once more. Returns the
    /// bytes used: none.
    fn read_again(&mut self, file: OpenFile, at: usize, filled: &mut FilledChunk) -> usize {
        self.records.truncate(at);
        self.files -= 1;
        match file.anew() {
            Some(Entry::File { path, meta, size, input }) => {
                self.begin_file(path, meta, size, input);
                self.begun_at = None;
            }
            Some(Entry::Failed(failure)) => self.fail(failure, filled),
            _ => {}
        }
        0
    }

    /// Appends records and trailer to the data and compresses the body if it becomes smaller. Returns the
    /// chunk's length.
    fn seal(&mut self, buf: &mut [u8], data_len: usize) -> usize {
        let body_len = data_len + self.records.len();
        buf[data_len..body_len].copy_from_slice(&self.records);
        let mut layout = Layout {
            data_len,
            records_len: self.records.len(),
            encoding: Encoding::Plain,
            digest: digest(data_len, &self.records, &self.values),
        };
        let compressed = self.compression.as_mut().and_then(|it| it.compress(&buf[..body_len]));
        let stored_len = match compressed {
            Some(compressed) => {
                layout.encoding = Encoding::Zstd;
                buf[..compressed.len()].copy_from_slice(compressed);
                compressed.len()
            }
            None => body_len,
        };
        layout.encode(buf, stored_len)
    }
}

fn changed(path: &[u8]) -> String {
    format!(
        "cannot copy '{}': it changed while it was read; copy it again when nothing writes to it",
        show(path)
    )
}

/// Mode and time of a stream: those of a file written now.
fn stream_meta() -> Meta {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Meta {
        mode: 0o666,
        mtime_s: i64::try_from(since_1970.as_secs()).unwrap_or(0),
        mtime_ns: since_1970.subsec_nanos(),
    }
}

#[cfg(test)]
mod tests;
