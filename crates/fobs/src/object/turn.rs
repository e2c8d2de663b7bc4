//! One thing that several threads use one after the other.

use crate::cancel::CancelToken;
use crate::error::Result;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a thread that waits looks whether it is cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Lets one thread in at a time, in the order of their coming, and one that waits out when it is cancelled.
pub(super) struct Turnstile<T> {
    state: Mutex<Waiting<T>>,
    changed: Condvar,
}

struct Waiting<T> {
    /// `None` while a thread has it.
    thing: Option<T>,
    next: u64,
    /// Who waits, first come first.
    queue: std::collections::VecDeque<u64>,
}

/// The thing, until the guard is dropped.
pub(super) struct Turn<'t, T> {
    turnstile: &'t Turnstile<T>,
    thing: Option<T>,
}

impl<T> Turnstile<T> {
    pub(super) fn new(thing: T) -> Turnstile<T> {
        let state = Waiting { thing: Some(thing), next: 0, queue: std::collections::VecDeque::new() };
        Turnstile { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for a turn. `Interrupted` where `cancel` ends the wait.
    pub(super) fn enter(&self, cancel: &CancelToken) -> Result<Turn<'_, T>> {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.queue.push_back(number);
        let thing = loop {
            if let Err(error) = cancel.check() {
                break Err(error);
            }
            if state.queue.front() == Some(&number)
                && let Some(thing) = state.thing.take()
            {
                break Ok(thing);
            }
            let waited = self.changed.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        state.queue.retain(|other| *other != number);
        drop(state);
        // It may have held back the next one.
        self.changed.notify_all();
        Ok(Turn { turnstile: self, thing: Some(thing?) })
    }

    fn state(&self) -> MutexGuard<'_, Waiting<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.turnstile.state().thing = self.thing.take();
        self.turnstile.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn threads_take_turns_and_none_is_lost() {
        let turnstile = Turnstile::new(0_u32);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| *turnstile.enter(&CancelToken::new()).unwrap() += 1));
            }
        });
        assert_eq!(*turnstile.enter(&CancelToken::new()).unwrap(), 200);
    }

    #[test]
    fn a_wait_is_cancelled_and_holds_nobody_back() {
        let turnstile = Turnstile::new(());
        let held = turnstile.enter(&CancelToken::new()).unwrap();
        let cancel = CancelToken::new();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turnstile.enter(&cancel).map(drop));
            let next = scope.spawn(|| turnstile.enter(&CancelToken::new()).map(drop));
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
            let _turn = turnstile.enter(&CancelToken::new());
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(*turnstile.enter(&CancelToken::new()).unwrap(), 7);
    }
}
