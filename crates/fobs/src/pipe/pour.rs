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

/// Where the bytes go. Clones are the same.
#[derive(Clone)]
pub(crate) struct Valve(Arc<Shared>);

struct Shared {
    /// `None` once it is closed.
    to: Mutex<Option<OwnedFd>>,
    stop: Stop,
    given: AtomicU64,
    /// Nobody reads any more: what still comes is passed over.
    unread: AtomicBool,
    on_unread: Box<dyn Fn() + Send + Sync>,
}

impl Valve {
    /// Writes go to `to`; `on_unread` is called where nobody reads that any more.
    pub(crate) fn new(to: OwnedFd, stop: Stop, on_unread: Box<dyn Fn() + Send + Sync>) -> Valve {
        widen(&to);
        Valve(Arc::new(Shared {
            to: Mutex::new(Some(to)),
            stop,
            given: AtomicU64::new(0),
            unread: AtomicBool::new(false),
            on_unread,
        }))
    }

    /// Bytes that were written.
    pub(crate) fn given(&self) -> u64 {
        self.0.given.load(Ordering::SeqCst)
    }

    /// A writer.
    pub(crate) fn writer(&self) -> Box<dyn Write + Send> {
        Box::new(Poured(self.clone()))
    }

    /// Nobody reads any more.
    pub(crate) fn is_unread(&self) {
        if !self.0.unread.swap(true, Ordering::SeqCst) {
            (self.0.on_unread)();
        }
        self.0.stop.enough();
    }

    /// Closes it, once nothing is written any more.
    pub(crate) fn close(&self) {
        self.to().take();
    }

    fn to(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.0.to.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Poured(Valve);

impl Write for Poured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Valve(shared) = &self.0;
        let to = self.0.to();
        loop {
            if shared.unread.load(Ordering::SeqCst) {
                return Ok(bytes.len());
            }
            if shared.stop.state() != Stopped::No {
                return Err(io::Error::other("the pipe has ended"));
            }
            let Some(to) = to.as_ref() else { return Err(io::ErrorKind::NotConnected.into()) };
            match without_sigpipe(|| write_some(to, bytes)) {
                Ok(count) => {
                    shared.given.fetch_add(count as u64, Ordering::SeqCst);
                    return Ok(count);
                }
                Err(Errno::PIPE | Errno::CONNRESET) => self.0.is_unread(),
                Err(Errno::AGAIN) => {
                    let mut watched = [Watched::new(to.as_fd(), false, true)];
                    wait_for_any(&mut watched, &shared.stop.waker, None)?;
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
        let valve = Valve::new(writer.into(), Stop::new().unwrap(), Box::new(|| panic!("it is read")));
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
        let on_unread = Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let valve = Valve::new(writer.into(), Stop::new().unwrap(), on_unread);
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
        let valve = Valve::new(writer.into(), stop.clone(), Box::new(|| ()));
        let mut out = valve.writer();
        let writing = thread::spawn(move || out.write_all(&vec![0; 4 << 20]));
        thread::sleep(Duration::from_millis(20));
        stop.fail();
        assert!(writing.join().unwrap().is_err());
    }
}
