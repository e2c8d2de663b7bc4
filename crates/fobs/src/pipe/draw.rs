//! What comes out of a program, as the source of a pipe: when the bytes that have come are to leave.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use fobs_store::{More, PipeInput};
use fobs_sys::{Watched, wait_for_any};

use super::pour::widen;
use super::{Stop, Stopped};

/// How long bytes wait for more that could leave with them. A receiver has room for 52 chunks, so with one
/// in 20 ms a path of a second is full.
const AGE_MAX: Duration = Duration::from_millis(20);
/// The same where few have left before: a program that answers another one must not wait for 20 ms.
const QUIET: Duration = Duration::from_millis(1);
/// Chunks that may leave at once that early, and the time in which one more may.
const EARLY_MAX: u32 = 16;
const EARLY_EVERY: Duration = AGE_MAX;
/// Bytes that are read to learn whether any come.
const AHEAD_BYTES: usize = 64 << 10;

/// Asked at the end of the bytes.
pub(crate) type AtEnd = Box<dyn Fn() -> io::Result<()> + Send>;

/// The source.
pub(crate) struct Drawn {
    from: File,
    stop: Stop,
    at_end: AtEnd,
    /// What was read of the next bytes.
    ahead: Vec<u8>,
    taken: usize,
    ended: bool,
    pace: Pace,
}

impl Drawn {
    /// Reads `from` until its end, or until it is stopped, which is no failure. `at_end` says whether its end
    /// was one.
    pub(crate) fn new(from: OwnedFd, stop: Stop, at_end: AtEnd) -> Drawn {
        widen(&from);
        let pace = Pace::new(Instant::now());
        Drawn { from: from.into(), stop, at_end, ahead: Vec::new(), taken: 0, ended: false, pace }
    }

    /// Whether there is something to read, or the end; false at the timeout, and once it is stopped.
    fn is_readable(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if self.stop.state() != Stopped::No {
                return Ok(false);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let mut watched = [Watched::new(self.from.as_fd(), true, false)];
            wait_for_any(&mut watched, &self.stop.waker, left)?;
            if watched[0].readable {
                return Ok(true);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
        }
    }

    fn read_from(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.from.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Whose descriptor it is too has it that way: there will be something.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.is_readable(None)? {
                        return Ok(0);
                    }
                }
                read => return read,
            }
        }
    }
}

impl PipeInput for Drawn {
    fn wait(&mut self) -> io::Result<More> {
        if self.stop.state() == Stopped::Failed {
            return Err(io::Error::other("the pipe has failed"));
        }
        if self.taken < self.ahead.len() {
            self.pace.begin(Instant::now());
            return Ok(More::Bytes);
        }
        if !self.ended && self.is_readable(None)? {
            let mut ahead = std::mem::take(&mut self.ahead);
            ahead.resize(AHEAD_BYTES, 0);
            let count = self.read_from(&mut ahead)?;
            ahead.truncate(count);
            (self.ahead, self.taken) = (ahead, 0);
            self.ended = count == 0;
        }
        if self.ahead.is_empty() || self.taken == self.ahead.len() {
            return match self.stop.state() {
                Stopped::Failed => Err(io::Error::other("the pipe has failed")),
                Stopped::Enough => Ok(More::End),
                Stopped::No => (self.at_end)().map(|()| More::End),
            };
        }
        self.pace.begin(Instant::now());
        Ok(More::Bytes)
    }
}

impl Read for Drawn {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let before = &self.ahead[self.taken..];
        if !before.is_empty() {
            let count = before.len().min(room.len());
            room[..count].copy_from_slice(&before[..count]);
            self.taken += count;
            return Ok(count);
        }
        if self.ended || !self.is_readable(Some(self.pace.patience(Instant::now())))? {
            self.pace.ends(Instant::now());
            return Ok(0);
        }
        let count = self.read_from(room)?;
        self.ended = count == 0;
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
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::thread;

    fn drawn() -> (UnixStream, Drawn, Stop) {
        let (near, far) = UnixStream::pair().unwrap();
        let stop = Stop::new().unwrap();
        (near, Drawn::new(far.into(), stop.clone(), Box::new(|| Ok(()))), stop)
    }

    fn all_of_it(drawn: &mut Drawn) -> Vec<u8> {
        let (mut all, mut room) = (Vec::new(), vec![0; 100_000]);
        loop {
            match drawn.read(&mut room).unwrap() {
                0 => return all,
                count => all.extend(&room[..count]),
            }
        }
    }

    #[test]
    fn what_has_come_is_not_kept_for_what_is_late() {
        let (mut near, mut drawn, _) = drawn();
        for round in 0..40_u8 {
            let began = Instant::now();
            near.write_all(&[round; 5]).unwrap();
            assert_eq!(drawn.wait().unwrap(), More::Bytes);
            assert_eq!(all_of_it(&mut drawn), [round; 5]);
            // 20 ms at most by itself; the bound is for a busy host.
            assert!(began.elapsed() < Duration::from_secs(2), "round {round}");
        }
        drop(near);
        assert_eq!(drawn.wait().unwrap(), More::End);
    }

    #[test]
    fn early_chunks_are_few() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let mut early = 0;
        // One byte each 2 ms for a second.
        for at in (0..1000).step_by(2).map(|ms| start + Duration::from_millis(ms)) {
            pace.begin(at);
            if pace.patience(at) == QUIET {
                early += 1;
                pace.ends(at + QUIET);
            }
        }
        assert!((EARLY_MAX..=EARLY_MAX + 51).contains(&early), "{early}");
        assert_eq!(pace.patience(pace.began + AGE_MAX), Duration::ZERO);
    }

    #[test]
    fn a_stop_ends_a_wait_for_bytes() {
        let (_near, mut drawn, stop) = drawn();
        let stopping = thread::spawn(move || stop.enough());
        assert_eq!(drawn.wait().unwrap(), More::End);
        stopping.join().unwrap();
    }

    #[test]
    fn a_pipe_that_fails_ends_in_no_end_of_data() {
        let (mut near, mut drawn, stop) = drawn();
        near.write_all(b"half").unwrap();
        assert_eq!(drawn.wait().unwrap(), More::Bytes);
        let failing = thread::spawn(move || stop.fail());
        assert!(b"half".starts_with(&all_of_it(&mut drawn)));
        failing.join().unwrap();
        assert!(drawn.wait().is_err());
    }

    #[test]
    fn an_end_that_was_none_is_an_error() {
        let (near, far) = UnixStream::pair().unwrap();
        let at_end = Box::new(|| Err(io::Error::other("the other client is gone")));
        let mut drawn = Drawn::new(far.into(), Stop::new().unwrap(), at_end);
        drop(near);
        assert_eq!(drawn.wait().unwrap_err().to_string(), "the other client is gone");
    }
}
