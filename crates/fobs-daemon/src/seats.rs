//! Limits on simultaneous connections and sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A bounded number of seats. Dropping a seat frees it, in a thread that panics too.
pub(super) struct Seats {
    taken: Arc<AtomicUsize>,
    max: usize,
}

pub(super) struct Seat(Arc<AtomicUsize>);

impl Seats {
    pub(super) fn new(max: usize) -> Seats {
        Seats { taken: Arc::new(AtomicUsize::new(0)), max }
    }

    pub(super) fn take(&self) -> Option<Seat> {
        let room = |taken| (taken < self.max).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, room);
        taken.ok().map(|_| Seat(self.taken.clone()))
    }

    pub(super) fn are_free(&self) -> bool {
        self.taken.load(Ordering::SeqCst) == 0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
