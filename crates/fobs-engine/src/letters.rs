//! The letters that the engine's threads exchange, and the mailboxes that they wait in. Threads know letters,
//! not each other.

use super::thread::spawn;
use fobs_channel::control::ControlReader;
use fobs_model::error::{Error, ErrorKind};
use fobs_model::message::Message;
use fobs_proto::ChunkId;
use fobs_proto::receiver::ChunkVerification;
use fobs_store::{Closing, FilledChunk, Known, Removal, SinkSummary};
use fobs_sys::{PageBuffer, Waker};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Letters waiting for an engine thread. The thread that reads the control channel waits when the mailbox is
/// full, and so, in the end, does the peer.
pub(super) const MAILBOX_MAX: usize = 256;

/// Where a message of the control channel goes.
pub(super) enum Routed {
    /// To the session's thread.
    Deliver(Message),
    /// It has arrived.
    Taken,
    /// It breaks a rule: the session ends.
    Broken(Error),
}

/// An empty buffer, and how much file data to read into it, bytes. To the reader.
pub(super) struct Grant {
    pub(super) buffer: PageBuffer,
    pub(super) data_max: usize,
}

/// A chunk that is ready to be sent.
pub(super) struct Filled {
    pub(super) buffer: PageBuffer,
    pub chunk: FilledChunk,
    pub(super) known: Known,
    /// The transfer's root, with the final chunk.
    pub(super) root: Option<[u8; 32]>,
    /// Whether the reader waited until the receiver had decided what is next.
    pub(super) waited: bool,
    /// What is to be removed at the end, with the final chunk.
    pub(super) removal: Option<Removal>,
}

/// To the sending thread.
pub(super) enum ToSender {
    Filled(Box<Filled>),
    ReadFailed(Error),
    Control(ControlEvent),
    /// A lane beside the first sends nothing more.
    LaneEnded {
        lane: usize,
        error: Error,
    },
}

/// To the receiving thread.
pub(super) enum ToReceiver {
    Verdict {
        chunk: ChunkId,
        verdict: ChunkVerification,
    },
    Stored {
        chunk: ChunkId,
        buffer: PageBuffer,
    },
    /// The buffer of a chunk that did not verify.
    Returned {
        buffer: PageBuffer,
    },
    StoreFailed(Error),
    Finished(SinkSummary, Closing),
    Control(ControlEvent),
    /// A chunk is complete that came by a lane beside the first, by that lane's number.
    OfLane {
        lane: usize,
        chunk: ChunkId,
        buffer: PageBuffer,
        len: usize,
    },
    /// A lane beside the first receives nothing more.
    LaneEnded {
        lane: usize,
        error: Error,
    },
}

/// An event of the control channel.
#[derive(Debug)]
pub(super) enum ControlEvent {
    /// A message of the peer.
    Message(Message),
    /// The channel is over: cleanly, or with an error.
    Closed(Option<Error>),
}

/// The way into a thread's mailbox: a bounded channel, and the waker that ends the thread's wait for its
/// socket.
pub(super) struct Post<T> {
    sender: SyncSender<T>,
    waker: Waker,
}

impl<T> Clone for Post<T> {
    fn clone(&self) -> Self {
        Post { sender: self.sender.clone(), waker: self.waker.clone() }
    }
}

impl<T> Post<T> {
    pub(super) fn new(waker: Waker) -> (Post<T>, Receiver<T>) {
        Post::with_room(MAILBOX_MAX, waker)
    }

    /// With room for this number of letters.
    pub(super) fn with_room(letters: usize, waker: Waker) -> (Post<T>, Receiver<T>) {
        let (sender, receiver) = sync_channel(letters);
        (Post { sender, waker }, receiver)
    }

    /// Posts an error if the calling thread ends by a panic: the receiving thread would wait for ever.
    pub(super) fn alarm(&self, letter: fn(Error) -> T) -> Alarm<T> {
        Alarm { post: self.clone(), letter }
    }

    /// Posts, and wakes the receiving thread. False once that is gone.
    pub(super) fn post(&self, letter: T) -> bool {
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
pub(super) struct Alarm<T> {
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

/// Forwards the control channel's messages, in a thread that ends with the channel or with the mailbox.
/// `route` sees each message first, and is dropped when the thread has posted its last letter.
pub(super) fn forward_control<T: Send + 'static>(
    mut reader: ControlReader,
    post: Post<T>,
    wrap: fn(ControlEvent) -> T,
    mut route: impl FnMut(Message) -> Routed + Send + 'static,
) -> Result<(), Error> {
    spawn("fobs-control", move || {
        loop {
            let event = match reader.recv() {
                Ok(Some(message)) => match route(message) {
                    Routed::Deliver(message) => ControlEvent::Message(message),
                    Routed::Taken => continue,
                    Routed::Broken(error) => ControlEvent::Closed(Some(error)),
                },
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
