//! One thing that several threads use one after the other.

use fobs_model::cancel::CancelToken;
use fobs_model::error::Result;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a thread that waits looks whether it is cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Lets one thread in at a time, in the order of their coming, and one that waits out when it is cancelled.
pub(super) struct Turnstile<T> {
    state: Mutex<Waiting<T>>,
}

struct Waiting<T> {
    /// `None` while a thread has it.
    thing: Option<T>,
    next: u64,
    /// Who waits, first come first.
    queue: VecDeque<(u64, Purpose, Arc<Condvar>)>,
    /// What the thread that has it does.
    purpose: Purpose,
}

/// What the thing is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Something that takes as long as its bytes.
    Transfer,
    /// A round trip or two.
    Request,
}

/// The thing, until the guard is dropped.
pub(super) struct Turn<'t, T> {
    turnstile: &'t Turnstile<T>,
    thing: Option<T>,
}

impl<T> Turnstile<T> {
    pub(super) fn new(thing: T) -> Turnstile<T> {
        let state =
            Waiting { thing: Some(thing), next: 0, queue: VecDeque::new(), purpose: Purpose::Request };
        Turnstile { state: Mutex::new(state) }
    }

    /// Waits for a turn. `Interrupted` where `cancel` ends the wait.
    pub fn enter(&self, cancel: &CancelToken, purpose: Purpose) -> Result<Turn<'_, T>> {
        self.wait(self.state(), cancel, purpose)
    }

    /// Waits for a turn for a request; `None` where a transfer has the turn, or comes before.
    pub(super) fn enter_unless_transfer(&self, cancel: &CancelToken) -> Result<Option<Turn<'_, T>>> {
        let state = self.state();
        let runs = state.thing.is_none() && state.purpose == Purpose::Transfer;
        if runs || state.queue.iter().any(|(_, purpose, _)| *purpose == Purpose::Transfer) {
            return Ok(None);
        }
        self.wait(state, cancel, Purpose::Request).map(Some)
    }

    fn wait(
        &self,
        mut state: MutexGuard<'_, Waiting<T>>,
        cancel: &CancelToken,
        purpose: Purpose,
    ) -> Result<Turn<'_, T>> {
        let number = state.next;
        state.next += 1;
        // Each waits for a signal of its own: a turn wakes one thread, not all.
        let called = Arc::new(Condvar::new());
        state.queue.push_back((number, purpose, called.clone()));
        let thing = loop {
            if let Err(error) = cancel.check() {
                break Err(error);
            }
            if state.queue.front().is_some_and(|(first, ..)| *first == number)
                && let Some(thing) = state.thing.take()
            {
                state.purpose = purpose;
                break Ok(thing);
            }
            let waited = called.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        state.queue.retain(|(other, ..)| *other != number);
        // One that was cancelled may have held back the next one.
        state.call_next();
        drop(state);
        Ok(Turn { turnstile: self, thing: Some(thing?) })
    }

    fn state(&self) -> MutexGuard<'_, Waiting<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Waiting<T> {
    fn call_next(&self) {
        if let (true, Some((.., called))) = (self.thing.is_some(), self.queue.front()) {
            called.notify_one();
        }
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.thing.as_ref().expect("held until the guard is dropped")
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.thing.as_mut().expect("held until the guard is dropped")
    }
}

impl<T> Drop for Turn<'_, T> {
    /// In a panic, too: a thread that waits must not wait for ever.
    fn drop(&mut self) {
        let mut state = self.turnstile.state();
        state.thing = self.thing.take();
        state.call_next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_model::error::ErrorKind;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn threads_take_turns_and_none_is_lost() {
        let turnstile = Turnstile::new(0_u32);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..50)
                        .for_each(|_| *turnstile.enter(&CancelToken::new(), Purpose::Transfer).unwrap() += 1)
                });
            }
        });
        assert_eq!(*turnstile.enter(&CancelToken::new(), Purpose::Transfer).unwrap(), 200);
    }

    #[test]
    fn a_wait_is_cancelled_and_holds_nobody_back() {
        let turnstile = Turnstile::new(());
        let held = turnstile.enter(&CancelToken::new(), Purpose::Transfer).unwrap();
        let cancel = CancelToken::new();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turnstile.enter(&cancel, Purpose::Transfer).map(drop));
            let next = scope.spawn(|| turnstile.enter(&CancelToken::new(), Purpose::Transfer).map(drop));
            cancel.cancel();
            assert_eq!(waiting.join().unwrap().unwrap_err().kind, ErrorKind::Interrupted);
            drop(held);
            next.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_panic_gives_the_turn_back() {
        let turnstile = Turnstile::new(7);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _turn = turnstile.enter(&CancelToken::new(), Purpose::Transfer);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(*turnstile.enter(&CancelToken::new(), Purpose::Transfer).unwrap(), 7);
    }

    #[test]
    fn a_request_does_not_wait_for_a_transfer() {
        let turnstile = Turnstile::new(());
        let cancel = CancelToken::new();
        let running = turnstile.enter(&cancel, Purpose::Transfer).unwrap();
        assert!(turnstile.enter_unless_transfer(&cancel).unwrap().is_none());
        drop(running);
        let asking = turnstile.enter_unless_transfer(&cancel).unwrap();
        assert!(asking.is_some(), "and has the turn where none runs");
        std::thread::scope(|scope| {
            let next = scope.spawn(|| turnstile.enter_unless_transfer(&cancel).map(|turn| turn.is_some()));
            drop(asking);
            assert!(next.join().unwrap().unwrap(), "another request is waited for");
        });
    }
}
