//! The ends of a pipe between programs (protocol 2.18), as both sides have them: descriptors that are read
//! and written so that a wait ends when the pipe does.
//!
//! ```text
//!   draw     what comes out of a program, as a source
//!   pour     what goes into a program, as the target of a sink
//!   program  a command and its process group, started outside of a session's walls
//!   join     two clients of a daemon that meet by a name
//!   hearken  the messages of a pipe's channel, and whatever else happens at an end
//!   kept     bytes that can be sent again over another connection
//!   held     a server's end, over all connections
//!   returns  clients that come back to theirs
//! ```

pub(crate) mod draw;
pub(crate) mod hearken;
pub(crate) mod held;
pub mod join;
mod kept;
pub(crate) mod pour;
pub mod program;
pub mod returns;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use fobs_channel::control::ControlChannel;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::PipeEnd;
use fobs_sys::Waker;

/// Branches of a pipe's channel: the client's bytes, those for the client, what a command says beside them.
pub(crate) const BRANCHES: u8 = 3;

/// The branches of a pipe's channel, in their order.
pub(crate) fn branched(channel: &mut ControlChannel) -> Result<[ControlChannel; BRANCHES as usize]> {
    let branches = channel.branch(BRANCHES)?;
    branches.try_into().map_err(|_| Error::internal("a channel made another number of branches"))
}

/// Ends the wait for a descriptor. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    waker: Waker,
    state: Arc<AtomicU8>,
}

/// Why nothing is waited for any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    No,
    /// Nobody wants more: that is an end.
    Enough,
    /// The pipe has failed: nothing may look like an end.
    Failed,
}

impl Stop {
    /// # Errors
    /// `Socket` where the process may open no more files.
    pub(crate) fn new() -> Result<Stop> {
        let waker = Waker::new().map_err(|error| Error::new(ErrorKind::Socket, error.to_string()))?;
        Ok(Stop { waker, state: Arc::default() })
    }

    /// From now on nothing is waited for, because nobody wants it.
    pub(crate) fn enough(&self) {
        self.become_at_least(Stopped::Enough);
    }

    /// From now on nothing is waited for, because the pipe has failed.
    pub(crate) fn fail(&self) {
        self.become_at_least(Stopped::Failed);
    }

    /// Whether it has.
    pub(crate) fn has_failed(&self) -> bool {
        self.state() == Stopped::Failed
    }

    fn become_at_least(&self, state: Stopped) {
        self.state.fetch_max(state as u8, Ordering::SeqCst);
        self.waker.wake();
    }

    fn state(&self) -> Stopped {
        match self.state.load(Ordering::SeqCst) {
            0 => Stopped::No,
            1 => Stopped::Enough,
            _ => Stopped::Failed,
        }
    }
}

/// What a server has at its end of a pipe.
pub struct FarEnd {
    /// Takes what comes from the client.
    pub input: OwnedFd,
    /// Gives what goes to the client.
    pub output: OwnedFd,
    /// Gives what a command says beside that.
    pub errors: Option<OwnedFd>,
    /// What is behind them.
    pub party: Arc<dyn Party>,
}

/// What is behind a server's end of a pipe.
pub trait Party: Send + Sync {
    /// Whether an end of its output was the end of what it had to say.
    ///
    /// # Errors
    /// Why it was not.
    fn spoke_to_end(&self) -> io::Result<()>;

    /// All of the client's bytes were given to it.
    fn has_all(&self);

    /// All that came from it is with the client, or the client wants no more.
    fn is_delivered(&self);

    /// The pipe has failed: its input must not look as if it had ended.
    fn give_up(&self, why: &Error);

    /// Waits until it has ended; how it did.
    ///
    /// # Errors
    /// Why the client's bytes did not all arrive.
    fn wait(&self) -> Result<PipeEnd>;
}
