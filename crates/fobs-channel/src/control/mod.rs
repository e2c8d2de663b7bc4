//! The control channel (protocol 2): messages over an authenticated stream, made by [`ssh`] or [`tls`].
//!
//! A channel has two halves that two threads may use at once. It does not interpret messages.

mod branch;
pub mod frame;
mod lane;
mod lease;
mod outlet;
pub mod pair;
pub mod ssh;
mod timed;
pub mod tls;
mod wiped;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use self::branch::Branches;
pub use self::frame::Length;
use self::frame::{DataFrames, Frame, FrameReader, broken};
pub use self::lane::{ChannelLane, DoorMailbox, Sent};
use self::lane::{Inlet, lane};
pub use self::lease::{Kept, Side as KeptSide};
use self::outlet::{Load, Outlet, StreamOutlet, push_in_time, wait_for};
use self::timed::ReadDeadline;
use self::wiped::WipedReader;
use crate::secure::datagram::Cipher;
use crate::secure::identity::PublicKey;
use crate::secure::schedule::SessionSecret;
use fobs_model::error::{Busy, Error, ErrorKind, Result};
use fobs_model::message::{FEATURES, Hello, Level, Message, PROTOCOL, PROTOCOL_NEWEST};
use fobs_model::options::Carrier;
use fobs_model::text::printable;

/// How long a TLS peer may take over its hello: until then it holds a thread of ours without having been
/// judged. Over SSH a person may be typing a password meanwhile, so nothing is timed there.
const HELLO_WAIT: Duration = Duration::from_secs(10);
/// How long a peer may leave our messages unread before it counts as gone, before the session begins.
const WRITE_WAIT: Duration = Duration::from_secs(60);
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
    /// A session secret, where the channel itself yields one (TLS). It is for the first key schedule;
    /// otherwise the `accept` message carries one.
    pub exporter: Option<SessionSecret>,
    /// How the channel is made.
    pub carrier: Carrier,
    /// How the channel's own keys were exchanged (TLS only).
    pub key_exchange: Option<&'static str>,
    /// What the peer's hello will say at least, where the channel itself tells: a version that we speak, and
    /// the features of this level.
    pub foretold: Option<Level>,
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
    /// The interface to which a link-local address belongs, as its number here; 0 for any other address.
    pub zone: u32,
    /// The key that the peer has proven to own (TLS only). Whether it has any right is not checked yet.
    pub key: Option<PublicKey>,
}

impl Peer {
    /// The address as a resolver takes it, with its interface where it has one.
    pub fn scoped_address(&self) -> Option<String> {
        let address = self.address?;
        Some(if self.zone == 0 { address.to_string() } else { format!("{address}%{}", self.zone) })
    }

    /// Its name in what is remembered: its address, or over ssh the host name of the command line.
    pub fn remembered_as(&self) -> String {
        self.address.map_or_else(|| self.description.clone(), |address| address.to_string())
    }
}

impl ControlChannel {
    /// A channel over any byte stream that is private and authenticated by other means.
    /// [`ControlWriter::close`] drops `write`.
    pub fn over(
        read: impl Read + Send + 'static,
        write: impl Write + AsFd + Send + 'static,
        carrier: Carrier,
        peer: Peer,
    ) -> ControlChannel {
        ControlChannel::over_timed(read, ReadDeadline::default(), write, carrier, peer)
    }

    /// The same, where `read` gives up at a deadline.
    fn over_timed(
        read: impl Read + Send + 'static,
        deadline: ReadDeadline,
        write: impl Write + AsFd + Send + 'static,
        carrier: Carrier,
        peer: Peer,
    ) -> ControlChannel {
        let outlet = Arc::new(StreamOutlet::new(write, deadline));
        ControlChannel::new(Box::new(WipedReader::new(read)), outlet, None, carrier, peer)
    }

    /// From now on [`ControlReader::recv`] fails with `Timeout` at `deadline`, however the peer spreads its
    /// bytes; `None` lets it wait for ever. A server that ssh has started knows no deadline: it ends with its
    /// client. Not for use while another thread is in `recv`.
    pub fn set_read_deadline(&self, deadline: Option<Instant>) {
        self.writer.outlet.set_read_deadline(deadline);
    }

    /// From now on data frames may come, and what concerns the streams of this session goes to the lane and
    /// the mailbox instead of [`ControlReader::recv`] (protocol 11). Only where both sides know streams.
    pub fn open_lane(&mut self) -> Result<(ChannelLane, DoorMailbox)> {
        let (inlet, lane, mailbox) = lane(self.writer.outlet.clone(), self.writer.peer.clone())?;
        self.reader.inlet = Some(inlet);
        Ok((lane, mailbox))
    }

    /// What is below the frames, for a client that keeps no rule.
    #[cfg(any(test, feature = "testing"))]
    pub fn into_stream(mut self) -> (Box<dyn Read + Send>, ControlWriter, Option<SessionSecret>) {
        let nothing: Box<dyn Read + Send> = Box::new(io::empty());
        let frames = std::mem::replace(&mut self.reader.frames, FrameReader::new(nothing));
        (frames.into_stream(), self.writer, self.exporter)
    }

    fn new(
        read: Box<dyn Read + Send>,
        outlet: Arc<dyn Outlet>,
        exporter: Option<SessionSecret>,
        carrier: Carrier,
        peer: Peer,
    ) -> ControlChannel {
        let name: Arc<str> = peer.description.as_str().into();
        let unheard = Unheard::default();
        ControlChannel {
            reader: ControlReader {
                frames: FrameReader::new(read),
                peer: name.clone(),
                unheard: unheard.clone(),
                inlet: None,
                branches: None,
                lease: None,
            },
            writer: ControlWriter { outlet, timeout: Arc::new(Mutex::new(WRITE_WAIT)), unheard, peer: name },
            exporter,
            carrier,
            key_exchange: None,
            foretold: None,
            peer,
        }
    }
}

/// The receiving half of a control channel.
pub struct ControlReader {
    frames: Frames,
    peer: Arc<str>,
    unheard: Unheard,
    /// Where that goes which concerns the streams of the session.
    inlet: Option<Inlet>,
    /// Where the bytes of its branches go.
    branches: Option<Branches>,
    /// For one transfer of a channel that is kept.
    lease: Option<lease::Lease>,
}

/// Whether a peer whose hello was foretold has not said a word yet. Shared by both halves of a channel.
#[derive(Clone, Default)]
struct Unheard(Arc<AtomicBool>);

impl Unheard {
    fn set(&self, unheard: bool) {
        self.0.store(unheard, Ordering::Relaxed);
    }

    /// The error of a peer: one that ends the connection before its first word had no room for it.
    fn named(&self, peer: &str, error: Error) -> Error {
        if error.kind == ErrorKind::Connect && self.0.load(Ordering::Relaxed) {
            let message =
                format!("{peer} is busy: it ended the connection before it said anything; try again later");
            error.reworded(message).of_busy(Busy::Closed)
        } else {
            named(peer, error)
        }
    }
}

/// The frames of a channel.
type Frames = FrameReader<Box<dyn Read + Send>>;

impl ControlReader {
    /// From now on messages may be so long.
    pub fn bound(&mut self, length: Length) {
        self.frames.bound(length);
    }

    /// What the peer can do, where its hello was foretold and has come by now; else nothing.
    pub fn late_features(&self) -> Vec<String> {
        self.frames.late_features().get().cloned().unwrap_or_default()
    }

    /// Waits for the next message; `None` at a clean end. Messages of newer versions are skipped. Waits as
    /// well while the lane is full of data that nobody takes.
    pub fn recv(&mut self) -> Result<Option<Message>> {
        let takes_data = self.inlet.is_some() || self.branches.is_some();
        let data = if takes_data { DataFrames::Allowed } else { DataFrames::Refused };
        loop {
            let read = match &mut self.lease {
                Some(lease) => lease.read(&mut self.frames, data),
                None => self.frames.read_frame(data),
            };
            if matches!(read, Ok(Some(_))) {
                self.unheard.set(false);
            }
            match (read, &self.inlet) {
                (Ok(Some(Frame::Message(Message::Unknown))), _) => {}
                (Ok(Some(Frame::Message(message))), Some(inlet)) => {
                    if let Some(message) = inlet.sort(message) {
                        return Ok(Some(message));
                    }
                }
                (Ok(Some(Frame::Message(message))), None) => return Ok(Some(message)),
                (Ok(Some(Frame::Data(record))), Some(inlet)) => inlet.take(record),
                (Ok(Some(Frame::Data(record))), None) => {
                    // Refused where there is neither.
                    self.branches.iter().try_for_each(|branches| branches.take(&record))?;
                }
                (Ok(None), _) => return Ok(None),
                (Err(error), _) => return Err(self.unheard.named(&self.peer, error)),
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
    /// How long the peer may leave messages unread.
    timeout: Arc<Mutex<Duration>>,
    unheard: Unheard,
    peer: Arc<str>,
}

impl ControlWriter {
    /// Sends one message; it has left this process when this returns. Waits while the peer takes nothing, and
    /// ends the channel when that takes too long. Not for threads that the path of data needs.
    pub fn send(&self, message: &Message) -> Result<()> {
        let frame = Zeroizing::new(frame::encode(message)?);
        let deadline = Instant::now() + *self.timeout.lock().unwrap_or_else(PoisonError::into_inner);
        push_in_time(&*self.outlet, &frame, deadline)
            .and_then(|mark| wait_for(&*self.outlet, mark, deadline))
            .map_err(|error| {
                // A thread that waits on this channel must learn that it is over.
                self.outlet.abandon();
                self.unheard.named(&self.peer, broken(&error))
            })
    }

    /// Sends one message without waiting: it leaves at once or with a later call.
    ///
    /// # Errors
    /// `Connect` if the channel is broken, or if the bytes that wait to be sent are at their limit.
    pub fn post(&self, message: &Message) -> Result<()> {
        let frame = Zeroizing::new(frame::encode(message)?);
        let posted = self.outlet.push(&frame, Load::Message).and_then(|taken| match taken {
            Some(_) => self.outlet.drain().map(|_| ()),
            None => Err(io::Error::other("the other side leaves its messages unread")),
        });
        posted.map_err(|error| named(&self.peer, broken(&error)))
    }

    /// Sends one message that a later one makes good, if no other waits to be sent; without waiting. On a
    /// channel that is broken it is lost: the reader learns of that.
    pub fn offer(&self, message: &Message) {
        if self.outlet.drain().is_ok() && self.outlet.has_no_message() {
            // As said: the reader learns of it.
            let _ = self.post(message);
        }
    }

    /// Has the channel take new keys, where it has any of its own (TLS): what was said before can then not be
    /// decrypted with those that this process holds. The peer's follow when it has heard of it.
    pub fn renew_keys(&self) -> Result<()> {
        self.outlet.renew_keys().map_err(|error| named(&self.peer, broken(&error)))
    }

    /// From now on a peer that takes nothing for this long is gone.
    pub fn set_timeout(&self, timeout: Duration) {
        *self.timeout.lock().unwrap_or_else(PoisonError::into_inner) = timeout;
        self.outlet.set_timeout(timeout);
    }

    /// Sends any text as a frame. A peer that is gone gets nothing.
    #[cfg(any(test, feature = "testing"))]
    pub fn send_json(&self, json: &str) {
        let length = u32::try_from(json.len()).expect("a short text").to_be_bytes();
        let frame = [&length, json.as_bytes()].concat();
        let deadline = Instant::now() + WRITE_WAIT;
        let pushed = push_in_time(&*self.outlet, &frame, deadline);
        // The test sees it at the other end.
        let _ = pushed.and_then(|mark| wait_for(&*self.outlet, mark, deadline));
    }

    /// Sends bytes that need not be a message.
    #[cfg(any(test, feature = "testing"))]
    pub fn send_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + WRITE_WAIT;
        let mark = push_in_time(&*self.outlet, bytes, deadline)?;
        wait_for(&*self.outlet, mark, deadline)
    }

    /// Ends the channel: the peer sees a clean end after what was sent, which has a second to leave. Closing
    /// twice is fine.
    pub fn close(&self) {
        self.outlet.close();
    }
}

impl fmt::Debug for ControlWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ControlWriter({})", self.peer)
    }
}

/// Exchanges hellos (protocol 2.2); both sides call it right after connecting. A peer's that is foretold is
/// not waited for. If the versions differ, the
/// peer is sent an abort and the error names both; the reason of a peer that refuses is part of the error.
pub fn hello(channel: &mut ControlChannel) -> Result<Hello> {
    hello_within(channel, None)
}

/// Likewise, where the peer may take no longer than `limit`, if there is one.
pub fn hello_within(channel: &mut ControlChannel, limit: Option<Duration>) -> Result<Hello> {
    let ours = Hello {
        protocol: PROTOCOL,
        newest: (PROTOCOL_NEWEST > PROTOCOL).then_some(PROTOCOL_NEWEST),
        program: program(),
        fast_aes: Cipher::best_here() == Cipher::Aes128Gcm,
        features: features(),
    };
    let level = channel.foretold;
    channel.reader.unheard.set(level.is_some());
    let sent = channel.writer.send(&Message::Hello(ours.clone()));
    if let (Ok(()), Some(level)) = (&sent, level) {
        // Ours and the request go together; the reader checks that it was true.
        channel.reader.frames.expect_hello(level);
        let features = level.features.iter().map(|feature| (*feature).to_owned()).collect();
        return Ok(Hello { newest: None, features, ..ours });
    }
    // A reason that the peer sent before it closed explains more than the failed write.
    let ours_too = (channel.carrier == Carrier::Daemon).then_some(HELLO_WAIT);
    let wait = limit.into_iter().chain(ours_too).min();
    channel.set_read_deadline(wait.and_then(|wait| Instant::now().checked_add(wait)));
    let received = channel.reader.recv();
    channel.set_read_deadline(None);
    let problem = |kind, why: String| Err(named(&channel.peer.description, Error::new(kind, why)));
    match received {
        Ok(Some(Message::Hello(theirs))) if theirs.common_version().is_some() => sent.map(|()| theirs),
        Ok(Some(Message::Hello(theirs))) => {
            let why = format!(
                "no common protocol version: {} speaks {PROTOCOL}, {} speaks {}; install the same version on both sides",
                ours.program,
                printable(&theirs.program, PROGRAM_CHARS_MAX),
                theirs.protocol,
            );
            let code = ErrorKind::Protocol.code().to_owned();
            let abort = Message::Abort { code, message: why.clone(), busy: false, sync: String::new() };
            // The session is over whether or not the peer receives the reason.
            let _ = channel.writer.send(&abort);
            problem(ErrorKind::Protocol, why)
        }
        Ok(Some(Message::Abort { code, message, .. })) => {
            problem(ErrorKind::from_code(&code), printable(&message, REASON_CHARS_MAX))
        }
        Ok(Some(_)) => problem(
            ErrorKind::Protocol,
            "the first message is not a hello; are both sides of the same version?".to_owned(),
        ),
        // A write that failed says how the connection ended.
        Ok(None) => sent.and(problem(
            ErrorKind::Protocol,
            "the connection ended before a hello; look at the messages of the other side".to_owned(),
        )),
        Err(error) => Err(error),
    }
}

/// Name and version of this program.
pub fn program() -> String {
    format!("fobs {}", env!("CARGO_PKG_VERSION"))
}

/// What this program can do beyond the first version.
pub fn features() -> Vec<String> {
    FEATURES.iter().map(|feature| (*feature).to_owned()).collect()
}

/// Adds the peer's name to an error.
fn named(peer: &str, error: Error) -> Error {
    let message = format!("{peer}: {}", error.message);
    error.reworded(message)
}

#[cfg(test)]
pub(crate) mod tests;
