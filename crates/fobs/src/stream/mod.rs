//! Byte streams for programs: the two ends of a pipe, of which one is in this process.
//!
//! ```text
//!   state         what the thread of a stream tells those that use it
//!   opening       from a request to a stream
//!   asynchronous  the same for a runtime (feature `tokio`)
//! ```

#[cfg(feature = "tokio")]
mod asynchronous;
mod opening;
mod state;

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::client::pipe::Piped;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};

#[cfg(feature = "tokio")]
pub use asynchronous::AsyncStream;
pub use opening::StreamBuilder;
use state::{Lost, StreamState};

/// A byte stream to a program at another host: a command there, the command of a key's line at a daemon, or
/// another stream that meets this one by a name.
///
/// What is read was verified, in order and without a gap; a stream that fails ends with an error, never with
/// an end of data. Both directions are independent: [`shutdown_write`](Stream::shutdown_write) ends what is
/// written, and reading goes on to the end of what comes. `&Stream` reads and writes too, so one thread may
/// do each.
///
/// [`finish`](Stream::finish) says whether everything arrived. A stream that is dropped before fails at the
/// other end: what was written must not be taken for all of it.
///
/// ```no_run
/// use fobs::{Stream, TransferOptions, location};
/// use std::io::{Read, Write};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let host = location::host("archive.example.org".as_ref())?;
/// let mut stream = Stream::command(host, b"sha256sum").open()?;
/// stream.write_all(b"what is hashed there")?;
/// stream.shutdown_write()?;
/// let mut said = String::new();
/// stream.read_to_string(&mut said)?;
/// let ended = stream.finish()?;
/// println!("{said}, exit code {}", ended.end.exit_code());
/// # Ok(())
/// # }
/// ```
///
/// **Errors** of reading and writing carry the [`Error`] that ended the stream
/// ([`io::Error::get_ref`]), whose sentence has the count of the bytes that had arrived.
/// [`verified`](Stream::verified) counts those of this side.
///
/// **Bounds.** As many bytes are in flight as
/// [`TransferOptions::memory`](fobs_model::options::TransferOptions) admits at either end. A program that
/// reads nothing holds up the other one.
pub struct Stream {
    near: UnixStream,
    state: Arc<StreamState>,
    cancel: CancelToken,
    /// The process that opened it: after a fork its thread is the other one's.
    process: u32,
}

impl Stream {
    fn new(near: UnixStream, state: Arc<StreamState>, cancel: CancelToken) -> Stream {
        Stream { near, state, cancel, process: std::process::id() }
    }

    /// Ends what is written: the other end reads the rest and then its end. Bytes may come on.
    ///
    /// # Errors
    /// Why the stream has failed.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.state.end_of_writing();
        match self.near.shutdown(Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            done => done,
        }
    }

    /// Ends what is read: a program that writes more to the other end is told that nobody reads it.
    ///
    /// # Errors
    /// That of the kernel.
    pub fn shutdown_read(&self) -> io::Result<()> {
        self.state.end_of_wish();
        match self.near.shutdown(Shutdown::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            done => done,
        }
    }

    /// Ends both, waits until everything that was written is at the other end, and says how it ended there.
    /// What came and was not read is dropped.
    ///
    /// # Errors
    /// Any [`ErrorKind`]: why the stream failed. The exit code of a command is no error of the stream.
    pub fn finish(self) -> Result<Piped> {
        self.end()
    }

    /// [`finish`](Stream::finish) of a stream that others hold, too.
    ///
    /// # Errors
    /// As [`finish`](Stream::finish).
    pub fn end(&self) -> Result<Piped> {
        self.begin_to_finish()?;
        self.state.outcome()
    }

    /// Waits until the other end of one that was [started](StreamBuilder::start) is there.
    ///
    /// # Errors
    /// As [`open`](StreamBuilder::open).
    pub fn opened(&self) -> Result<()> {
        self.check_process()?;
        self.state.opened()
    }

    fn begin_to_finish(&self) -> Result<()> {
        self.check_process()?;
        let ended = self.shutdown_write().and_then(|()| self.shutdown_read());
        ended.map_err(|error| Error::new(ErrorKind::Socket, format!("cannot end the stream: {error}")))
    }

    /// Waits until the stream is over at the other end, however that comes, and says how it ended there.
    ///
    /// # Errors
    /// As [`finish`](Stream::finish).
    pub fn wait(&self) -> Result<Piped> {
        self.check_process()?;
        self.state.outcome()
    }

    /// How it ended, if it has.
    pub fn outcome(&self) -> Option<Result<Piped>> {
        self.state.outcome_so_far()
    }

    /// Ends it as a failure at both ends; `why` is told to the other one. From any thread.
    pub fn abort(&self, why: &str) {
        if self.check_process().is_ok() {
            self.state.is_given_up(why);
            self.cancel.cancel_because(failed_here(why));
        }
    }

    /// Bytes written to this stream that are verified at the server: those for a command there were, or will
    /// be, given to it in this order. Grows several times a second.
    pub fn verified(&self) -> u64 {
        self.state.verified()
    }

    /// Whether reads and writes return `WouldBlock` where they would wait, for a program that polls the
    /// descriptor. It is readable and writable as a socket is; at an error it is both.
    ///
    /// # Errors
    /// That of the kernel.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.near.set_nonblocking(nonblocking)
    }

    /// Whether the end that a read of the descriptor itself found is that of the data. Returns at once, or as
    /// soon as the reason is known.
    ///
    /// # Errors
    /// Why it is none.
    pub fn end_of_reading(&self) -> io::Result<()> {
        self.check_process().map_err(io_error)?;
        self.state.end_of_reading()
    }

    /// Why a write to the descriptor itself failed with `EPIPE`, likewise: [`io::ErrorKind::BrokenPipe`]
    /// where the other end reads no more, which is no failure of the stream.
    pub fn why_unwritable(&self) -> io::Error {
        self.check_process().map_err(io_error).err().unwrap_or_else(|| self.state.why_nothing_is_read())
    }

    fn check_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let message = "the stream was opened before this process was forked; open one here";
        Err(Error::new(ErrorKind::Usage, message))
    }

    fn read_some(&self, room: &mut [u8]) -> io::Result<usize> {
        self.check_process().map_err(io_error)?;
        self.told_of_reading((&self.near).read(room), !room.is_empty())
    }

    /// What a read of the descriptor means.
    fn told_of_reading(&self, read: io::Result<usize>, has_room: bool) -> io::Result<usize> {
        match read {
            Ok(0) if has_room => self.state.end_of_reading().map(|()| 0),
            // What was written here is not wanted: that is the writer's error.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.state.end_of_reading().map(|()| 0)
            }
            read => read,
        }
    }

    fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        self.check_process().map_err(io_error)?;
        self.told_of_writing((&self.near).write(bytes))
    }

    fn told_of_writing(&self, written: io::Result<usize>) -> io::Result<usize> {
        match written {
            Err(error) if Lost::is_said_by(&error) => Err(self.state.why_nothing_is_read()),
            written => written,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.read_some(room)
    }
}

impl Read for &Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.read_some(room)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_some(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_some(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.near.as_fd()
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.near.as_raw_fd()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let is_over = self.check_process().is_err() || self.state.outcome_so_far().is_some();
        if !is_over {
            self.state.is_given_up(state::GIVEN_UP);
            // Aside: a cancellation may wait for a connection that is being closed.
            let (cancel, why) = (self.cancel.clone(), failed_here(state::GIVEN_UP));
            let ending = cancel.clone();
            let aside = std::thread::Builder::new().name("fobs-cancel".to_owned());
            if aside.spawn(move || ending.cancel_because(why)).is_err() {
                cancel.cancel_because(failed_here(state::GIVEN_UP));
            }
        }
    }
}

/// Why the program at this end ended the stream. No interruption, of which a peer is told that alone.
fn failed_here(why: &str) -> Error {
    Error::new(ErrorKind::FileIo, why)
}

/// As the standard library has it, with the whole error inside. Never `Interrupted`, at which callers try
/// again.
fn io_error(error: Error) -> io::Error {
    let kind = match error.kind {
        ErrorKind::Usage => io::ErrorKind::InvalidInput,
        ErrorKind::NoSource => io::ErrorKind::NotFound,
        ErrorKind::Denied => io::ErrorKind::PermissionDenied,
        ErrorKind::Timeout => io::ErrorKind::TimedOut,
        ErrorKind::Connect => io::ErrorKind::ConnectionReset,
        ErrorKind::Interrupted => io::ErrorKind::ConnectionAborted,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
