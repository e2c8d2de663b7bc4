//! Connections that rest between two transfers. They hold no seat; their places are bounded, and a new one
//! takes that of the one that has rested longest: its client connects again when it has something to do.

use fobs::server::StillThere;
use fobs_channel::secure::identity::PublicKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most of them: each holds a thread and a connection.
pub(super) const IDLE_MAX: usize = 64;
/// Most of one key: a program of several threads, each with a session of its own.
const IDLE_PER_KEY_MAX: usize = 16;

/// The places. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Idle(Arc<Mutex<Pool>>);

#[derive(Default)]
struct Pool {
    next: u64,
    is_closed: bool,
    /// In the order in which they came to rest.
    resting: BTreeMap<u64, Resting>,
}

struct Resting {
    key: PublicKey,
    hang_up: Box<dyn FnOnce() + Send>,
}

/// A place. Dropping it frees it.
pub(super) struct Place {
    idle: Idle,
    id: u64,
}

impl Idle {
    /// A place for a connection, which `hang_up` ends; `None` once closed.
    pub(super) fn rest(&self, key: PublicKey, hang_up: Box<dyn FnOnce() + Send>) -> Option<Place> {
        let mut pool = self.pool();
        if pool.is_closed {
            return None;
        }
        let of_key = pool.resting.values().filter(|resting| resting.key == key).count();
        let mut crowded = None;
        if of_key >= IDLE_PER_KEY_MAX {
            let oldest = pool.resting.iter().find(|(_, resting)| resting.key == key);
            crowded = oldest.map(|(id, _)| *id);
        } else if pool.resting.len() >= IDLE_MAX {
            crowded = pool.resting.keys().next().copied();
        }
        if let Some(resting) = crowded.and_then(|id| pool.resting.remove(&id)) {
            (resting.hang_up)();
        }
        let id = pool.next;
        pool.next += 1;
        pool.resting.insert(id, Resting { key, hang_up });
        Some(Place { idle: self.clone(), id })
    }

    /// Ends those that rest, and lets none rest from now on.
    pub(super) fn close(&self) {
        let mut pool = self.pool();
        pool.is_closed = true;
        std::mem::take(&mut pool.resting).into_values().for_each(|resting| (resting.hang_up)());
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Leaves it: from here on nothing hangs up.
    pub(super) fn leave(self) -> StillThere {
        match self.idle.pool().resting.remove(&self.id) {
            Some(_) => StillThere::Yes,
            None => StillThere::No,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.idle.pool().resting.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_channel::secure::identity::Identity;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn key() -> PublicKey {
        Identity::generate().public()
    }

    /// Comes to rest; the number of those hung up is counted.
    fn rest(idle: &Idle, key: PublicKey, hung_up: &Arc<AtomicUsize>) -> Option<Place> {
        let hung_up = hung_up.clone();
        let hang_up = move || {
            hung_up.fetch_add(1, Ordering::SeqCst);
        };
        idle.rest(key, Box::new(hang_up))
    }

    #[test]
    fn a_key_and_all_keys_have_a_bounded_number_of_places() {
        let (idle, hung_up, busy) = (Idle::default(), Arc::default(), key());
        let places: Vec<_> = (0..=IDLE_PER_KEY_MAX).map(|_| rest(&idle, busy, &hung_up)).collect();
        assert_eq!(hung_up.load(Ordering::SeqCst), 1, "the oldest of its own");
        let mut places: Vec<_> = places.into_iter().flatten().collect();
        let newest = places.pop().unwrap();
        assert_eq!(places.remove(0).leave(), StillThere::No);
        assert_eq!(newest.leave(), StillThere::Yes);
        places.extend(rest(&idle, busy, &hung_up));
        places.extend((0..IDLE_MAX - IDLE_PER_KEY_MAX).filter_map(|_| rest(&idle, key(), &hung_up)));
        assert_eq!(hung_up.load(Ordering::SeqCst), 1);
        places.extend(rest(&idle, key(), &hung_up));
        assert_eq!((hung_up.load(Ordering::SeqCst), idle.pool().resting.len()), (2, IDLE_MAX));
        drop(places);
        assert!(idle.pool().resting.is_empty());
    }

    #[test]
    fn closing_ends_those_that_rest_and_takes_no_more() {
        let (idle, hung_up) = (Idle::default(), Arc::default());
        let _places = [rest(&idle, key(), &hung_up), rest(&idle, key(), &hung_up)];
        idle.close();
        assert_eq!(hung_up.load(Ordering::SeqCst), 2);
        assert!(rest(&idle, key(), &hung_up).is_none());
    }
}
