//! The control channel (protocol 2): messages over an authenticated stream, made by [`ssh`] or [`tls`].
//!
//! A channel has two halves that two threads may use at once. It knows nothing of what the messages ask for.

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

/// How long a TLS peer may take over its hello: until then it holds a thread of ours without having been judged. Over
/// SSH a person may be typing a password meanwhile, so nothing is timed there.
const HELLO_WAIT: Duration = Duration::from_secs(10);
/// How much of what a peer calls itself is shown to people, characters.
const PROGRAM_CHARS_MAX: usize = 60;
/// How much of a peer's reason for ending a session is shown, characters.
const REASON_CHARS_MAX: usize = 1000;

/// One end of a control channel.
#[derive(Debug)]
pub struct ControlChannel {
    /// The half that hears.
    pub reader: ControlReader,
    /// The half that speaks.
    pub writer: ControlWriter,
    /// The session secret, where the channel itself yields one (TLS); over SSH the `accept` message carries it.
    pub exporter: Option<SessionSecret>,
    /// How the channel is made.
    pub carrier: Carrier,
    /// Who is at the other end.
    pub peer: Peer,
}

/// Who is at the other end of a control channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// For messages to people: `host via ssh`.
    pub description: String,
    /// The address of the TCP peer (TLS only).
    pub address: Option<IpAddr>,
    /// The key that the peer has proven to own (TLS only). Proven, not judged.
    pub key: Option<PublicKey>,
}

impl ControlChannel {
    /// A channel over any byte stream that is private and authenticated by other means. [`ControlWriter::close`]
    /// drops `write`.
    pub fn over(
        read: impl Read + Send + 'static,
        write: impl Write + Send + 'static,
        carrier: Carrier,
        peer: Peer,
    ) -> ControlChannel {
        let outlet = Arc::new(StreamOutlet(Mutex::new(Some(Box::new(write)))));
        ControlChannel::new(Box::new(BufReader::new(read)), outlet, None, carrier, peer)
    }

    /// From now on [`ControlReader::recv`] fails with `Timeout` at `deadline`, however the peer spreads its bytes; `None`
    /// lets it wait for ever. Only TLS knows deadlines; over SSH this does nothing. Not for use while another
    /// thread is in `recv`.
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

/// The half of a control channel that hears.
pub struct ControlReader {
    frames: FrameReader<Box<dyn Read + Send>>,
    peer: Arc<str>,
}

impl ControlReader {
    /// Waits for the next message; `None` at a clean end. Messages that only newer peers know are passed over.
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

/// The half of a control channel that speaks. Clones speak into the same channel; messages never mix.
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

/// Where frames leave, and what else can be done to a channel from outside its reader.
trait Outlet: Send + Sync {
    fn send(&self, frame: &[u8]) -> io::Result<()>;
    fn close(&self);
    fn set_read_deadline(&self, _deadline: Option<Instant>) {}
}

/// A stream whose end is told by dropping it.
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

/// Exchanges hellos (protocol 2.2); both sides call it right after connecting. A peer of another version is told
/// so, and the error names both versions; a peer that refuses is quoted.
pub fn hello(channel: &mut ControlChannel) -> Result<Hello> {
    let ours = Hello {
        protocol: PROTOCOL,
        program: format!("fobs {}", env!("CARGO_PKG_VERSION")),
        fast_aes: Cipher::best_here() == Cipher::Aes128Gcm,
    };
    let sent = channel.writer.send(&Message::Hello(ours.clone()));
    // What the peer said before it went says more than that it no longer listens.
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
            // The session is over whether or not the peer still hears why.
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

/// Says whose channel an error is about.
fn named(peer: &str, error: Error) -> Error {
    Error::new(error.kind, format!("{peer}: {}", error.message))
}

/// At most `count` characters of a stranger's text, without those that could play tricks on a terminal.
pub(crate) fn printable(text: &str, count: usize) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ' || c.is_alphanumeric()).take(count).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    fn pair() -> (ControlChannel, ControlChannel) {
        let (left, right) = UnixStream::pair().unwrap();
        let end = |stream: UnixStream, name: &str| {
            let peer = Peer { description: format!("{name} via test"), address: None, key: None };
            ControlChannel::over(stream.try_clone().unwrap(), ShutOnDrop(stream), Carrier::Ssh, peer)
        };
        (end(left, "right"), end(right, "left"))
    }

    /// A socket's end is told by shutting it down, because the reading half keeps it open.
    struct ShutOnDrop(UnixStream);

    impl Write for ShutOnDrop {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    impl Drop for ShutOnDrop {
        fn drop(&mut self) {
            let _ = self.0.shutdown(std::net::Shutdown::Write);
        }
    }

    fn theirs(protocol: u32, program: &str) -> Message {
        Message::Hello(Hello { protocol, program: program.to_owned(), fast_aes: false })
    }

    #[test]
    fn both_sides_say_hello() {
        let (mut left, mut right) = pair();
        let other = thread::spawn(move || hello(&mut right).unwrap());
        let heard = hello(&mut left).unwrap();
        assert_eq!(heard, other.join().unwrap());
        assert_eq!(heard.protocol, PROTOCOL);
        assert!(heard.program.starts_with("fobs "));
    }

    #[test]
    fn another_version_is_told_so() {
        let (mut left, mut right) = pair();
        right.writer.send(&theirs(PROTOCOL + 1, "fobs \u{1b}[2J9.9.9")).unwrap();
        let error = hello(&mut left).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol);
        let ours = format!("fobs {} speaks 1", env!("CARGO_PKG_VERSION"));
        for part in ["right via test", &ours, "9.9.9 speaks 2"] {
            assert!(error.message.contains(part), "{part} is missing: {error}");
        }
        assert!(!error.message.contains('\u{1b}'));
        assert!(matches!(right.reader.recv(), Ok(Some(Message::Hello(_)))));
        let Ok(Some(Message::Abort { code, message })) = right.reader.recv() else { panic!("no abort") };
        assert_eq!(ErrorKind::from_code(&code), ErrorKind::Protocol);
        assert!(message.contains("speaks 2"));
    }

    #[test]
    fn a_refusal_in_place_of_a_hello_is_quoted() {
        let (mut left, right) = pair();
        right
            .writer
            .send(&Message::Abort { code: "denied".to_owned(), message: "not you".to_owned() })
            .unwrap();
        right.writer.close();
        let error = hello(&mut left).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Denied, "right via test: not you"));
    }

    #[test]
    fn anything_else_in_place_of_a_hello_is_an_error() {
        let (mut left, right) = pair();
        right.writer.send(&Message::Rejected { chunk: 0, attempt: 0 }).unwrap();
        assert_eq!(hello(&mut left).unwrap_err().kind, ErrorKind::Protocol);
        let (mut left, right) = pair();
        right.writer.close();
        assert_eq!(hello(&mut left).unwrap_err().kind, ErrorKind::Protocol);
    }

    #[test]
    fn unknown_messages_are_passed_over_and_close_ends_cleanly() {
        let (mut left, right) = pair();
        right.writer.send(&Message::Unknown).unwrap();
        right.writer.clone().send(&theirs(1, "x")).unwrap();
        right.writer.close();
        right.writer.close();
        assert_eq!(left.reader.recv(), Ok(Some(theirs(1, "x"))));
        assert_eq!(left.reader.recv(), Ok(None));
        let error = right.writer.send(&theirs(1, "y")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Connect);
    }

    #[test]
    fn messages_of_many_threads_do_not_mix() {
        let (mut left, right) = pair();
        let threads: Vec<_> = (0..4)
            .map(|attempt| {
                let writer = right.writer.clone();
                thread::spawn(move || {
                    for chunk in 0..500 {
                        writer.send(&Message::Rejected { chunk, attempt }).unwrap();
                    }
                })
            })
            .collect();
        let mut next = [0; 4];
        for _ in 0..2000 {
            let Ok(Some(Message::Rejected { chunk, attempt })) = left.reader.recv() else { panic!("mixed") };
            assert_eq!(chunk, next[attempt as usize]);
            next[attempt as usize] += 1;
        }
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[test]
    fn strangers_text_is_tamed() {
        assert_eq!(printable("a\u{1b}]0;x\u{7}\tb\u{202e} é\n", 100), "a]0;xb é");
        assert_eq!(printable("abcdef", 3), "abc");
    }
}
