//! A part of a remote file, written at its place in a local file that several jobs fill, perhaps from several
//! hosts; and the hash of such a file from the hashes of its pieces.
//!
//! A piece is a power of two of bytes and begins at a multiple of it, so it is a whole subtree of the file's
//! BLAKE3 tree: the file's hash comes of the values of its pieces, and no byte is hashed twice. A line of the
//! journal, `INDEX HEX`, is written after the device has kept the piece, so it holds after a crash too.

use crate::values::raise;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use fobs::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
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
    /// Where the next byte goes.
    at: u64,
    end: u64,
    piece: u64,
    hasher: blake3::Hasher,
    /// Whole pieces that the device may not have kept yet.
    unsynced: Vec<(u64, ChainingValue)>,
    synced_at: Instant,
    written: u64,
    /// Number of the newest writer: an older one writes no more.
    writers: u64,
}

/// Takes the bytes of one attempt.
struct PartWriter {
    part: Part,
    number: u64,
}

impl Part {
    pub(crate) fn new(path: PathBuf, journal: PathBuf, start: u64, end: u64, piece: u64) -> Result<Part> {
        check_piece(piece)?;
        if !start.is_multiple_of(piece) || end <= start {
            let message =
                format!("a part begins on a piece of {piece} bytes and is not empty: {start} to {end}");
            return Err(Error::new(ErrorKind::Usage, message));
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
            at: start,
            end,
            piece,
            hasher: hasher_at(start),
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
        self.data.write_all_at(&bytes[..count], self.at)?;
        self.hasher.update(&bytes[..count]);
        self.at += count as u64;
        self.written += count as u64;
        if self.at == piece_end || self.at == self.end {
            let value = self.hasher.finalize_non_root();
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
pub(crate) fn hash_pieces(
    py: Python<'_>,
    path: PathBuf,
    start: u64,
    end: u64,
    piece: u64,
) -> PyResult<Vec<Py<PyBytes>>> {
    check_piece(piece).map_err(|error| raise(py, &error))?;
    let values = py.detach(|| -> io::Result<Vec<ChainingValue>> {
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
    })?;
    Ok(values.iter().map(|value| PyBytes::new(py, value).unbind()).collect())
}

/// The hash of a file, in hex, from the values of its pieces, of which there are two at least.
#[pyfunction]
pub(crate) fn join_pieces(py: Python<'_>, values: Vec<[u8; 32]>) -> PyResult<String> {
    if values.len() < 2 {
        let message = "a file of one piece has a hash of its own, not one of pieces";
        return Err(raise(py, &Error::new(ErrorKind::Usage, message)));
    }
    let (left, right) = halves(&values);
    Ok(merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash).to_hex().to_string())
}

fn subtree(values: &[ChainingValue]) -> ChainingValue {
    if let [value] = values {
        return *value;
    }
    let (left, right) = halves(values);
    merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
}

/// As BLAKE3 cuts: the left half is the largest power of two that leaves something.
fn halves(values: &[ChainingValue]) -> (&[ChainingValue], &[ChainingValue]) {
    values.split_at(1 << (values.len() - 1).ilog2())
}

/// BLAKE3 of some bytes, in hex.
#[pyfunction]
pub(crate) fn root_of(py: Python<'_>, bytes: &[u8]) -> String {
    py.detach(|| blake3::hash(bytes)).to_hex().to_string()
}
