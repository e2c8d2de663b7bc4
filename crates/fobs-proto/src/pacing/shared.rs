//! One limit on the rate of several senders, shared by need.
//!
//! They have one pacer at the limit, so that their sum never exceeds it: what one leaves, the next one that
//! asks may use. A sender that is ahead of its equal part starts later by [`HEAD_START`] than the pacer
//! admits, so that those that are behind theirs come first. All must use the same clock.

use super::Pacer;
use crate::{Rate, Timestamp};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How much later a sender ahead of its part may start: a few times what a sleeping thread wakes late (0.1
/// ms), and a quarter of what a pacer makes up for, so that no rate is lost by it.
const HEAD_START: Duration = Duration::from_micros(500);

/// A limit that several senders share. Clones are the same one.
#[derive(Debug, Clone)]
pub struct SharedLimit(Arc<Mutex<Budget>>);

/// One sender's access to a [`SharedLimit`].
#[derive(Debug)]
pub struct LimitShare {
    shared: SharedLimit,
    place: usize,
}

#[derive(Debug)]
struct Budget {
    /// Datagram bytes a second of all together.
    limit: Option<Rate>,
    pacer: Pacer,
    /// For each sender a pacer at its equal part: when it would be admitted if all sent as much as they can.
    parts: Vec<Pacer>,
}

impl SharedLimit {
    /// A limit, in datagram bytes a second, that applies from `now` on; without one nobody waits.
    pub fn new(now: Timestamp, limit: Option<Rate>) -> SharedLimit {
        SharedLimit(Arc::new(Mutex::new(Budget { limit, pacer: Pacer::new(now), parts: Vec::new() })))
    }

    /// From now on this is the limit; nobody waits for what an earlier one allows.
    pub fn set(&self, now: Timestamp, limit: Option<Rate>) {
        let mut budget = self.lock();
        budget.limit = limit;
        budget.pacer.restart(now);
        budget.parts.iter_mut().for_each(|part| part.restart(now));
    }

    /// The present limit.
    pub fn limit(&self) -> Option<Rate> {
        self.lock().limit
    }

    /// The access of another sender.
    pub fn share(&self, now: Timestamp) -> LimitShare {
        let mut budget = self.lock();
        budget.parts.push(Pacer::new(now));
        LimitShare { shared: self.clone(), place: budget.parts.len() - 1 }
    }

    /// What a sender that panicked leaves is whole: at most its burst is not accounted for.
    fn lock(&self) -> MutexGuard<'_, Budget> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LimitShare {
    /// When this sender may send, if not now.
    pub fn wait(&self, now: Timestamp) -> Option<Timestamp> {
        let budget = self.shared.lock();
        budget.limit?;
        let is_ahead = budget.parts.len() > 1 && budget.parts[self.place].next_departure() > now;
        let open = budget.pacer.next_departure();
        Some(if is_ahead { open + HEAD_START } else { open }).filter(|at| *at > now)
    }

    /// No lane waits for what this sender has sent so far, which its path did not take.
    pub fn restart(&self, now: Timestamp) {
        let mut budget = self.shared.lock();
        budget.pacer.restart(now);
        budget.parts[self.place].restart(now);
    }

    /// Accounts for `bytes` that this sender sends at `now`.
    pub fn spend(&self, now: Timestamp, bytes: u64) {
        let mut budget = self.shared.lock();
        let Some(limit) = budget.limit else { return };
        let part = Rate::bytes_per_second((limit.as_bytes() / budget.parts.len().max(1) as u64).max(1));
        budget.pacer.on_sent(now, bytes, limit);
        budget.parts[self.place].on_sent(now, bytes, part);
    }
}

#[cfg(test)]
mod tests;
