//! The first bytes of a stream, read within bounds: a peer may say nothing, or one byte a second.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Refusal;
use fobs_channel::secure::stream::{STREAM_HELLO_LEN, StreamHello};

/// How long the first bytes may take in all: the client writes them as soon as it is connected, so three lost
/// segments in a row fit (RFC 6298: 1 + 2 + 4 s).
pub(crate) const GREETING_WAIT: Duration = Duration::from_secs(8);

/// The first bytes of one connection, as they come. No byte behind them is read.
pub struct Greeting {
    bytes: [u8; STREAM_HELLO_LEN],
    have: usize,
    pub(super) deadline: Instant,
}

impl Greeting {
    /// Of a connection that was accepted now.
    pub fn new(now: Instant) -> Greeting {
        Greeting { bytes: [0; STREAM_HELLO_LEN], have: 0, deadline: now + GREETING_WAIT }
    }

    /// Reads what is there of a socket that does not block; `None` while more must come.
    pub(super) fn read(&mut self, mut socket: &TcpStream) -> Result<Option<StreamHello>, Refusal> {
        while self.have < self.bytes.len() {
            match socket.read(&mut self.bytes[self.have..]) {
                Ok(0) => return Err(Refusal::Broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.have += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Refusal::Broken(error)),
            }
        }
        StreamHello::parse(&self.bytes).map(Some).ok_or(Refusal::NoStream)
    }

    /// Waits for them on a socket that blocks.
    pub fn wait(mut self, socket: &TcpStream) -> Result<StreamHello, Refusal> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Refusal::Broken(io::ErrorKind::TimedOut.into()));
            }
            socket.set_read_timeout(Some(left)).map_err(Refusal::Broken)?;
            if let Some(hello) = self.read(socket)? {
                socket.set_read_timeout(None).map_err(Refusal::Broken)?;
                return Ok(hello);
            }
        }
    }
}
