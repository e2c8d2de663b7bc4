//! A reader that gives up at a time that the other half of its channel sets: the pipe of a program has no
//! timeout of its own.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// When reading fails; `None` for never. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadDeadline(Arc<Mutex<Option<Instant>>>);

impl ReadDeadline {
    pub(super) fn set(&self, deadline: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
    }

    pub(super) fn get(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reader.
#[derive(Debug)]
pub(super) struct TimedReader<R> {
    stream: R,
    deadline: ReadDeadline,
}

impl<R: Read + AsFd> TimedReader<R> {
    pub(super) fn new(stream: R, deadline: ReadDeadline) -> TimedReader<R> {
        TimedReader { stream, deadline }
    }

    /// Waits for bytes or the end; `TimedOut` at the deadline.
    fn wait(&self) -> io::Result<()> {
        while let Some(deadline) = self.deadline.get() {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&timeout)) {
                Ok(0) if left.is_zero() => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing came in time"));
                }
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl<R: Read + AsFd> Read for TimedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
        self.stream.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn a_read_ends_at_its_deadline_and_what_came_is_read() {
        let (mut far, near) = UnixStream::pair().unwrap();
        let deadline = ReadDeadline::default();
        let mut reader = TimedReader::new(near, deadline.clone());
        let mut piece = [0; 4];
        for _ in 0..2 {
            deadline.set(Some(Instant::now() + Duration::from_millis(50)));
            assert_eq!(reader.read(&mut piece).unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        far.write_all(b"late").unwrap();
        assert_eq!(reader.read(&mut piece).unwrap(), 4, "what has come is not lost by the deadline");
        deadline.set(None);
        drop(far);
        assert_eq!(reader.read(&mut piece).unwrap(), 0);
    }
}
