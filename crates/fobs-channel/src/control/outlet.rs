//! The sending half of a stream. What it takes waits in memory until the stream has room for it, so that no
//! thread waits for the network unless it wants to, and none holds a lock meanwhile.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use zeroize::Zeroize;

use super::frame::FRAME_BYTES_MAX;
use super::timed::ReadDeadline;

/// Bytes that wait at most: two of the largest frames.
const WAITING_MAX: usize = 2 * FRAME_BYTES_MAX;
/// Bytes of one write that could wait: what a pipe that polls as writable takes without blocking (`PIPE_BUF`,
/// pipe(7)).
const PIECE_BYTES: usize = 4096;
/// How often a thread that waits for room looks for it.
const ROOM_POLL: Duration = Duration::from_millis(5);
/// How long closing may wait until the last messages have left.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// A place in the row of bytes that a stream was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark(u64);

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// A message.
    Message,
    /// A record of the stream inside the channel.
    Data,
}

/// The sending half of a stream, and the operations on a channel that do not need its reader.
pub(super) trait Outlet: Send + Sync {
    /// Takes a frame, which has left once everything before the mark has; `None` where it has no room.
    fn push(&self, frame: &[u8], load: Load) -> io::Result<Option<Mark>>;

    /// Writes as much as the stream takes now. Everything before the mark has left this process.
    fn drain(&self) -> io::Result<Mark>;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool;

    /// Whether no message waits; data may.
    fn has_no_message(&self) -> bool;

    /// A descriptor that polls as writable when [`drain`](Self::drain) can write. It is another one for the
    /// same stream, which does not end while this one is open.
    fn poll_descriptor(&self) -> io::Result<OwnedFd>;

    /// Ends the stream after what was taken, which waits for a second at most.
    fn close(&self);

    /// Ends the stream at once.
    fn abandon(&self);

    /// The reader fails at this time; `None` for never.
    fn set_read_deadline(&self, _deadline: Option<Instant>) {}

    /// Takes new keys for what follows, if the stream has keys.
    fn renew_keys(&self) -> io::Result<()> {
        Ok(())
    }

    /// A stream whose peer does not confirm anything for this long is broken.
    fn set_timeout(&self, _timeout: Duration) {}
}

/// How bytes are written without waiting for their reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Writes {
    /// The kernel takes as much of all that waits as has room.
    #[default]
    AtOnce,
    /// In pieces, each once there is room for it: pipes know nothing else before Linux 6.5.
    Pieces,
}

/// Bytes on their way into a stream.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    bytes: VecDeque<u8>,
    writes: Writes,
    written: u64,
    /// The end of the newest message.
    message_end: u64,
}

impl Waiting {
    /// Takes bytes.
    pub(super) fn push(&mut self, bytes: &[u8], load: Load) -> Mark {
        self.bytes.extend(bytes);
        let end = self.written + self.bytes.len() as u64;
        if load == Load::Message {
            self.message_end = end;
        }
        Mark(end)
    }

    /// Whether this number of bytes may wait beside those that do.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.bytes.is_empty() || self.bytes.len() + len <= WAITING_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn has_no_message(&self) -> bool {
        self.written >= self.message_end
    }

    /// Writes what `stream` takes without blocking.
    pub(super) fn drain(&mut self, stream: &mut (impl Write + AsFd)) -> io::Result<Mark> {
        if !self.bytes.is_empty() {
            fobs_sys::without_sigpipe(|| self.write(stream))?;
        }
        Ok(Mark(self.written))
    }

    fn write(&mut self, stream: &mut (impl Write + AsFd)) -> io::Result<()> {
        while !self.bytes.is_empty() {
            match self.write_some(stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    // A message may have been a secret; data is sealed.
                    if !self.has_no_message() {
                        self.bytes.as_mut_slices().0[..count].zeroize();
                    }
                    self.bytes.drain(..count);
                    self.written += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes some of what waits, and says how much; `WouldBlock` where there is no room.
    fn write_some(&mut self, stream: &mut (impl Write + AsFd)) -> io::Result<usize> {
        let (front, _) = self.bytes.as_slices();
        if self.writes == Writes::AtOnce {
            // `MAX`: at the place where the stream is.
            match pwritev2(stream.as_fd(), &[IoSlice::new(front)], u64::MAX, ReadWriteFlags::NOWAIT) {
                // An older kernel, or a container that knows no such call.
                Err(
                    Errno::OPNOTSUPP
                    | Errno::NOSYS
                    | Errno::INVAL
                    | Errno::SPIPE
                    | Errno::PERM
                    | Errno::ACCESS,
                ) => {
                    self.writes = Writes::Pieces;
                }
                written => return Ok(written?),
            }
        }
        if !has_room(stream)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        stream.write(&front[..front.len().min(PIECE_BYTES)])
    }
}

/// Whether a write would not block: there is room, or it would fail.
fn has_room(stream: &impl AsFd) -> io::Result<bool> {
    let mut waiting = [PollFd::new(stream, PollFlags::OUT)];
    match poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits until everything before `mark` has left. `TimedOut` at `deadline`.
pub(super) fn wait_for(outlet: &dyn Outlet, mark: Mark, deadline: Instant) -> io::Result<()> {
    while outlet.drain()? < mark {
        if Instant::now() >= deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the other side takes no messages"));
        }
        std::thread::sleep(ROOM_POLL);
    }
    Ok(())
}

/// Takes a frame as soon as there is room. `TimedOut` at `deadline`.
pub(super) fn push_in_time(outlet: &dyn Outlet, frame: &[u8], deadline: Instant) -> io::Result<Mark> {
    loop {
        match outlet.push(frame, Load::Message)? {
            Some(mark) => return Ok(mark),
            None if Instant::now() >= deadline => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the other side takes no messages"));
            }
            None => {
                outlet.drain()?;
                std::thread::sleep(ROOM_POLL);
            }
        }
    }
}

/// Writes what waits, for a second at most: the peer may no longer read.
pub(super) fn drain_to_close(mut drained: impl FnMut() -> io::Result<bool>) {
    let end = Instant::now() + CLOSE_WAIT;
    while matches!(drained(), Ok(false)) && Instant::now() < end {
        std::thread::sleep(ROOM_POLL);
    }
}

/// A stream that is ended by dropping it.
pub(super) struct StreamOutlet<W> {
    state: Mutex<Option<(W, Waiting)>>,
    /// Of the reader beside it, where that has one.
    deadline: ReadDeadline,
}

impl<W: Write + AsFd + Send> StreamOutlet<W> {
    pub(super) fn new(stream: W, deadline: ReadDeadline) -> StreamOutlet<W> {
        StreamOutlet { state: Mutex::new(Some((stream, Waiting::default()))), deadline }
    }

    fn state(&self) -> MutexGuard<'_, Option<(W, Waiting)>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write + AsFd + Send> Outlet for StreamOutlet<W> {
    fn set_read_deadline(&self, deadline: Option<Instant>) {
        self.deadline.set(deadline);
    }

    fn push(&self, frame: &[u8], load: Load) -> io::Result<Option<Mark>> {
        let mut state = self.state();
        let (_, waiting) = state.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        Ok(waiting.has_room(frame.len()).then(|| waiting.push(frame, load)))
    }

    fn drain(&self) -> io::Result<Mark> {
        let mut state = self.state();
        let (stream, waiting) = state.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        waiting.drain(stream)
    }

    fn is_empty(&self) -> bool {
        self.state().as_ref().is_none_or(|(_, waiting)| waiting.is_empty())
    }

    fn has_no_message(&self) -> bool {
        self.state().as_ref().is_none_or(|(_, waiting)| waiting.has_no_message())
    }

    fn poll_descriptor(&self) -> io::Result<OwnedFd> {
        let state = self.state();
        let (stream, _) = state.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        stream.as_fd().try_clone_to_owned()
    }

    fn close(&self) {
        drain_to_close(|| self.drain().map(|_| self.is_empty()));
        self.abandon();
    }

    fn abandon(&self) {
        *self.state() = None;
    }
}

#[cfg(test)]
mod tests;
