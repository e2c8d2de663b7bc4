//! A part of a remote file, written at its place in a local file that several jobs fill, perhaps from several
//! hosts; and the hash of such a file from the hashes of its pieces.
//!
//! A piece is a power of two of bytes and begins at a multiple of it, so it is a whole subtree of the file's
//! BLAKE3 tree: the file's hash comes of the values of its pieces, and no byte is hashed twice. A line of the
//! journal, `INDEX HEX`, is written after the device has kept the piece, so it holds after a crash too.

use crate::job::{Job, misuse};
use crate::values::Value;
use blake3::hazmat::{ChainingValue, HasherExt};
use fobs::{Error, ErrorKind, Result, pieces};
use pyo3::prelude::*;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the device is asked to keep what came: as often as a copy's journal does it.
const SYNC_EVERY: Duration = Duration::from_secs(5);
/// Smallest piece, bytes: one BLAKE3 chunk of 1 KiB could not be told from a file of one.
const PIECE_MIN: u64 = 64 << 10;
/// Bytes that are read at once to be hashed.
const READ_MAX: usize = 1 << 20;

/// The part and where it stands. Clones are the same part.
#[derive(Clone)]
pub(crate) struct Part(Arc<Mutex<PartState>>);

struct PartState {
    data: File,
    journal: File,
    start: u64,
    /// Where the next byte goes.
    at: u64,
    end: u64,
    piece: u64,
    hasher: blake3::Hasher,
    expected: Option<Expected>,
    /// Whole pieces that the device may not have kept yet.
    unsynced: Vec<(u64, ChainingValue)>,
    synced_at: Instant,
    written: u64,
    /// Bytes of a piece that is not verified yet, where one is expected.
    held: Vec<u8>,
    /// Where the piece begins that was not the expected one.
    differs: Option<u64>,
    /// Number of the newest writer: an older one writes no more.
    writers: u64,
}

/// What the pieces of a part must be: nothing else is written.
pub(crate) struct Expected {
    /// Values of the pieces in order; of a file of one piece its hash.
    pub(crate) values: Vec<ChainingValue>,
    /// Whether the part is such a file.
    pub(crate) is_whole: bool,
}

/// Takes the bytes of one attempt.
struct PartWriter {
    part: Part,
    number: u64,
}

impl Part {
    pub(crate) fn new(
        path: PathBuf,
        journal: PathBuf,
        (start, end): (u64, u64),
        piece: u64,
        expected: Option<Expected>,
    ) -> Result<Part> {
        check_piece(piece)?;
        if !start.is_multiple_of(piece) || end <= start {
            let message =
                format!("a part begins on a piece of {piece} bytes and is not empty: {start} to {end}");
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let count = (end - start).div_ceil(piece);
        if expected.as_ref().is_some_and(|expected| expected.values.len() as u64 != count) {
            return Err(Error::new(ErrorKind::Usage, format!("{count} pieces have {count} values")));
        }
        let refuse = |path: &PathBuf, error: io::Error| {
            let message = format!("cannot write to '{}': {error}", path.display());
            Error::new(ErrorKind::Destination, message)
        };
        let data = OpenOptions::new().write(true).open(&path).map_err(|error| refuse(&path, error))?;
        let open = OpenOptions::new().create(true).append(true).open(&journal);
        let journal = open.map_err(|error| refuse(&journal, error))?;
        Ok(Part(Arc::new(Mutex::new(PartState {
            data,
            journal,
            start,
            at: start,
            end,
            piece,
            hasher: hasher_at(start),
            expected,
            held: Vec::new(),
            differs: None,
            unsynced: Vec::new(),
            synced_at: Instant::now(),
            written: 0,
            writers: 0,
        }))))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, PartState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A writer for another attempt, and from where on it needs bytes.
    pub(crate) fn writer(&self) -> (u64, Box<dyn Write + Send>) {
        let mut state = self.state();
        state.writers += 1;
        (state.at, Box::new(PartWriter { part: self.clone(), number: state.writers }))
    }

    /// The place of the piece that was not the expected one, if that is what ended the call.
    pub(crate) fn differs(&self) -> Option<u64> {
        self.state().differs
    }

    /// The end: how many bytes came. Fewer than were asked for where the file has become shorter.
    pub(crate) fn finish(&self) -> Result<u64> {
        let mut state = self.state();
        state
            .keep()
            .map_err(|error| Error::new(ErrorKind::FileIo, format!("cannot write the part: {error}")))?;
        Ok(state.written)
    }
}

impl PartState {
    fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece_end = (self.at / self.piece + 1) * self.piece;
        let left = piece_end.min(self.end) - self.at;
        let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if count == 0 {
            return Err(io::Error::other("the server sent more than the part that was asked for"));
        }
        if self.expected.is_some() {
            self.held.extend_from_slice(&bytes[..count]);
        } else {
            self.data.write_all_at(&bytes[..count], self.at)?;
        }
        self.hasher.update(&bytes[..count]);
        self.at += count as u64;
        self.written += count as u64;
        if self.at == piece_end || self.at == self.end {
            let value = self.verify()?;
            self.unsynced.push(((self.at - 1) / self.piece, value));
            // The end of a file may be no place where a subtree could begin.
            if self.at < self.end {
                self.hasher = hasher_at(self.at);
            }
            if self.synced_at.elapsed() >= SYNC_EVERY {
                self.keep()?;
            }
        }
        Ok(count)
    }

    /// The value of the piece that is complete now. One that was expected is written only if it is right.
    fn verify(&mut self) -> io::Result<ChainingValue> {
        let Some(expected) = &self.expected else { return Ok(self.hasher.finalize_non_root()) };
        let value = if expected.is_whole {
            *self.hasher.finalize().as_bytes()
        } else {
            self.hasher.finalize_non_root()
        };
        let begin = (self.at - 1) / self.piece * self.piece;
        let index = usize::try_from((begin - self.start) / self.piece).unwrap_or(usize::MAX);
        if expected.values.get(index) != Some(&value) {
            self.differs = Some(begin);
            return Err(io::Error::other("a piece is not the expected one"));
        }
        self.data.write_all_at(&self.held, begin)?;
        self.held.clear();
        Ok(value)
    }

    /// Has the device keep the pieces, then notes them.
    fn keep(&mut self) -> io::Result<()> {
        self.synced_at = Instant::now();
        if self.unsynced.is_empty() {
            return Ok(());
        }
        self.data.sync_data()?;
        let mut lines = String::new();
        for (index, value) in self.unsynced.drain(..) {
            let _ = writeln!(lines, "{index} {}", blake3::Hash::from_bytes(value).to_hex());
        }
        // One write each time, so that lines of several jobs do not mix.
        self.journal.write_all(lines.as_bytes())?;
        self.journal.sync_data()
    }
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.part.state();
        if state.writers != self.number {
            return Err(io::Error::other("another attempt has begun"));
        }
        if bytes.is_empty() { Ok(0) } else { state.take(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for PartWriter {
    /// What an attempt that failed has given is kept: it was verified.
    fn drop(&mut self) {
        let mut state = self.part.state();
        if state.writers == self.number {
            // The next attempt meets the same error, and reports it.
            let _ = state.keep();
        }
    }
}

fn hasher_at(offset: u64) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset);
    hasher
}

fn check_piece(piece: u64) -> Result<()> {
    if piece.is_power_of_two() && piece >= PIECE_MIN {
        return Ok(());
    }
    let message = format!("a piece is a power of two of at least {PIECE_MIN} bytes, not {piece}");
    Err(Error::new(ErrorKind::Usage, message))
}

/// The values of the pieces of a local file from `start` to `end`, in order.
#[pyfunction]
pub(crate) fn hash_pieces(path: PathBuf, start: u64, end: u64, piece: u64) -> Job {
    Job::start(None, None, move |_| {
        check_piece(piece)?;
        let hashed = hashed(&path, start, end, piece);
        hashed.map(Value::Values).map_err(|error| {
            Error::new(ErrorKind::FileIo, format!("cannot read '{}': {error}", path.display()))
        })
    })
}

fn hashed(path: &Path, start: u64, end: u64, piece: u64) -> io::Result<Vec<ChainingValue>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let (mut at, mut values, mut buffer) = (start, Vec::new(), vec![0; READ_MAX]);
    while at < end {
        let (mut hasher, piece_end) = (hasher_at(at), ((at / piece + 1) * piece).min(end));
        while at < piece_end {
            let want = usize::try_from(piece_end - at).unwrap_or(READ_MAX).min(READ_MAX);
            file.read_exact(&mut buffer[..want])?;
            hasher.update(&buffer[..want]);
            at += want as u64;
        }
        values.push(hasher.finalize_non_root());
    }
    Ok(values)
}

/// The hash of a file, in hex, from the values of its pieces, of which there are two at least.
#[pyfunction]
pub(crate) fn join_pieces(values: Vec<[u8; 32]>) -> PyResult<String> {
    let root = pieces::join(&values)
        .ok_or_else(|| misuse("a file of one piece has a hash of its own, not one of pieces"))?;
    Ok(blake3::Hash::from_bytes(root).to_hex().to_string())
}

/// BLAKE3 of some bytes, in hex.
#[pyfunction]
pub(crate) fn root_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}
