//! What comes out of a program, as the source of a pipe: when the bytes that have come are to leave, and
//! which of them are kept for another connection.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fobs_model::error::{Error, ErrorKind, Result};
use fobs_store::{More, PipeInput};
use fobs_sys::{Watched, wait_for_any};

use super::kept::Kept;
use super::pour::widen;
use super::{Stop, Stopped};

/// How long bytes wait for more that could leave with them. A receiver of 256 MiB holds 52 chunks, so with
/// one in 20 ms a path of a second is full.
const AGE_MAX: Duration = Duration::from_millis(20);
/// The same where few have left before: a program that answers another one must not wait for 20 ms.
const QUIET: Duration = Duration::from_millis(1);
/// Chunks that may leave at once that early, and the time in which one more may.
const EARLY_MAX: u32 = 16;
const EARLY_EVERY: Duration = AGE_MAX;
/// Bytes that are read to learn whether any come.
const AHEAD_BYTES: usize = 64 << 10;

/// Asked where no more bytes come, which the descriptor ended or failed with: whether that is their end.
pub(crate) type AtEnd = Box<dyn Fn(io::Result<()>) -> io::Result<()> + Send + Sync>;

/// What comes out of a program, over all connections of its pipe. Clones are the same.
#[derive(Clone)]
pub(crate) struct Well(Arc<Shared>);

struct Shared {
    /// Locked by the connection that reads, also while it waits.
    from: Mutex<From>,
    drawn: Mutex<WellState>,
    at_end: AtEnd,
}

enum From {
    Open(File),
    /// It has ended.
    Ended,
    /// Nobody wants more: it is closed, so that the program learns of it.
    Unwanted,
}

struct WellState {
    kept: Kept,
    /// Bytes that are kept at most until they are confirmed; 0 where there is one connection only.
    window: u64,
    /// The connection that reads.
    stop: Option<Stop>,
    /// Its number: an earlier one reads no more.
    connection: u32,
}

impl WellState {
    /// Bytes that may be read of the program.
    fn room(&self) -> usize {
        let most = self.window.max(AHEAD_BYTES as u64);
        usize::try_from(most.saturating_sub(self.kept.len())).unwrap_or(usize::MAX)
    }
}

impl Well {
    /// Reads `from` until its end; `at_end` says whether that was one.
    pub(crate) fn new(from: OwnedFd, at_end: AtEnd) -> Well {
        widen(&from);
        let state = WellState { kept: Kept::default(), window: 0, stop: None, connection: 0 };
        let from = From::Open(from.into());
        Well(Arc::new(Shared { from: Mutex::new(from), drawn: Mutex::new(state), at_end }))
    }

    /// Keeps `window` bytes at most until they are confirmed. Before anything is drawn.
    pub(crate) fn keep(&self, window: u64) {
        self.state().window = window;
    }

    /// A source that begins at the byte `at`, for one connection: no earlier one reads any more. It ends with
    /// `stop`, which is no failure.
    ///
    /// # Errors
    /// `Protocol` where that byte is kept no more, or was never read.
    pub(crate) fn draw(&self, at: u64, stop: Stop) -> Result<Drawn> {
        let mut state = self.state();
        if !(state.kept.from()..=state.kept.to()).contains(&at) {
            let message = format!(
                "the pipe cannot go on at byte {at}: this end has the bytes {} to {}",
                state.kept.from(),
                state.kept.to()
            );
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        state.kept.forget(at);
        state.connection += 1;
        if let Some(before) = state.stop.replace(stop.clone()) {
            before.fail();
        }
        let connection = state.connection;
        Ok(Drawn { well: self.clone(), stop, connection, at, pace: Pace::new(Instant::now()) })
    }

    /// The other end has what is before this position.
    pub(crate) fn is_confirmed(&self, before: u64) {
        let mut state = self.state();
        let had_room = state.room() > 0;
        state.kept.forget(before);
        if !had_room && let Some(stop) = &state.stop {
            stop.waker.wake();
        }
    }

    /// Bytes that were read of the program.
    pub(crate) fn taken(&self) -> u64 {
        self.state().kept.to()
    }

    /// Bytes that the other end has for certain.
    pub(crate) fn confirmed(&self) -> u64 {
        self.state().kept.from()
    }

    fn state(&self) -> MutexGuard<'_, WellState> {
        self.0.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The source of one connection.
pub(crate) struct Drawn {
    well: Well,
    stop: Stop,
    connection: u32,
    /// The position of the next byte.
    at: u64,
    pace: Pace,
}

/// What is to be read of a program.
enum Found {
    Bytes(usize),
    /// None now: the pipe has failed, or the time is over.
    Nothing,
    End,
    /// Nobody wants more.
    Enough,
}

impl Drawn {
    /// Bytes that were read before and not drawn here.
    fn again(&self, room: &mut [u8]) -> io::Result<usize> {
        let mut state = self.well.state();
        if self.connection != state.connection {
            return Err(over());
        }
        let count = state.kept.copy(self.at, room);
        if count == 0 && self.at < state.kept.to() && !room.is_empty() {
            return Err(io::Error::other("the other side confirmed bytes that it has not got"));
        }
        if state.window == 0 {
            state.kept.forget(self.at + count as u64);
        }
        Ok(count)
    }

    /// Reads what the program has, and notes it; waits for it for this time.
    fn fresh(&self, room: &mut [u8], timeout: Option<Duration>) -> io::Result<Found> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut from = self.well.0.from.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let file = match &mut *from {
                From::Open(file) => file,
                From::Ended => return Ok(Found::End),
                From::Unwanted => return Ok(Found::Enough),
            };
            match self.stop.state() {
                Stopped::No => {}
                Stopped::Failed => return Ok(Found::Nothing),
                Stopped::Enough => {
                    *from = From::Unwanted;
                    return Ok(Found::Enough);
                }
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let may = self.well.state().room().min(room.len());
            if self.may_read(file, may, left)? {
                match file.read(&mut room[..may]) {
                    // Whose descriptor it is too has it that way: there will be something.
                    Err(error)
                        if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                    }
                    ended @ (Ok(0) | Err(_)) => {
                        if ended.is_err() {
                            (self.well.0.at_end)(ended.map(drop))?;
                        }
                        *from = From::Ended;
                        return Ok(Found::End);
                    }
                    Ok(count) => {
                        self.note(&room[..count])?;
                        return Ok(Found::Bytes(count));
                    }
                }
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Found::Nothing);
            }
        }
    }

    /// Waits until there is something to read, and room for it.
    fn may_read(&self, file: &File, room: usize, timeout: Option<Duration>) -> io::Result<bool> {
        if room == 0 {
            // A confirmation wakes it.
            wait_for_any(&mut [], &self.stop.waker, timeout)?;
            return Ok(false);
        }
        let mut watched = [Watched::new(file.as_fd(), true, false)];
        wait_for_any(&mut watched, &self.stop.waker, timeout)?;
        Ok(watched[0].readable && self.stop.state() == Stopped::No)
    }

    /// Keeps what was read, whichever connection sends it in the end.
    fn note(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.well.state();
        let is_over = self.connection != state.connection;
        if state.window == 0 && !is_over {
            state.kept.pass(bytes.len() as u64);
        } else {
            state.kept.push(bytes);
        }
        if is_over { Err(over()) } else { Ok(()) }
    }

    fn has_kept(&self) -> bool {
        self.at < self.well.state().kept.to()
    }
}

fn over() -> io::Error {
    io::Error::other("another connection has taken the pipe over")
}

impl PipeInput for Drawn {
    fn wait(&mut self) -> io::Result<More> {
        if self.stop.state() == Stopped::Failed {
            return Err(io::Error::other("the pipe has failed"));
        }
        if !self.has_kept() {
            let mut ahead = vec![0; AHEAD_BYTES];
            match self.fresh(&mut ahead, None)? {
                Found::Bytes(count) => {
                    // Kept, until they are drawn, where nothing else is.
                    let mut state = self.well.state();
                    if state.window == 0 {
                        state.kept = Kept::at(self.at);
                        state.kept.push(&ahead[..count]);
                    }
                }
                Found::Enough => return Ok(More::End),
                Found::Nothing => return Err(io::Error::other("the pipe has failed")),
                Found::End => {
                    return match self.stop.state() {
                        Stopped::Failed => Err(io::Error::other("the pipe has failed")),
                        Stopped::Enough => Ok(More::End),
                        Stopped::No => (self.well.0.at_end)(Ok(())).map(|()| More::End),
                    };
                }
            }
        }
        self.pace.begin(Instant::now());
        Ok(More::Bytes)
    }
}

impl Read for Drawn {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut count = self.again(room)?;
        if count == 0 {
            count = match self.fresh(room, Some(self.pace.patience(Instant::now())))? {
                Found::Bytes(count) => count,
                Found::End | Found::Enough => 0,
                Found::Nothing => {
                    self.pace.ends(Instant::now());
                    0
                }
            };
        }
        self.at += count as u64;
        Ok(count)
    }
}

/// When the bytes that have come leave.
#[derive(Debug)]
struct Pace {
    began: Instant,
    early: u32,
    earned: Instant,
}

impl Pace {
    fn new(now: Instant) -> Pace {
        Pace { began: now, early: EARLY_MAX, earned: now }
    }

    /// The first of them are there.
    fn begin(&mut self, now: Instant) {
        self.began = now;
        let elapsed = now.saturating_duration_since(self.earned);
        let earned = u32::try_from(elapsed.as_nanos() / EARLY_EVERY.as_nanos()).unwrap_or(u32::MAX);
        if earned > 0 {
            self.early = self.early.saturating_add(earned).min(EARLY_MAX);
            self.earned = now;
        }
    }

    /// How long they wait for more from now on.
    fn patience(&self, now: Instant) -> Duration {
        let left = (self.began + AGE_MAX).saturating_duration_since(now);
        if self.early > 0 { left.min(QUIET) } else { left }
    }

    /// They leave.
    fn ends(&mut self, now: Instant) {
        if now < self.began + AGE_MAX {
            self.early = self.early.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
