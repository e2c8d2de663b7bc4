//! An established TLS connection as two halves for two threads.
//!
//! The connection's state is behind a lock that is only held while bytes are encrypted or decrypted in
//! memory, never while the socket blocks. So a thread that waits for the peer does not keep another from
//! sending.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::Connection;

use super::super::Outlet;

/// Bytes of one read from the socket: the largest TLS record.
const READ_BYTES: usize = 16 << 10;
/// How long a peer may leave our bytes unread before it counts as gone. Messages are small and read at once.
const WRITE_WAIT: Duration = Duration::from_secs(60);
/// How long sending the close notification may take.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// An established connection.
pub(super) struct TlsStream {
    connection: Mutex<Connection>,
    socket: TcpStream,
    /// Encrypted bytes not yet written. Its lock covers encryption and writing, so that records leave in
    /// order. Taken before `connection`, never after.
    outgoing: Mutex<Vec<u8>>,
    closed: AtomicBool,
    /// When the reader stops waiting.
    read_deadline: Mutex<Option<Instant>>,
}

impl TlsStream {
    /// Takes over a connection whose handshake is complete, and its socket.
    pub(super) fn new(connection: Connection, socket: TcpStream) -> io::Result<TlsStream> {
        socket.set_write_timeout(Some(WRITE_WAIT))?;
        Ok(TlsStream {
            connection: Mutex::new(connection),
            socket,
            outgoing: Mutex::new(Vec::new()),
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

    /// Moves what the connection wants to send to `outgoing` and on to the socket.
    fn flush(&self, outgoing: &mut Vec<u8>) -> io::Result<()> {
        {
            let mut connection = self.connection();
            while connection.wants_write() {
                connection.write_tls(outgoing)?;
            }
        }
        let written = (&self.socket).write_all(outgoing);
        outgoing.clear();
        if written.is_err() {
            // Part of a record may have been sent, so the peer could not decrypt anything that follows.
            let _ = self.socket.shutdown(Shutdown::Both);
        }
        written
    }
}

impl Outlet for TlsStream {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.closed.load(Ordering::Acquire) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let mut rest = frame;
        while !rest.is_empty() {
            // The connection's buffer is bounded: it takes a part, and the rest once that has left.
            let taken = self.connection().writer().write(rest)?;
            rest = &rest[taken..];
            self.flush(&mut outgoing)?;
        }
        Ok(())
    }

    fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        // While another thread is blocked in a write, no close notification can be sent; the peer sees a
        // broken connection.
        if let Ok(mut outgoing) = self.outgoing.try_lock() {
            self.connection().send_close_notify();
            // A peer that no longer reads cannot be notified.
            let _ = self.socket.set_write_timeout(Some(CLOSE_WAIT));
            let _ = self.flush(&mut outgoing);
        }
        // Wakes the thread that waits for the peer.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn set_read_deadline(&self, deadline: Option<Instant>) {
        *self.read_deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
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
