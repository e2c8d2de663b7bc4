//! An established TLS connection as two halves for two threads.
//!
//! The connection's state is behind a lock that is only held while bytes are encrypted or decrypted in
//! memory, never while the socket blocks. So a thread that waits for the peer does not keep another from
//! sending.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::SendFlags;
use rustls::Connection;

use super::super::outlet::{Load, Mark, Outlet, Waiting, drain_to_close};

/// Bytes of one read from the socket: the largest TLS record.
const READ_BYTES: usize = 16 << 10;

/// An established connection.
pub(super) struct TlsStream {
    connection: Mutex<Connection>,
    socket: TcpStream,
    /// Encrypted bytes not yet written. Its lock covers encryption and writing, so that records leave in
    /// order. Taken before `connection`, never after.
    outgoing: Mutex<Waiting>,
    closed: AtomicBool,
    /// When the reader stops waiting.
    read_deadline: Mutex<Option<Instant>>,
}

impl TlsStream {
    /// Takes over a connection whose handshake is complete, and its socket.
    pub(super) fn new(connection: Connection, socket: TcpStream) -> io::Result<TlsStream> {
        socket.set_write_timeout(None)?;
        Ok(TlsStream {
            connection: Mutex::new(connection),
            socket,
            outgoing: Mutex::default(),
            closed: AtomicBool::new(false),
            read_deadline: Mutex::new(None),
        })
    }

    /// The receiving and the sending half.
    pub(super) fn split(self) -> (TlsReader, Arc<dyn Outlet>) {
        let stream = Arc::new(self);
        (TlsReader { stream: stream.clone(), incoming: vec![0; READ_BYTES], start: 0, end: 0 }, stream)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for bytes from the peer until the deadline. `TimedOut` leaves the connection usable.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let deadline = *self.read_deadline.lock().unwrap_or_else(PoisonError::into_inner);
        let late = || io::Error::new(io::ErrorKind::TimedOut, "nothing came in time");
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(late());
        }
        self.socket.set_read_timeout(left)?;
        (&self.socket).read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => late(),
            _ => error,
        })
    }

    fn outgoing(&self) -> MutexGuard<'_, Waiting> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves what the connection wants to send to `outgoing`.
    fn encrypted(&self, outgoing: &mut Waiting) -> io::Result<()> {
        let mut connection = self.connection();
        let mut records = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut records)?;
        }
        // The caller says whether a message is among it.
        outgoing.push(&records, Load::Data);
        Ok(())
    }

    /// Writes what the socket takes now.
    fn write_some(&self, outgoing: &mut Waiting) -> io::Result<Mark> {
        self.encrypted(outgoing)?;
        let written = outgoing.drain(&mut WithoutBlocking(&self.socket));
        if written.is_err() {
            // Part of a record may have been sent, so the peer could not decrypt anything that follows.
            let _ = self.socket.shutdown(Shutdown::Both);
        }
        written
    }
}

/// A socket whose writes never block.
struct WithoutBlocking<'a>(&'a TcpStream);

impl Write for WithoutBlocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for WithoutBlocking<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Outlet for TlsStream {
    fn push(&self, frame: &[u8], load: Load) -> io::Result<Option<Mark>> {
        let mut outgoing = self.outgoing();
        if self.closed.load(Ordering::Acquire) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if !outgoing.has_room(frame.len()) {
            return Ok(None);
        }
        let mut rest = frame;
        while !rest.is_empty() {
            // The connection's buffer is bounded: it takes a part, and the rest once that is encrypted.
            let taken = self.connection().writer().write(rest)?;
            rest = &rest[taken..];
            self.encrypted(&mut outgoing)?;
        }
        Ok(Some(outgoing.push(&[], load)))
    }

    fn drain(&self) -> io::Result<Mark> {
        let mut outgoing = self.outgoing();
        if self.closed.load(Ordering::Acquire) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.write_some(&mut outgoing)
    }

    fn is_empty(&self) -> bool {
        self.outgoing().is_empty()
    }

    fn has_no_message(&self) -> bool {
        self.outgoing().has_no_message()
    }

    fn poll_descriptor(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }

    fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.connection().send_close_notify();
        drain_to_close(|| {
            let mut outgoing = self.outgoing();
            self.write_some(&mut outgoing).map(|_| outgoing.is_empty())
        });
        // Wakes the thread that waits for the peer.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn abandon(&self) {
        self.closed.store(true, Ordering::Release);
        // The peer may have ended it first.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn set_read_deadline(&self, deadline: Option<Instant>) {
        *self.read_deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
    }

    /// With a request for the peer's new keys (RFC 8446 section 4.6.3). They come with its next message;
    /// what it has sent until then is no secret of ours.
    fn renew_keys(&self) -> io::Result<()> {
        let mut outgoing = self.outgoing();
        if self.closed.load(Ordering::Acquire) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.connection().refresh_traffic_keys().map_err(io::Error::other)?;
        self.write_some(&mut outgoing).map(|_| ())
    }

    fn set_timeout(&self, timeout: Duration) {
        super::tcp::set_timeout(&self.socket, timeout);
    }
}

/// The receiving half.
pub(super) struct TlsReader {
    stream: Arc<TlsStream>,
    /// Encrypted bytes from the socket; those in `start..end` are not decrypted yet.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
}

impl TlsReader {
    /// One step of decryption; `None` if more must come from the socket first.
    fn decrypted(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut connection = self.stream.connection();
        loop {
            match connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(Some),
            }
            if self.start == self.end {
                return Ok(None);
            }
            let mut rest = &self.incoming[self.start..self.end];
            self.start += connection.read_tls(&mut rest)?;
            if let Err(error) = connection.process_new_packets() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
}

impl Read for TlsReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(count) = self.decrypted(buffer)? {
                return Ok(count);
            }
            match self.stream.receive(&mut self.incoming) {
                // After our own close, the end of the stream is not the peer's error.
                _ if self.stream.closed.load(Ordering::Acquire) => return Ok(0),
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the connection ended without a goodbye",
                    ));
                }
                Ok(count) => (self.start, self.end) = (0, count),
                Err(error) => return Err(error),
            }
        }
    }
}
