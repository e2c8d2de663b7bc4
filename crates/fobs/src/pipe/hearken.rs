//! What happens at an end of a pipe, as one row: the messages of its channel, the two objects, the program.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use fobs_channel::control::{ControlChannel, ControlReader};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{Message, PipeEnd, PipeNews};
use fobs_sys::confine;

/// Happenings that wait for the end's thread. One more waits where it happens, and so, in the end, does the
/// peer.
const WAITING_MAX: usize = 64;
/// How often the thread of an end looks whether it is cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(100);

/// Something that has happened.
#[derive(Debug)]
pub(crate) enum Happening {
    /// The other side says so.
    Heard(PipeNews),
    /// Likewise, a sentence for the user.
    Told(String),
    /// The channel is over, perhaps with a reason.
    Closed(Option<Error>),
    /// The object that this side sends is moved: its bytes.
    Sent(Result<u64>),
    /// The object that this side receives is moved: its bytes.
    Received(Result<u64>),
    /// Nobody reads what is received any more.
    Unread,
    /// What a command says beside its output has ended.
    ErrorsEnded,
    /// The program has ended.
    Exited(Result<PipeEnd>),
}

/// Where happenings come from. Clones are the same.
pub(crate) type Bell = SyncSender<Happening>;

/// The row.
pub(crate) struct Happenings(Receiver<Happening>);

impl Happenings {
    pub(crate) fn new() -> (Bell, Happenings) {
        let (bell, happenings) = sync_channel(WAITING_MAX);
        (bell, Happenings(happenings))
    }

    /// The next one.
    ///
    /// # Errors
    /// Why the pipe is cancelled.
    pub(crate) fn next(&self, cancel: &CancelToken) -> Result<Happening> {
        loop {
            cancel.check()?;
            match self.0.recv_timeout(CANCEL_POLL) {
                Ok(happening) => return Ok(happening),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::internal("nothing can happen at this end of a pipe; report this bug"));
                }
            }
        }
    }

    /// The next one, of a pipe that ends whatever it is; `None` where none comes in this time.
    pub(crate) fn last(&self, wait: Duration) -> Option<Happening> {
        self.0.recv_timeout(wait).ok()
    }
}

/// Hears the channel of a pipe in a thread of its own, which ends with the channel: that also brings what
/// comes on its branches.
///
/// # Errors
/// `Internal` where no thread can be started.
pub(crate) fn hearken(mut reader: ControlReader, peer: String, bell: Bell) -> Result<()> {
    let listen = move || {
        loop {
            let happening = match reader.recv() {
                Ok(Some(Message::PipeNews(news))) => Happening::Heard(news),
                Ok(Some(Message::Notice { text })) => Happening::Told(text),
                Ok(Some(other)) => match fobs_engine::aborted(&peer, &other) {
                    Some(error) => Happening::Closed(Some(error)),
                    // Of a newer version.
                    None => continue,
                },
                Ok(None) => Happening::Closed(None),
                Err(error) => Happening::Closed(Some(error)),
            };
            let is_last = matches!(happening, Happening::Closed(_));
            if bell.send(happening).is_err() || is_last {
                return;
            }
        }
    };
    confine::spawn("fobs-pipe", listen).map(drop).map_err(Error::internal)
}

/// What is said of a failure. Of one that the user wished nothing is in place.
pub(crate) fn said(why: &Error) -> &str {
    if why.kind == ErrorKind::Interrupted { "interrupted" } else { &why.message }
}

/// The error of a channel that is over before the pipe is.
pub(crate) fn closed_early(why: Option<Error>) -> Error {
    why.unwrap_or_else(|| {
        let message =
            "the other side ended the connection before the pipe was over; look at what it says there";
        Error::new(ErrorKind::Connect, message)
    })
}

/// Whether a part of a pipe is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Open,
    Over,
}

/// The two objects of a pipe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Objects {
    pub(crate) sent: Part,
    pub(crate) received: Part,
}

impl Objects {
    /// Both are moving.
    pub(crate) fn begin() -> Objects {
        Objects { sent: Part::Open, received: Part::Open }
    }

    /// Waits until those that are left have ended, whatever how, for `wait` at most.
    pub(crate) fn end(mut self, row: &Happenings, wait: Duration) {
        let until = Instant::now() + wait;
        while (self.sent, self.received) != (Part::Over, Part::Over) {
            match row.last(until.saturating_duration_since(Instant::now())) {
                Some(Happening::Received(_)) => self.received = Part::Over,
                Some(Happening::Sent(_)) => self.sent = Part::Over,
                Some(_) => {}
                None => return,
            }
        }
    }
}

/// Tells how an object ended, also where its thread panicked.
pub(crate) struct Told {
    pub(crate) bell: Bell,
    pub(crate) tell: fn(Result<u64>) -> Happening,
    pub(crate) outcome: Option<Result<u64>>,
}

impl Drop for Told {
    fn drop(&mut self) {
        let failed = || Err(Error::internal("the thread of a pipe failed; report this bug"));
        let outcome = self.outcome.take().unwrap_or_else(failed);
        // The pipe may have been given up.
        let _ = self.bell.send((self.tell)(outcome));
    }
}

/// The next message of a branch; nothing bounds how long a command says nothing.
pub(crate) fn next_of(channel: &mut ControlChannel) -> Result<Option<Message>> {
    channel.reader.recv()
}
