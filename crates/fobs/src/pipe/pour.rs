//! What goes into a program, as the target of a sink: a write waits no longer than the pipe lasts, and a
//! program that reads no more is no failure of the pipe.

use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fobs_sys::{Watched, wait_for_any, widen_pipe, without_sigpipe};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use super::{Stop, Stopped};

/// Bytes that a pipe between two programs of this host holds, where the kernel allows it: what comes in 8 ms
/// at 1 Gbit/s, so that neither end waits for each 64 KiB.
const PIPE_BYTES: u32 = 1 << 20;
/// Bytes of a write to what polls as writable that cannot wait: `PIPE_BUF`, pipe(7).
const PIECE_BYTES: usize = 4096;

/// Has a pipe hold more, where it is one and the kernel allows it.
pub(super) fn widen(pipe: impl AsFd) {
    // Without it a pipe is slower, and anything else is none.
    let _ = widen_pipe(pipe, PIPE_BYTES);
}

/// Where the bytes go, over all connections of a pipe. Clones are the same.
#[derive(Clone)]
pub(crate) struct Valve(Arc<Shared>);

struct Shared {
    /// `None` once it is closed. Locked by the connection that writes, also while it waits.
    to: Mutex<Option<OwnedFd>>,
    line: Mutex<Line>,
    given: AtomicU64,
    /// Nobody reads any more: what still comes is passed over.
    unread: AtomicBool,
    /// Bytes that were.
    passed: AtomicU64,
}

/// The connection that writes.
struct Line {
    number: u32,
    stop: Option<Stop>,
    /// Called after each `every` bytes, and where nobody reads them.
    told: Arc<dyn Fn() + Send + Sync>,
    every: u64,
}

impl Valve {
    /// Writes go to `to`.
    pub(crate) fn new(to: OwnedFd) -> Valve {
        widen(&to);
        let valve = Valve::nowhere();
        *valve.to() = Some(to);
        valve.0.unread.store(false, Ordering::SeqCst);
        valve
    }

    /// What is written to it is for nobody.
    pub(crate) fn nowhere() -> Valve {
        let line = Line { number: 0, stop: None, told: Arc::new(|| ()), every: u64::MAX };
        Valve(Arc::new(Shared {
            to: Mutex::new(None),
            line: Mutex::new(line),
            given: AtomicU64::new(0),
            unread: AtomicBool::new(true),
            passed: AtomicU64::new(0),
        }))
    }

    /// Bytes that were written.
    pub(crate) fn given(&self) -> u64 {
        self.0.given.load(Ordering::SeqCst)
    }

    /// Bytes that have come: those that were written, and those that nobody wanted.
    pub(crate) fn position(&self) -> u64 {
        self.given() + self.0.passed.load(Ordering::SeqCst)
    }

    /// From now on one connection writes, until `stop`: no earlier one does. `told` is called after each
    /// `every` bytes, and where nobody reads them.
    pub(crate) fn open(&self, stop: Stop, every: u64, told: impl Fn() + Send + Sync + 'static) {
        let before = self.line().stop.take();
        if let Some(before) = before {
            before.fail();
        }
        // The one before has left its write.
        let _to = self.to();
        let mut line = self.line();
        *line = Line { number: line.number + 1, stop: Some(stop), told: Arc::new(told), every };
    }

    /// A writer of the connection.
    pub(crate) fn writer(&self) -> Box<dyn Write + Send> {
        let line = self.line();
        let (number, stop, every) = (line.number, line.stop.clone(), line.every);
        drop(line);
        Box::new(Writer { valve: self.clone(), number, stop, every, untold: 0 })
    }

    /// Nobody reads any more.
    pub(crate) fn is_unread(&self) {
        self.0.unread.store(true, Ordering::SeqCst);
        self.tell();
        if let Some(stop) = &self.line().stop {
            stop.enough();
        }
    }

    /// Whether nobody does.
    pub(crate) fn has_no_reader(&self) -> bool {
        self.0.unread.load(Ordering::SeqCst)
    }

    /// Closes it, once nothing is written any more.
    pub(crate) fn close(&self) {
        self.to().take();
    }

    fn tell(&self) {
        let told = self.line().told.clone();
        told();
    }

    fn to(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.0.to.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Writer {
    valve: Valve,
    number: u32,
    stop: Option<Stop>,
    every: u64,
    untold: u64,
}

impl Writer {
    fn note(&mut self, count: usize) {
        self.valve.0.given.fetch_add(count as u64, Ordering::SeqCst);
        self.untold += count as u64;
        if self.untold >= self.every {
            self.untold = 0;
            self.valve.tell();
        }
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let valve = self.valve.clone();
        let to = valve.to();
        let ended = || io::Error::other("the pipe has ended");
        loop {
            if valve.line().number != self.number {
                return Err(ended());
            }
            if valve.has_no_reader() {
                valve.0.passed.fetch_add(bytes.len() as u64, Ordering::SeqCst);
                return Ok(bytes.len());
            }
            let Some(stop) = self.stop.as_ref().filter(|stop| stop.state() == Stopped::No) else {
                return Err(ended());
            };
            let Some(to) = to.as_ref() else { return Err(io::ErrorKind::NotConnected.into()) };
            match without_sigpipe(|| write_some(to, bytes)) {
                Ok(count) => {
                    self.note(count);
                    return Ok(count);
                }
                Err(Errno::PIPE | Errno::CONNRESET) => valve.is_unread(),
                Err(Errno::AGAIN) => {
                    let mut watched = [Watched::new(to.as_fd(), false, true)];
                    wait_for_any(&mut watched, &stop.waker, None)?;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes what there is room for without waiting; `AGAIN` for none. The descriptor is not made non-blocking:
/// its other owners would be so too, as a shell on the same terminal.
fn write_some(to: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    let is_file = fstat(to).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    if is_file {
        return rustix::io::write(to, bytes);
    }
    // `MAX`: at the place where it is.
    match pwritev2(to, &[IoSlice::new(bytes)], u64::MAX, ReadWriteFlags::NOWAIT) {
        // Kernels before 6.5, terminals, and containers that know no such call.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::SPIPE | Errno::PERM | Errno::ACCESS) => {}
        written => return written,
    }
    if poll(&mut [PollFd::new(to, PollFlags::OUT)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 0 {
        return Err(Errno::AGAIN);
    }
    rustix::io::write(to, &bytes[..bytes.len().min(PIECE_BYTES)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, pipe};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_reader_that_rests_holds_up_the_writer_and_loses_nothing() {
        let (mut reader, writer) = pipe().unwrap();
        let valve = Valve::new(writer.into());
        valve.open(Stop::new().unwrap(), u64::MAX, || panic!("it is read"));
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
        let all = bytes.clone();
        let (mut out, closing) = (valve.writer(), valve.clone());
        let writing = thread::spawn(move || {
            out.write_all(&all).unwrap();
            closing.close();
        });
        thread::sleep(Duration::from_millis(50));
        assert!(valve.given() <= 2 * u64::from(PIPE_BYTES), "{}", valve.given());
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        writing.join().unwrap();
        assert!(read == bytes && valve.given() == 5_000_000);
    }

    #[test]
    fn a_reader_that_is_gone_is_told_of_and_is_no_failure() {
        let (reader, writer) = pipe().unwrap();
        let told = Arc::new(AtomicU64::new(0));
        let count = told.clone();
        let valve = Valve::new(writer.into());
        valve.open(Stop::new().unwrap(), u64::MAX, move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        valve.writer().write_all(b"read").unwrap();
        drop(reader);
        valve.writer().write_all(&[0; 100_000]).unwrap();
        valve.writer().write_all(&[0; 100_000]).unwrap();
        assert_eq!((valve.given(), told.load(Ordering::SeqCst)), (4, 1));
    }

    #[test]
    fn a_stop_ends_a_wait_for_room() {
        let (_reader, writer) = pipe().unwrap();
        let stop = Stop::new().unwrap();
        let valve = Valve::new(writer.into());
        valve.open(stop.clone(), u64::MAX, || ());
        let mut out = valve.writer();
        let writing = thread::spawn(move || out.write_all(&vec![0; 4 << 20]));
        thread::sleep(Duration::from_millis(20));
        stop.fail();
        assert!(writing.join().unwrap().is_err());
    }

    #[test]
    fn a_connection_that_is_replaced_writes_no_more() {
        let (mut reader, writer) = pipe().unwrap();
        let valve = Valve::new(writer.into());
        valve.open(Stop::new().unwrap(), 1000, || ());
        let mut first = valve.writer();
        let writing = thread::spawn(move || first.write_all(&vec![1; 4 << 20]).is_err());
        thread::sleep(Duration::from_millis(20));
        valve.open(Stop::new().unwrap(), 1000, || ());
        let given = usize::try_from(valve.given()).unwrap();
        assert!(writing.join().unwrap(), "the first one has ended");
        let (mut second, closing) = (valve.writer(), valve.clone());
        let writing = thread::spawn(move || {
            second.write_all(&[2; 5]).unwrap();
            closing.close();
        });
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        writing.join().unwrap();
        assert!(all[..given].iter().all(|&byte| byte == 1) && all[given..] == [2; 5]);
        assert_eq!(valve.given() as usize, all.len());
    }
}
