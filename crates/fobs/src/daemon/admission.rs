//! Which sessions run: as many as the daemon and each key allow. Further clients with a known key wait a
//! while, first come first served.

use crate::cancel::CancelToken;
use crate::engine::{SharedRate, Throttle};
use crate::error::{Error, ErrorKind};
use crate::secure::authorized_keys::KeyLimits;
use crate::secure::identity::PublicKey;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most clients with a known key and without a session: each holds a thread and a connection.
pub(super) const WAITING_MAX: usize = 32;
/// Most of them with one key.
const WAITING_PER_KEY_MAX: usize = 8;
/// How often a waiting client's thread looks whether the daemon ends.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The daemon's sessions and the clients that wait for one. Clones are the same.
#[derive(Clone)]
pub(super) struct Admission(Arc<Shared>);

struct Shared {
    sessions_max: usize,
    running: Mutex<Running>,
    changed: Condvar,
}

#[derive(Default)]
struct Running {
    sessions: usize,
    waiting: usize,
    keys: HashMap<PublicKey, KeyUse>,
    /// Clients whose request is known and that wait for a session, first come first.
    queue: VecDeque<Ticket>,
    next_ticket: u64,
    is_closed: bool,
}

/// What the clients of one key hold.
#[derive(Default)]
struct KeyUse {
    sessions: usize,
    waiting: usize,
    rate: Option<Arc<SharedRate>>,
}

struct Ticket {
    number: u64,
    key: PublicKey,
    sessions_max: usize,
}

/// Why there is no session for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// The daemon runs this many.
    Daemon(usize),
    /// The key has this many.
    Key(usize),
    /// Too many clients wait already.
    Queue,
    /// The daemon shuts down.
    Closed,
}

/// What a client with a known key holds until its request is known.
pub(super) enum Arrival {
    Seated(Seat),
    Waiting(Place),
}

/// A running session; dropping it makes room.
pub(super) struct Seat {
    admission: Admission,
    key: PublicKey,
    rate: Option<Arc<SharedRate>>,
}

/// A place among those that wait; dropping it frees the place.
pub(super) struct Place {
    admission: Admission,
    key: PublicKey,
    limits: KeyLimits,
}

impl Admission {
    pub(super) fn new(sessions_max: usize) -> Admission {
        Admission(Arc::new(Shared { sessions_max, running: Mutex::default(), changed: Condvar::new() }))
    }

    /// A session if there is room, else a place to wait for one.
    pub(super) fn arrive(&self, key: &PublicKey, limits: KeyLimits) -> Result<Arrival, Full> {
        let mut running = self.running();
        if running.is_closed {
            return Err(Full::Closed);
        }
        let ticket = Ticket { number: u64::MAX, key: *key, sessions_max: limits.sessions_max() };
        if running.may_enter(&ticket, self.0.sessions_max) {
            return Ok(Arrival::Seated(self.seat(&mut running, key, limits)));
        }
        let waiting_of_key = running.keys.get(key).map_or(0, |held| held.waiting);
        if running.waiting >= WAITING_MAX || waiting_of_key >= WAITING_PER_KEY_MAX {
            return Err(Full::Queue);
        }
        running.waiting += 1;
        running.keys.entry(*key).or_default().waiting += 1;
        Ok(Arrival::Waiting(Place { admission: self.clone(), key: *key, limits }))
    }

    /// Gives no session from now on.
    pub(super) fn close(&self) {
        self.running().is_closed = true;
        self.0.changed.notify_all();
    }

    pub(super) fn sessions(&self) -> usize {
        self.running().sessions
    }

    pub(super) fn waiting(&self) -> usize {
        self.running().waiting
    }

    fn seat(&self, running: &mut Running, key: &PublicKey, limits: KeyLimits) -> Seat {
        running.sessions += 1;
        let held = running.keys.entry(*key).or_default();
        held.sessions += 1;
        let rate = limits.rate_bps.map(|bps| match &held.rate {
            Some(rate) if rate.bits_per_second() == bps => rate.clone(),
            // The file has changed: sessions that run keep their rate.
            _ => Arc::new(SharedRate::new(bps)),
        });
        held.rate.clone_from(&rate);
        Seat { admission: self.clone(), key: *key, rate }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn has_room(&self, ticket: &Ticket, sessions_max: usize) -> bool {
        let held = self.keys.get(&ticket.key).map_or(0, |held| held.sessions);
        self.sessions < sessions_max && held < ticket.sessions_max
    }

    /// Whether there is room that no earlier client in the queue may take.
    fn may_enter(&self, ticket: &Ticket, sessions_max: usize) -> bool {
        let earlier = || self.queue.iter().take_while(|other| other.number < ticket.number);
        self.has_room(ticket, sessions_max) && !earlier().any(|other| self.has_room(other, sessions_max))
    }

    fn forget_if_unused(&mut self, key: &PublicKey) {
        if self.keys.get(key).is_some_and(|held| held.sessions == 0 && held.waiting == 0) {
            self.keys.remove(key);
        }
    }
}

impl Place {
    /// Waits for a session, for `patience` at most.
    pub(super) fn wait(self, patience: Duration, cancel: &CancelToken) -> Result<Seat, Full> {
        let (shared, end) = (&self.admission.0, Instant::now() + patience);
        let mut running = self.admission.running();
        let number = running.next_ticket;
        running.next_ticket += 1;
        let ticket = || Ticket { number, key: self.key, sessions_max: self.limits.sessions_max() };
        running.queue.push_back(ticket());
        let outcome = loop {
            let left = end.saturating_duration_since(Instant::now());
            if running.is_closed || cancel.is_cancelled() {
                break Err(Full::Closed);
            }
            if running.may_enter(&ticket(), shared.sessions_max) {
                break Ok(self.admission.seat(&mut running, &self.key, self.limits));
            }
            if left.is_zero() {
                break Err(match running.sessions < shared.sessions_max {
                    true => Full::Key(self.limits.sessions_max()),
                    false => Full::Daemon(shared.sessions_max),
                });
            }
            let waited = shared.changed.wait_timeout(running, left.min(LOOK_EVERY));
            running = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        running.queue.retain(|other| other.number != number);
        drop(running);
        // It may have held back a later one.
        shared.changed.notify_all();
        outcome
    }
}

impl Seat {
    /// What its session may move at most.
    pub(super) fn throttle(&self) -> Throttle {
        self.rate.clone().map_or_else(Throttle::default, Throttle::of)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut running = self.admission.running();
        running.sessions -= 1;
        if let Some(held) = running.keys.get_mut(&self.key) {
            held.sessions -= 1;
        }
        running.forget_if_unused(&self.key);
        drop(running);
        self.admission.0.changed.notify_all();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut running = self.admission.running();
        running.waiting -= 1;
        if let Some(held) = running.keys.get_mut(&self.key) {
            held.waiting -= 1;
        }
        running.forget_if_unused(&self.key);
    }
}

impl From<Full> for Error {
    fn from(full: Full) -> Error {
        let message = match full {
            Full::Daemon(max) => format!(
                "this server is full: {max} sessions are running, as many as it allows; try again later"
            ),
            Full::Key(max) => format!(
                "this server is full for this key: {max} of its sessions are running, as many as it may have; \
                 try again later"
            ),
            Full::Queue => {
                "this server is full, and too many clients wait already; try again later".to_owned()
            }
            Full::Closed => "this server is shutting down; try again when it is back".to_owned(),
        };
        Error::new(ErrorKind::Connect, message)
    }
}

#[cfg(test)]
mod tests;
