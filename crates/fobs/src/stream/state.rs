//! What the thread of a stream tells those that use it: a descriptor says neither why it ends nor that its
//! end is one of the data.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::io_error;
use crate::client::pipe::{Piped, Turned};
use fobs_model::error::{Error, ErrorKind, Result};

/// What the other end is told of a stream that is dropped.
pub(super) const GIVEN_UP: &str = "the program gave up its end of the stream before it was finished";
/// What the sender's thread says where the descriptor was closed and the bytes had not ended.
pub(super) const NO_END: &str =
    "the program closed the descriptor of its stream; end the bytes with shutdown";

/// The state of a stream, shared with its thread.
#[derive(Default)]
pub(super) struct StreamState {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    phase: Phase,
    /// Whether the end of what is read is the end of the data.
    received: Received,
    /// Whether the other end still reads.
    reader: Reader,
    written: Written,
    wanted: Wish,
    verified: u64,
    wakers: Vec<Waker>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Opening,
    Open,
    /// The other end is over.
    Over(Result<Box<Piped>>),
}

#[derive(Default, PartialEq, Eq)]
enum Received {
    #[default]
    Some,
    All,
}

#[derive(Default, PartialEq, Eq)]
enum Reader {
    #[default]
    Reads,
    Gone,
}

#[derive(Default, PartialEq, Eq)]
enum Written {
    #[default]
    Some,
    All,
    /// It was given up, because of this: an end of its descriptor is none of the data.
    GivenUp(String),
}

#[derive(Default, PartialEq, Eq)]
enum Wish {
    #[default]
    ToRead,
    NoMore,
}

/// That a descriptor is closed at the other end.
pub(super) struct Lost;

impl Lost {
    /// Whether a write failed so.
    pub(super) fn is_said_by(error: &io::Error) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
        matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
    }
}

impl StreamState {
    /// The other end is there.
    pub(super) fn is_open(&self) {
        self.change(|inner| inner.phase = Phase::Open);
    }

    /// It is over.
    pub(super) fn is_over(&self, outcome: Result<Piped>) {
        self.change(|inner| inner.phase = Phase::Over(outcome.map(Box::new)));
    }

    /// A direction has turned.
    pub(super) fn turned(&self, to: Turned) {
        self.change(|inner| match to {
            Turned::AllReceived => inner.received = Received::All,
            Turned::Unread => inner.reader = Reader::Gone,
        });
    }

    /// The number of bytes that the server has verified.
    pub(super) fn are_verified(&self, bytes: u64) {
        let mut inner = self.inner();
        inner.verified = inner.verified.max(bytes);
    }

    /// Those that were.
    pub(super) fn verified(&self) -> u64 {
        self.inner().verified
    }

    /// Nothing more will be written. What was given up is not all.
    pub(super) fn end_of_writing(&self) {
        self.change(|inner| {
            if inner.written == Written::Some {
                inner.written = Written::All;
            }
        });
    }

    /// The program gives it up; the first reason counts.
    pub(super) fn is_given_up(&self, why: &str) {
        self.change(|inner| {
            if !matches!(inner.written, Written::GivenUp(_)) {
                inner.written = Written::GivenUp(why.to_owned());
            }
        });
    }

    /// Nothing more will be read.
    pub(super) fn end_of_wish(&self) {
        self.change(|inner| inner.wanted = Wish::NoMore);
    }

    /// Whether what the descriptor ended or failed with is the end of the bytes that are sent. One that the
    /// program closes before it has read all fails, whatever was written.
    pub(super) fn ended_writing(&self, ended: io::Result<()>) -> io::Result<()> {
        match (&self.inner().written, ended) {
            (Written::GivenUp(why), _) => Err(io::Error::other(why.clone())),
            (_, Err(error)) if !Lost::is_said_by(&error) => Err(error),
            (Written::All, _) => Ok(()),
            (Written::Some, _) => Err(io::Error::other(NO_END)),
        }
    }

    /// Waits for the other end.
    pub(super) fn opened(&self) -> Result<()> {
        let mut inner = self.inner();
        loop {
            match &inner.phase {
                Phase::Open => return Ok(()),
                // One that was over at once was open.
                Phase::Over(outcome) => return outcome.clone().map(drop),
                Phase::Opening => inner = self.wait(inner),
            }
        }
    }

    /// Waits for the end.
    pub(super) fn outcome(&self) -> Result<Piped> {
        let mut inner = self.inner();
        loop {
            if let Phase::Over(outcome) = &inner.phase {
                return outcome.clone().map(|piped| *piped);
            }
            inner = self.wait(inner);
        }
    }

    pub(super) fn outcome_so_far(&self) -> Option<Result<Piped>> {
        match &self.inner().phase {
            Phase::Over(outcome) => Some(outcome.clone().map(|piped| *piped)),
            Phase::Opening | Phase::Open => None,
        }
    }

    /// The task of `context` is woken at the next change, if there is no outcome yet.
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "for a runtime"))]
    pub(super) fn poll_outcome(&self, context: &mut Context<'_>) -> Poll<Result<Piped>> {
        let mut inner = self.inner();
        match &inner.phase {
            Phase::Over(outcome) => Poll::Ready(outcome.clone().map(|piped| *piped)),
            Phase::Opening | Phase::Open => {
                inner.watch(context);
                Poll::Pending
            }
        }
    }

    /// Likewise, until the other end is there.
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "for a runtime"))]
    pub(super) fn poll_opened(&self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut inner = self.inner();
        match &inner.phase {
            Phase::Open => Poll::Ready(Ok(())),
            Phase::Over(outcome) => Poll::Ready(outcome.clone().map(drop)),
            Phase::Opening => {
                inner.watch(context);
                Poll::Pending
            }
        }
    }

    /// The descriptor has ended: whether that is the end of the data. Where it is none, the thread is about
    /// to say why: it has closed its descriptor as the last but that.
    pub(super) fn end_of_reading(&self) -> io::Result<()> {
        let mut inner = self.inner();
        loop {
            if inner.received == Received::All || inner.wanted == Wish::NoMore {
                return Ok(());
            }
            match &inner.phase {
                Phase::Over(Ok(_)) => return Ok(()),
                Phase::Over(Err(error)) => return Err(io_error(error.clone())),
                Phase::Opening | Phase::Open => inner = self.wait(inner),
            }
        }
    }

    /// Why the descriptor takes no more; likewise.
    pub(super) fn why_nothing_is_read(&self) -> io::Error {
        let mut inner = self.inner();
        loop {
            match (&inner.phase, &inner.reader, &inner.written) {
                (Phase::Over(Err(error)), ..) => return io_error(error.clone()),
                (_, _, Written::All) => {
                    let message = "nothing can be written to a stream whose bytes were ended here";
                    return io::Error::new(io::ErrorKind::BrokenPipe, message);
                }
                (Phase::Over(Ok(_)), ..) | (_, Reader::Gone, _) => {
                    let message = "the other end of the stream reads no more";
                    return io::Error::new(io::ErrorKind::BrokenPipe, message);
                }
                (Phase::Opening | Phase::Open, Reader::Reads, _) => inner = self.wait(inner),
            }
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, inner: MutexGuard<'s, Inner>) -> MutexGuard<'s, Inner> {
        self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner();
        // What is over stays so.
        if matches!(inner.phase, Phase::Over(_)) {
            return;
        }
        change(&mut inner);
        let wakers = std::mem::take(&mut inner.wakers);
        drop(inner);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Inner {
    /// One task for each kind of wait; the same one is kept once.
    fn watch(&mut self, context: &Context<'_>) {
        if !self.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            self.wakers.push(context.waker().clone());
        }
    }
}

/// Ends a stream whose thread panicked.
pub(super) fn failed() -> Error {
    Error::new(ErrorKind::Internal, "the thread of a stream failed; report this bug")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_does_not_become_all_by_an_end() {
        let state = StreamState::default();
        state.is_given_up("the tape is torn");
        // As a program closes what it has just aborted, before the thread has seen either.
        state.end_of_writing();
        state.is_given_up("another reason");
        assert_eq!(state.ended_writing(Ok(())).unwrap_err().to_string(), "the tape is torn");

        let state = StreamState::default();
        state.end_of_writing();
        assert!(state.ended_writing(Ok(())).is_ok());
        state.is_given_up("the tape is torn");
        assert_eq!(state.ended_writing(Ok(())).unwrap_err().to_string(), "the tape is torn");
    }

    #[test]
    fn a_descriptor_that_was_closed_unread_says_what_the_program_did() {
        let reset = || Err(io::ErrorKind::ConnectionReset.into());
        let state = StreamState::default();
        assert_eq!(state.ended_writing(reset()).unwrap_err().to_string(), NO_END);
        state.end_of_writing();
        assert!(state.ended_writing(reset()).is_ok());
        let broken = state.ended_writing(Err(io::ErrorKind::OutOfMemory.into()));
        assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        state.is_given_up(GIVEN_UP);
        assert_eq!(state.ended_writing(reset()).unwrap_err().to_string(), GIVEN_UP);
    }
}
