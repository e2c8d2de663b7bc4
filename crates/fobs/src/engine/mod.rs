//! The engine: threads that drive the protocol's machines over real sockets, clocks and files.
//!
//! A sending session is two threads and one that hears the control channel: `reader` fills chunks, `send` paces packets
//! and hears acks. A receiving one likewise: `receive` takes packets and acknowledges, `writer` verifies and stores. They share
//! nothing but bounded channels and the chunk buffers that travel through them. A receiver that loses what it does not take in time
//! may get a third, the `lane`.

mod causes;
mod clock;
mod host;
mod lane;
mod link;
mod measure;
mod meter;
mod portion;
mod reader;
mod receive;
mod remedy;
mod report;
mod send;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use clock::Clock;
pub(crate) use link::{Link, LinkSetup};
pub(crate) use receive::{ReceiveJob, receive};
pub(crate) use remedy::RemedyPolicy;
pub(crate) use report::Reporter;
pub(crate) use send::{SendJob, send};

use crate::control::message::Message;
use crate::control::{ControlReader, ControlWriter, printable};
use crate::error::{Error, ErrorKind};
use fobs_proto::Timestamp;
use fobs_sys::Waker;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Chunks that each side holds at once. 40 x 4.25 MiB are 170 MiB: two and a half times a bandwidth-delay product of 64 MiB,
/// which a window needs while a lost packet is sent again, and inside the 256 MiB that a process may have.
pub(crate) const CHUNKS_MAX: u32 = 40;
/// Messages waiting for an engine thread. The channel's hearer waits when it is full, and so, in the end, does the peer.
const MAILBOX_MAX: usize = 256;
/// Without an authenticated datagram for this long at the start, UDP is blocked (protocol 5.2).
pub(crate) const UDP_SILENCE_MAX: Duration = Duration::from_secs(4);
/// Without any answer to packets on their way for this long, the path is dead.
pub(crate) const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);
/// How often a waiting thread checks for cancellation and reports its progress.
const HEARTBEAT: Duration = Duration::from_millis(200);
/// How long a side waits for the other's last message before it goes.
const FAREWELL_WAIT: Duration = Duration::from_secs(5);
/// Tries of a chunk: one that does not verify is sent again twice (protocol 7.5).
const MISMATCHES_MAX: u8 = 3;
/// How long a receiver that ends early waits for its writer to clean up: it may be stuck in a write to a disk or a pipe that has
/// stopped, and then nothing can be cleaned up anyway.
const CLEAN_UP_WAIT: Duration = Duration::from_secs(10);
/// How often it looks whether the writer is done.
const CLEAN_UP_POLL: Duration = Duration::from_millis(2);
/// How much of a peer's reason for ending a session is shown, characters.
const REASON_CHARS_MAX: usize = 1000;
/// Timer slack of the threads that pace: the kernel's default of 50 µs is half a burst at 5 Gbit/s.
const TIMER_SLACK_NS: u64 = 1_000;

/// Ends a session whose peer was last heard at `heard`, by whatever way it may answer, if that is too long ago.
fn check_answer(now: Timestamp, heard: Timestamp, peer: &str) -> Result<(), Error> {
    if now - heard < ANSWER_WAIT_MAX {
        return Ok(());
    }
    let seconds = ANSWER_WAIT_MAX.as_secs();
    Err(Error::new(
        ErrorKind::Timeout,
        format!(
            "no answer from {peer} over UDP for {seconds} s; the path is down, or a firewall forgot the flow: try again"
        ),
    ))
}

/// What the control channel says to an engine thread.
#[derive(Debug)]
pub(crate) enum ControlEvent {
    /// A message.
    Message(Message),
    /// The channel is over: cleanly, or with an error.
    Closed(Option<Error>),
}

/// A thread's letter box: a bounded channel and the bell that wakes the thread from its socket.
pub(crate) struct Post<T> {
    sender: SyncSender<T>,
    waker: Waker,
}

impl<T> Clone for Post<T> {
    fn clone(&self) -> Self {
        Post { sender: self.sender.clone(), waker: self.waker.clone() }
    }
}

impl<T> Post<T> {
    fn new(waker: Waker) -> (Post<T>, Receiver<T>) {
        let (sender, receiver) = sync_channel(MAILBOX_MAX);
        (Post { sender, waker }, receiver)
    }

    /// Posts an error if the calling thread ends by a panic: the listener would wait for ever.
    fn alarm(&self, letter: fn(Error) -> T) -> Alarm<T> {
        Alarm { post: self.clone(), letter }
    }

    /// Posts and rings. False once the thread is gone.
    fn post(&self, letter: T) -> bool {
        let sent = match self.sender.try_send(letter) {
            Ok(()) => true,
            Err(TrySendError::Full(letter)) => {
                self.waker.wake();
                self.sender.send(letter).is_ok()
            }
            Err(TrySendError::Disconnected(_)) => false,
        };
        self.waker.wake();
        sent
    }
}

/// See [`Post::alarm`].
struct Alarm<T> {
    post: Post<T>,
    letter: fn(Error) -> T,
}

impl<T> Drop for Alarm<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            let message = format!("the thread {} failed; report this bug", thread.name().unwrap_or("?"));
            self.post.post((self.letter)(Error::new(ErrorKind::Internal, message)));
        }
    }
}

/// Forwards what the control channel says, in a thread that ends with the channel or its listener.
fn hear_control<T: Send + 'static>(
    mut reader: ControlReader,
    post: Post<T>,
    wrap: fn(ControlEvent) -> T,
) -> Result<(), Error> {
    spawn("fobs-control", move || {
        loop {
            let event = match reader.recv() {
                Ok(Some(message)) => ControlEvent::Message(message),
                Ok(None) => ControlEvent::Closed(None),
                Err(error) => ControlEvent::Closed(Some(error)),
            };
            let last = matches!(event, ControlEvent::Closed(_));
            if !post.post(wrap(event)) || last {
                return;
            }
        }
    })
    .map(|_| ())
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|error| {
        let message = format!(
            "cannot start a thread: {error}; raise the limit of processes (ulimit -u) or try again later"
        );
        Error::new(ErrorKind::Internal, message)
    })
}

/// The error for a control channel that ended before the transfer did.
fn closed_early(error: Option<Error>) -> Error {
    error.unwrap_or_else(|| {
        Error::new(ErrorKind::Connect, "the other side ended the connection before the transfer was complete; look at what it says there, then try again")
    })
}

/// The error that an `abort` of the peer stands for.
pub(crate) fn aborted(peer: &str, code: &str, message: &str) -> Error {
    Error::new(ErrorKind::from_code(code), format!("{peer}: {}", printable(message, REASON_CHARS_MAX)))
}

/// Tells the peer why this side ends the session. That may fail: the channel may be what broke.
pub(crate) fn tell_abort(writer: &ControlWriter, error: &Error) {
    let _ =
        writer.send(&Message::Abort { code: error.kind.code().to_owned(), message: error.message.clone() });
}
