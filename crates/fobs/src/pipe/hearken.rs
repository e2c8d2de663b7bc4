//! What happens at an end of a pipe, as one row: the messages of its channel, the two objects, the program.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use fobs_channel::control::{ControlChannel, ControlReader, ControlWriter};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{Message, PipeEnd, PipeNews};
use fobs_sys::confine;

/// Happenings that wait for the end's thread. One more waits where it happens, and so, in the end, does the
/// peer.
const WAITING_MAX: usize = 64;
/// How often the thread of an end looks whether it is cancelled, and says what has arrived.
const TURN: Duration = Duration::from_millis(100);

/// How often each end of a pipe that outlives its connection is heard at least.
const SAID_EVERY: Duration = Duration::from_secs(5);
/// Silence after which such a connection is taken for dead: five that did not come, and a slow path.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How much later than its branches a channel may be seen to be over.
const CLOSES_WITHIN: Duration = Duration::from_secs(2);

/// Something that has happened.
#[derive(Debug)]
pub(crate) enum Happening {
    /// The other side says so.
    Heard(PipeNews),
    /// Likewise, a sentence for the user.
    Told(String),
    /// The channel is over, perhaps with a reason.
    Closed(Option<Error>),
    /// The other side has ended the pipe, and says why.
    GaveUp(Error),
    /// The client has come back over another connection.
    Superseded,
    /// The object that this side sends is moved: its bytes.
    Sent(Result<u64>),
    /// The object that this side receives is moved: its bytes.
    Received(Result<u64>),
    /// Much of what is received was written, or nobody reads it.
    Poured,
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

    /// The next one, if one comes within [`TURN`].
    ///
    /// # Errors
    /// Why the pipe is cancelled.
    pub(crate) fn next(&self, cancel: &CancelToken) -> Result<Option<Happening>> {
        cancel.check()?;
        match self.0.recv_timeout(TURN) {
            Ok(happening) => Ok(Some(happening)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::internal("nothing can happen at this end of a pipe; report this bug"))
            }
        }
    }

    /// What an object that failed means. Its connection is broken if its channel is over: another one would
    /// not mend what failed otherwise, such as an address that is not reached.
    pub(crate) fn cut_by(&self, error: Error, objects: &mut Objects) -> Cut {
        if !matches!(error.kind, ErrorKind::Connect | ErrorKind::Ssh) {
            return Cut::Failed(error);
        }
        let until = Instant::now() + CLOSES_WITHIN;
        loop {
            match self.last(until.saturating_duration_since(Instant::now())) {
                Some(Happening::Closed(_) | Happening::Superseded) => return Cut::Broken(error),
                Some(Happening::GaveUp(said)) => return Cut::Failed(said),
                Some(Happening::Sent(_)) => objects.sent = Part::Over,
                Some(Happening::Received(_)) => objects.received = Part::Over,
                Some(_) => {}
                None => return Cut::Failed(error),
            }
        }
    }

    /// Whether the other side says within this time that it has read the end.
    pub(crate) fn is_read(&self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        loop {
            match self.last(until.saturating_duration_since(Instant::now())) {
                Some(Happening::Heard(PipeNews::Read)) => return true,
                None | Some(Happening::Closed(_) | Happening::GaveUp(_) | Happening::Superseded) => {
                    return false;
                }
                Some(_) => {}
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
                    Some(error) => Happening::GaveUp(error),
                    // Of a newer version.
                    None => continue,
                },
                Ok(None) => Happening::Closed(None),
                Err(error) => Happening::Closed(Some(error)),
            };
            let is_last = matches!(happening, Happening::Closed(_) | Happening::GaveUp(_));
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

/// Why a connection is over before its pipe is.
#[derive(Debug)]
pub(crate) enum Cut {
    /// It broke: another one may go on.
    Broken(Error),
    /// The pipe has failed.
    Failed(Error),
}

/// Something of a connection, or why that is over.
pub(crate) type OrCut<T> = std::result::Result<T, Cut>;

impl Cut {
    pub(crate) fn error(&self) -> &Error {
        match self {
            Cut::Broken(error) | Cut::Failed(error) => error,
        }
    }
}

/// What is said of what has arrived, and when.
pub(crate) struct Receipts {
    writer: ControlWriter,
    said: (u64, u64),
    at: Instant,
}

impl Receipts {
    pub(crate) fn new(writer: ControlWriter) -> Receipts {
        Receipts { writer, said: (0, 0), at: Instant::now() }
    }

    /// Says what is new of these bytes; at times also that nothing is, so that a connection which died in
    /// silence is found out.
    pub(crate) fn say(&mut self, bytes: u64, errors: u64) -> OrCut<()> {
        if self.said == (bytes, errors) && self.at.elapsed() < SAID_EVERY {
            return Ok(());
        }
        (self.said, self.at) = ((bytes, errors), Instant::now());
        let news = Message::PipeNews(PipeNews::Has { bytes, errors });
        self.writer.post(&news).map_err(Cut::Broken)
    }
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

    /// Waits until those that are left have ended, whatever how, for `wait` at most. Why the other side ended
    /// the pipe, if it has said it meanwhile.
    pub(crate) fn end(mut self, row: &Happenings, wait: Duration) -> Option<Error> {
        let until = Instant::now() + wait;
        let mut said = None;
        while (self.sent, self.received) != (Part::Over, Part::Over) {
            match row.last(until.saturating_duration_since(Instant::now())) {
                Some(Happening::Received(_)) => self.received = Part::Over,
                Some(Happening::Sent(_)) => self.sent = Part::Over,
                Some(Happening::GaveUp(error)) => said = Some(error),
                Some(_) => {}
                None => break,
            }
        }
        said
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
