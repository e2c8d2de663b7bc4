//! The caller's memory as a source and as a sink. Storage wants readers and writers that own what they need,
//! so borrowed memory goes through a bounded pipe; small objects are copied.

use fobs_model::error::{Error, ErrorKind, Result};
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that go through a pipe at once: what a source reads before it hashes (`READ_MAX` of storage).
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that wait in a pipe: the two ends seldom wait for each other, and 2 MiB are no memory.
const PIECES_MAX: usize = 8;

/// The reading end of a pipe out of the caller's memory.
pub(super) struct Feed {
    pieces: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    /// Bytes of `piece` that are read.
    at: usize,
    /// Bytes that are still to come.
    left: usize,
}

/// The writing end.
pub(super) struct Feeder(SyncSender<Vec<u8>>);

/// A pipe for `len` bytes.
pub(super) fn feed(len: usize) -> (Feed, Feeder) {
    let (sender, pieces) = sync_channel(PIECES_MAX);
    (Feed { pieces, piece: Vec::new(), at: 0, left: len }, Feeder(sender))
}

impl Feeder {
    /// Feeds everything, or until the reader is gone.
    pub(super) fn run(self, data: &[u8]) {
        for piece in data.chunks(PIECE_BYTES) {
            if self.0.send(piece.to_vec()).is_err() {
                return;
            }
        }
    }
}

impl Read for Feed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 || buffer.is_empty() {
            return Ok(0);
        }
        if self.at == self.piece.len() {
            let ended = || io::Error::other("the thread that reads the caller's memory has ended");
            self.piece = self.pieces.recv().map_err(|_| ended())?;
            self.at = 0;
        }
        let count = buffer.len().min(self.piece.len() - self.at);
        buffer[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        self.left = self.left.saturating_sub(count);
        Ok(count)
    }
}

/// The writing end of a pipe into the caller's memory.
pub(super) struct Drain(SyncSender<Vec<u8>>);

/// The reading end.
pub(super) struct Drained(Receiver<Vec<u8>>);

/// A pipe into the caller's memory.
pub(super) fn drain() -> (Drain, Drained) {
    let (sender, pieces) = sync_channel(PIECES_MAX);
    (Drain(sender), Drained(pieces))
}

impl Drained {
    /// Fills `buffer` until the writer is done. A longer object ends the writer.
    pub(super) fn run(self, buffer: &mut Buffer<'_>) {
        buffer.filled = 0;
        buffer.is_short = false;
        while let Ok(piece) = self.0.recv() {
            let Some(room) = buffer.bytes.get_mut(buffer.filled..buffer.filled + piece.len()) else {
                buffer.is_short = true;
                return;
            };
            room.copy_from_slice(&piece);
            buffer.filled += piece.len();
        }
    }
}

impl Write for Drain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        let full = |_| io::Error::other("the caller's buffer is full");
        self.0.send(piece.to_vec()).map_err(full).map(|()| piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The caller's buffer, and how much of it is filled.
pub(super) struct Buffer<'b> {
    bytes: &'b mut [u8],
    pub(super) filled: usize,
    /// The object is longer.
    pub(super) is_short: bool,
}

impl<'b> Buffer<'b> {
    pub(super) fn new(bytes: &'b mut [u8]) -> Buffer<'b> {
        Buffer { bytes, filled: 0, is_short: false }
    }
}

/// A vector that grows up to a bound. Clones are the same.
#[derive(Clone)]
pub(super) struct Bounded(Arc<Mutex<Growing>>);

struct Growing {
    bytes: Vec<u8>,
    max: u64,
    is_short: bool,
}

impl Bounded {
    pub(super) fn new(max: u64) -> Bounded {
        Bounded(Arc::new(Mutex::new(Growing { bytes: Vec::new(), max, is_short: false })))
    }

    /// Empty again, for another attempt.
    pub(super) fn restart(&self) -> Bounded {
        self.with(|growing| {
            growing.bytes.clear();
            growing.is_short = false;
        });
        self.clone()
    }

    /// What was written.
    pub(super) fn take(&self) -> Vec<u8> {
        self.with(|growing| std::mem::take(&mut growing.bytes))
    }

    /// Whether the object is longer.
    pub(super) fn is_short(&self) -> bool {
        self.with(|growing| growing.is_short)
    }

    fn with<R>(&self, act: impl FnOnce(&mut Growing) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|growing| {
            if (growing.bytes.len() as u64).saturating_add(bytes.len() as u64) > growing.max {
                growing.is_short = true;
                return Err(io::Error::other("the object is longer than the caller allows"));
            }
            // Grown with what arrives, not with what a peer announces.
            growing.bytes.extend_from_slice(bytes);
            Ok(bytes.len())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An object does not fit.
pub(super) fn too_long(name: &str, room: u64) -> Error {
    let message =
        format!("'{name}' has more bytes than the {room} that the caller has room for; read it in parts");
    Error::new(ErrorKind::Usage, message)
}

/// Starts a thread that lives as long as the call.
pub(super) fn spawn<'scope, 'env>(
    scope: &'scope std::thread::Scope<'scope, 'env>,
    body: impl FnOnce() + Send + 'scope,
) -> Result<()> {
    let started = std::thread::Builder::new().name("fobs-memory".to_owned()).spawn_scoped(scope, body);
    started.map(|_| ()).map_err(|error| {
        let message = format!(
            "cannot start a thread: {error}; raise the limit of processes (ulimit -u) or try again later"
        );
        Error::new(ErrorKind::Internal, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_through_a_pipe_unchanged() {
        let data: Vec<u8> = (0..3 * PIECE_BYTES + 17).map(|index| (index % 251) as u8).collect();
        let (mut out, feeder) = feed(data.len());
        let (mut into, drained) = drain();
        let mut room = vec![0; data.len() + 5];
        let mut buffer = Buffer::new(&mut room);
        std::thread::scope(|scope| {
            scope.spawn(|| feeder.run(&data));
            scope.spawn(move || io::copy(&mut out, &mut into).unwrap());
            drained.run(&mut buffer);
        });
        assert_eq!((buffer.filled, buffer.is_short), (data.len(), false));
        assert!(room[..data.len()] == data);
    }

    #[test]
    fn a_pipe_that_ends_early_is_an_error_at_either_end() {
        let (mut out, feeder) = feed(10);
        drop(feeder);
        assert!(out.read(&mut [0; 4]).is_err(), "not the object's end");
        let (mut into, drained) = drain();
        into.write_all(&[1; 20]).unwrap();
        let mut room = [0; 10];
        let mut buffer = Buffer::new(&mut room);
        drained.run(&mut buffer);
        assert!(buffer.is_short);
        assert!(into.write_all(&[1]).is_err());
    }

    #[test]
    fn a_vector_grows_up_to_its_bound() {
        let bounded = Bounded::new(10);
        let mut writer = bounded.clone();
        writer.write_all(&[1; 10]).unwrap();
        assert!(writer.write_all(&[1]).is_err() && bounded.is_short());
        bounded.restart().write_all(b"again").unwrap();
        assert_eq!((bounded.is_short(), bounded.take()), (false, b"again".to_vec()));
    }
}
