//! Cancellation of transfers and servers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::{Error, ErrorKind, Result};

/// Cancels what it was given to: one transfer, one server, or several of them.
///
/// Clones share one state. Cancelling is final and may be repeated; a cancelled transfer keeps what the same
/// one needs to go on, unless [`no_partial`](crate::options::TransferOptions::no_partial) is set, and ends
/// with [`ErrorKind::Interrupted`], at the latest 0.2 s later unless a file system blocks it.
///
/// ```
/// let token = fobs_model::cancel::CancelToken::new();
/// let other = token.clone();
/// other.cancel();
/// assert!(token.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Shared>);

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    /// Why, where it was not the user's wish; set with the first cancellation.
    reason: OnceLock<Option<Error>>,
    hooks: Mutex<Hooks>,
}

#[derive(Default)]
struct Hooks {
    next: u64,
    pending: BTreeMap<u64, Box<dyn FnOnce() + Send>>,
}

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Cancels everything that holds a clone of this token. May block for up to a second per connection that
    /// is being set up; not async-signal-safe: a signal handler wakes a thread that calls it.
    pub fn cancel(&self) {
        self.cancel_with(None);
    }

    /// [`cancel`](Self::cancel), with the error that everything it ends reports instead of `Interrupted`. The
    /// first cancellation counts.
    pub fn cancel_because(&self, reason: Error) {
        self.cancel_with(Some(reason));
    }

    fn cancel_with(&self, reason: Option<Error>) {
        self.0.reason.get_or_init(|| reason);
        self.0.cancelled.store(true, Ordering::SeqCst);
        let mut hooks = self.hooks();
        // Run under the lock: a dropped hook has either run to its end or never runs.
        while let Some((_, hook)) = hooks.pending.pop_first() {
            hook();
        }
    }

    /// Whether [`cancel`](Self::cancel) was called on this token or a clone.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Fails with `Interrupted`, or the reason that was given, once cancelled.
    pub fn check(&self) -> Result<()> {
        if !self.is_cancelled() {
            return Ok(());
        }
        let interrupted = "interrupted; what was complete is in place";
        let reason = self.0.reason.get().cloned().flatten();
        Err(reason.unwrap_or_else(|| Error::new(ErrorKind::Interrupted, interrupted)))
    }

    /// The error to report for a wait that a hook may have ended: `Interrupted` once cancelled, else `error`.
    pub fn explain(&self, error: Error) -> Error {
        self.check().err().unwrap_or(error)
    }

    /// Runs `act` on cancellation, unless the returned hook is dropped before; at once if already cancelled.
    /// `act` must not touch this token.
    pub fn on_cancel(&self, act: impl FnOnce() + Send + 'static) -> CancelHook {
        let mut hooks = self.hooks();
        let id = hooks.next;
        hooks.next += 1;
        // Under the lock, so that `cancel` either sees the hook or has set the flag before this look.
        if self.is_cancelled() {
            act();
        } else {
            hooks.pending.insert(id, Box::new(act));
        }
        CancelHook { token: self.clone(), id }
    }

    fn hooks(&self) -> MutexGuard<'_, Hooks> {
        self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CancelToken(cancelled: {})", self.is_cancelled())
    }
}

/// An action that waits for cancellation. Dropping it withdraws the action.
#[derive(Debug)]
pub struct CancelHook {
    token: CancelToken,
    id: u64,
}

impl Drop for CancelHook {
    fn drop(&mut self) {
        self.token.hooks().pending.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn counter() -> (Arc<AtomicU32>, impl Fn() + Send + Clone + 'static) {
        let count = Arc::new(AtomicU32::new(0));
        let counted = count.clone();
        (count, move || {
            counted.fetch_add(1, Ordering::SeqCst);
        })
    }

    #[test]
    fn a_hook_runs_once_and_only_while_it_is_held() {
        let token = CancelToken::new();
        let (count, count_up) = counter();
        let held = token.on_cancel(count_up.clone());
        drop(token.on_cancel(count_up.clone()));
        assert_eq!(count.load(Ordering::SeqCst), 0);
        token.cancel();
        token.cancel();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        drop(held);
        let _late = token.on_cancel(count_up);
        assert_eq!(count.load(Ordering::SeqCst), 2, "a hook of a cancelled token runs at once");
    }

    #[test]
    fn an_error_is_explained_by_the_cancellation() {
        let token = CancelToken::new();
        let broken = || Error::new(ErrorKind::Connect, "broken");
        assert_eq!(token.explain(broken()), broken());
        assert_eq!(token.check(), Ok(()));
        token.clone().cancel();
        assert_eq!(token.explain(broken()).kind, ErrorKind::Interrupted);
        assert_eq!(CancelToken::new().check(), Ok(()), "another token is its own");
        let restarted = CancelToken::new();
        restarted.cancel_because(broken());
        restarted.cancel();
        assert_eq!(restarted.check(), Err(broken()), "the first reason stays");
    }
}
