//! What a user changes of a transfer that runs: from any thread to the one that sends, or to the peer's.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fobs_model::steer::Wanted;
use fobs_proto::congestion::Priority;
use fobs_sys::Waker;

/// Changes a transfer while it runs. Clones are of the same transfer.
#[derive(Debug, Clone, Default)]
pub struct Steering(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Changes so far.
    version: AtomicU64,
    wanted: Mutex<Wanted>,
    /// The side that sends knows of none.
    deaf: AtomicBool,
    /// Ends the sleep of the thread that applies changes.
    waker: Mutex<Option<Waker>>,
}

impl Steering {
    /// Of a transfer that has not started.
    pub fn new() -> Steering {
        Steering::default()
    }

    /// The highest sending rate from now on, bits per second of UDP payload; `None` for no limit.
    pub fn set_rate(&self, limit_bps: Option<u64>) {
        self.change(|wanted| wanted.limit_bps = Some(limit_bps.unwrap_or(0)));
    }

    /// How `auto` shares the path from now on.
    pub fn set_priority(&self, priority: Priority) {
        self.change(|wanted| wanted.priority = Some(priority.name().to_owned()));
    }

    /// Sends nothing until [`resume`](Self::resume).
    pub fn pause(&self) {
        self.change(|wanted| wanted.paused = true);
    }

    /// Goes on.
    pub fn resume(&self) {
        self.change(|wanted| wanted.paused = false);
    }

    /// The peer, which sends, does not know of changes.
    pub fn is_in_vain(&self) {
        self.0.deaf.store(true, Ordering::Release);
    }

    /// Nothing that this process does can be changed: the transfer runs on another host.
    pub fn reaches_nobody(&self) {
        self.is_in_vain();
    }

    /// Whether changes reach the side that sends: an older program there knows none.
    pub fn reaches_sender(&self) -> bool {
        !self.0.deaf.load(Ordering::Acquire)
    }

    /// Whether the transfer is paused.
    pub fn is_paused(&self) -> bool {
        self.lock().paused
    }

    /// All that is wanted now: of a peer, which may say anything.
    pub(crate) fn replace(&self, wanted: Wanted) {
        self.change(|old| *old = wanted);
    }

    /// What is wanted, if that changed since `seen`, which becomes the present version.
    pub(super) fn news(&self, seen: &mut u64) -> Option<Wanted> {
        let version = self.0.version.load(Ordering::Acquire);
        if version == *seen {
            return None;
        }
        *seen = version;
        Some(self.lock().clone())
    }

    /// From now on a change wakes this thread.
    pub(super) fn attach(&self, waker: Waker) {
        *self.0.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    fn change(&self, act: impl FnOnce(&mut Wanted)) {
        act(&mut self.lock());
        self.0.version.fetch_add(1, Ordering::Release);
        if let Some(waker) = &*self.0.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Wanted> {
        self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_news_once() {
        let (steering, mut seen) = (Steering::new(), 0);
        assert_eq!(steering.news(&mut seen), None);
        steering.set_rate(Some(5));
        steering.clone().pause();
        let wanted = Wanted { limit_bps: Some(5), paused: true, ..Wanted::default() };
        assert_eq!(steering.news(&mut seen), Some(wanted));
        assert_eq!(steering.news(&mut seen), None);
        steering.set_rate(None);
        steering.resume();
        assert_eq!(steering.news(&mut seen), Some(Wanted { limit_bps: Some(0), ..Wanted::default() }));
    }
}
