//! The calls of one session, one after the other: a thread for those that wait, not one for each.

use crate::shared::Shared;
use fobs::{CancelToken, Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What runs a call to its end.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// Calls that wait, and whether a thread runs them. It lives as long as there are any.
#[derive(Default)]
pub(crate) struct Queue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<(Arc<Shared>, Work)>,
    has_thread: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the call run after those before it.
    pub(crate) fn push(self: &Arc<Queue>, shared: Arc<Shared>, work: Work) -> Result<()> {
        let mut state = self.state();
        state.waiting.push_back((shared, work));
        if state.has_thread {
            return Ok(());
        }
        let queue = self.clone();
        match spawn("fobs-session", move || queue.run()) {
            Ok(()) => {
                state.has_thread = true;
                Ok(())
            }
            Err(error) => {
                state.waiting.pop_back();
                Err(error)
            }
        }
    }

    fn run(&self) {
        loop {
            let mut state = self.state();
            let Some((_, work)) = state.waiting.pop_front() else {
                state.has_thread = false;
                return;
            };
            drop(state);
            work();
        }
    }

    /// Ends a call that has not begun.
    pub(crate) fn withdraw(&self, shared: &Arc<Shared>) {
        let mut state = self.state();
        let Some(at) = state.waiting.iter().position(|(other, _)| Arc::ptr_eq(other, shared)) else { return };
        let withdrawn = state.waiting.remove(at);
        drop(state);
        drop(withdrawn);
        let message = "interrupted before it began; nothing was moved";
        shared.end(Err(Error::new(ErrorKind::Interrupted, message)));
    }
}

/// Starts a thread.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    started.map(drop).map_err(|error| {
        let message = format!("cannot start a thread: {error}; raise the limit of processes (ulimit -u)");
        Error::new(ErrorKind::Internal, message)
    })
}

/// Cancels without waiting for what that ends.
pub(crate) fn cancel_aside(token: &CancelToken) {
    let cancelled = token.clone();
    if spawn("fobs-cancel", move || cancelled.cancel()).is_err() {
        token.cancel();
    }
}
