//! The control channel (protocol 2): messages over an authenticated stream, made by [`ssh`] or [`tls`].
//!
//! A channel has two halves that two threads may use at once. It does not interpret messages.

pub mod frame;
pub mod message;
pub mod ssh;
pub mod tls;
mod wire;

use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::frame::{FrameReader, broken};
use self::message::{Hello, Message, PROTOCOL};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Carrier;
use crate::secure::datagram::{Cipher, SessionSecret};
use crate::secure::identity::PublicKey;

/// How long a TLS peer may take over its hello: until then it holds a thread of ours without having been
/// judged. Over SSH a person may be typing a password meanwhile, so nothing is timed there.
const HELLO_WAIT: Duration = Duration::from_secs(10);
/// How much of what a peer calls itself is shown to people, characters.
const PROGRAM_CHARS_MAX: usize = 60;
/// How much of a peer's reason for ending a session is shown, characters.
const REASON_CHARS_MAX: usize = 1000;

/// One end of a control channel.
#[derive(Debug)]
pub struct ControlChannel {
    /// The receiving half.
    pub reader: ControlReader,
    /// The sending half.
    pub writer: ControlWriter,
    /// The session secret, where the channel itself yields one (TLS); over SSH the `accept` message carries
    /// it.
    pub exporter: Option<SessionSecret>,
    /// How the channel is made.
    pub carrier: Carrier,
    /// The other end.
    pub peer: Peer,
}

/// The other end of a control channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// For messages to people: `host via ssh`.
    pub description: String,
    /// The address of the TCP peer (TLS only).
    pub address: Option<IpAddr>,
    /// The key that the peer has proven to own (TLS only). Whether it has any right is not checked yet.
    pub key: Option<PublicKey>,
}

impl ControlChannel {
    /// A channel over any byte stream that is private and authenticated by other means.
    /// [`ControlWriter::close`] drops `write`.
    pub fn over(
        read: impl Read + Send + 'static,
        write: impl Write + Send + 'static,
        carrier: Carrier,
        peer: Peer,
    ) -> ControlChannel {
        let outlet = Arc::new(StreamOutlet(Mutex::new(Some(Box::new(write)))));
        ControlChannel::new(Box::new(BufReader::new(read)), outlet, None, carrier, peer)
    }

    /// From now on [`ControlReader::recv`] fails with `Timeout` at `deadline`, however the peer spreads its
    /// bytes; `None` lets it wait for ever. Only TLS knows deadlines; over SSH this does nothing. Not for use
    /// while another thread is in `recv`.
    pub fn set_read_deadline(&self, deadline: Option<Instant>) {
        self.writer.outlet.set_read_deadline(deadline);
    }

    fn new(
        read: Box<dyn Read + Send>,
        outlet: Arc<dyn Outlet>,
        exporter: Option<SessionSecret>,
        carrier: Carrier,
        peer: Peer,
    ) -> ControlChannel {
        let name: Arc<str> = peer.description.as_str().into();
        ControlChannel {
            reader: ControlReader { frames: FrameReader::new(read), peer: name.clone() },
            writer: ControlWriter { outlet, peer: name },
            exporter,
            carrier,
            peer,
        }
    }
}

/// The receiving half of a control channel.
pub struct ControlReader {
    frames: FrameReader<Box<dyn Read + Send>>,
    peer: Arc<str>,
}

impl ControlReader {
    /// Waits for the next message; `None` at a clean end. Messages of newer versions are skipped.
    pub fn recv(&mut self) -> Result<Option<Message>> {
        loop {
            match self.frames.read() {
                Ok(Some(Message::Unknown)) => {}
                Ok(message) => return Ok(message),
                Err(error) => return Err(named(&self.peer, error)),
            }
        }
    }
}

impl fmt::Debug for ControlReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ControlReader({})", self.peer)
    }
}

/// The sending half of a control channel. Clones share the channel; messages are never interleaved.
#[derive(Clone)]
pub struct ControlWriter {
    outlet: Arc<dyn Outlet>,
    peer: Arc<str>,
}

impl ControlWriter {
    /// Sends one message; it has left this process when this returns.
    pub fn send(&self, message: &Message) -> Result<()> {
        let frame = frame::encode(message)?;
        self.outlet.send(&frame).map_err(|error| named(&self.peer, broken(&error)))
    }

    /// Ends the channel: the peer sees a clean end after what was sent. Closing twice is fine.
    pub fn close(&self) {
        self.outlet.close();
    }
}

impl fmt::Debug for ControlWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ControlWriter({})", self.peer)
    }
}

/// The sending half of a stream, and the operations on a channel that do not need its reader.
trait Outlet: Send + Sync {
    fn send(&self, frame: &[u8]) -> io::Result<()>;
    fn close(&self);
    fn set_read_deadline(&self, _deadline: Option<Instant>) {}
}

/// A stream that is ended by dropping it.
struct StreamOutlet(Mutex<Option<Box<dyn Write + Send>>>);

impl Outlet for StreamOutlet {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        stream.write_all(frame)?;
        stream.flush()
    }

    fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Exchanges hellos (protocol 2.2); both sides call it right after connecting. If the versions differ, the
/// peer is sent an abort and the error names both; the reason of a peer that refuses is part of the error.
pub fn hello(channel: &mut ControlChannel) -> Result<Hello> {
    let ours = Hello {
        protocol: PROTOCOL,
        program: format!("fobs {}", env!("CARGO_PKG_VERSION")),
        fast_aes: Cipher::best_here() == Cipher::Aes128Gcm,
    };
    let sent = channel.writer.send(&Message::Hello(ours.clone()));
    // A reason that the peer sent before it closed explains more than the failed write.
    channel.set_read_deadline(Some(Instant::now() + HELLO_WAIT));
    let received = channel.reader.recv();
    channel.set_read_deadline(None);
    let problem = |kind, why: String| Err(named(&channel.peer.description, Error::new(kind, why)));
    match received {
        Ok(Some(Message::Hello(theirs))) if theirs.protocol == PROTOCOL => sent.map(|()| theirs),
        Ok(Some(Message::Hello(theirs))) => {
            let why = format!(
                "no common protocol version: {} speaks {PROTOCOL}, {} speaks {}; install the same version on both sides",
                ours.program,
                printable(&theirs.program, PROGRAM_CHARS_MAX),
                theirs.protocol,
            );
            let abort = Message::Abort { code: ErrorKind::Protocol.code().to_owned(), message: why.clone() };
            // The session is over whether or not the peer receives the reason.
            let _ = channel.writer.send(&abort);
            problem(ErrorKind::Protocol, why)
        }
        Ok(Some(Message::Abort { code, message })) => {
            problem(ErrorKind::from_code(&code), printable(&message, REASON_CHARS_MAX))
        }
        Ok(Some(_)) => problem(
            ErrorKind::Protocol,
            "the first message is not a hello; are both sides of the same version?".to_owned(),
        ),
        Ok(None) => problem(
            ErrorKind::Protocol,
            "the connection ended before a hello; look at the messages of the other side".to_owned(),
        ),
        Err(error) => Err(error),
    }
}

/// Adds the peer's name to an error.
fn named(peer: &str, error: Error) -> Error {
    Error::new(error.kind, format!("{peer}: {}", error.message))
}

/// At most `count` characters of a peer's text, without control characters and other terminal tricks.
pub(crate) fn printable(text: &str, count: usize) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ' || c.is_alphanumeric()).take(count).collect()
}

#[cfg(test)]
pub(crate) mod tests;
