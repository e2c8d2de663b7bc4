//! Which sessions run: as many as the daemon and each key allow. Further clients with a known key wait a
//! while; the next session is for the key that runs the fewest, and of that key for the client that came
//! first.

use fobs_channel::secure::authorized_keys::KeyLimits;
use fobs_channel::secure::identity::PublicKey;
use fobs_engine::{SharedRate, Throttle};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Busy, Error, ErrorKind};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most clients with a known key and without a session: each holds a thread and a connection.
pub(super) const WAITING_MAX: usize = 1024;
/// Most of them with one key: the jobs of an array, which share one.
const WAITING_PER_KEY_MAX: usize = 512;
/// How long a client is remembered that was told that the daemon is full: a client tries again within 6 s.
const REMEMBERED_FOR: Duration = Duration::from_secs(30);
/// Most clients that are remembered; with more, the one that was told the longest ago is forgotten.
const REMEMBERED_MAX: usize = 4096;

/// The daemon's sessions and the clients that wait for one. Clones are the same.
#[derive(Clone)]
pub(super) struct Admission(Arc<Shared>);

struct Shared {
    sessions_max: usize,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    sessions: usize,
    waiting: usize,
    keys: HashMap<PublicKey, KeyUse>,
    /// Clients whose request is known and that wait for a session. None of them could have one, for that is
    /// handed out at once.
    queue: Vec<Ticket>,
    next_ticket: u64,
    /// Clients that were told that there is no room, and may come again.
    remembered: HashMap<Transfer, Remembered>,
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
    /// In the order in which clients came first.
    number: u64,
    key: PublicKey,
    sessions_max: usize,
    turn: Turn,
    wake: Arc<Condvar>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Waits,
    /// A session is counted as its own.
    Has,
}

/// A transfer of a client, which has the same number when it comes again.
type Transfer = (PublicKey, [u8; 16]);

struct Remembered {
    number: u64,
    told: Instant,
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
        Admission(Arc::new(Shared { sessions_max, running: Mutex::default() }))
    }

    /// A session if there is room, else a place to wait for one.
    pub(super) fn arrive(&self, key: &PublicKey, limits: KeyLimits) -> Result<Arrival, Full> {
        let mut running = self.running();
        if running.is_closed {
            return Err(Full::Closed);
        }
        if running.has_room(key, limits.sessions_max(), self.0.sessions_max) {
            running.count(key);
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

    /// A client is told that too many wait already: when it comes again, it came first now.
    pub(super) fn remember(&self, transfer: Transfer) {
        let mut running = self.running();
        let number = running.number_of(Some(&transfer));
        running.remember(transfer, number, Instant::now());
    }

    /// Gives no session from now on.
    pub(super) fn close(&self) {
        let mut running = self.running();
        running.is_closed = true;
        running.queue.iter().for_each(|ticket| ticket.wake.notify_all());
    }

    pub(super) fn sessions(&self) -> usize {
        self.running().sessions
    }

    pub(super) fn waiting(&self) -> usize {
        self.running().waiting
    }

    /// The seat of a session that is counted.
    fn seat(&self, running: &mut Running, key: &PublicKey, limits: KeyLimits) -> Seat {
        let held = running.keys.entry(*key).or_default();
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
    fn sessions_of(&self, key: &PublicKey) -> usize {
        self.keys.get(key).map_or(0, |held| held.sessions)
    }

    fn has_room(&self, key: &PublicKey, key_max: usize, sessions_max: usize) -> bool {
        self.sessions < sessions_max && self.sessions_of(key) < key_max
    }

    /// One more session of a key.
    fn count(&mut self, key: &PublicKey) {
        self.sessions += 1;
        self.keys.entry(*key).or_default().sessions += 1;
    }

    /// One session less, which another client may have now.
    fn discount(&mut self, key: &PublicKey, sessions_max: usize) {
        self.sessions -= 1;
        if let Some(held) = self.keys.get_mut(key) {
            held.sessions -= 1;
        }
        self.forget_if_unused(key);
        self.hand_out(sessions_max);
    }

    /// Gives sessions to those that wait, as far as there is room.
    fn hand_out(&mut self, sessions_max: usize) {
        loop {
            let may = |ticket: &&Ticket| {
                ticket.turn == Turn::Waits && self.has_room(&ticket.key, ticket.sessions_max, sessions_max)
            };
            let order = |ticket: &&Ticket| (self.sessions_of(&ticket.key), ticket.number);
            let Some(number) = self.queue.iter().filter(may).min_by_key(order).map(|it| it.number) else {
                return;
            };
            let Some(ticket) = self.queue.iter_mut().find(|it| it.number == number) else { return };
            ticket.turn = Turn::Has;
            ticket.wake.notify_all();
            let key = ticket.key;
            self.count(&key);
        }
    }

    fn turn_of(&self, number: u64) -> Turn {
        let ticket = self.queue.iter().find(|ticket| ticket.number == number);
        ticket.map_or(Turn::Waits, |ticket| ticket.turn)
    }

    /// The number of a client: the one that it had, if it comes again.
    fn number_of(&mut self, transfer: Option<&Transfer>) -> u64 {
        if let Some(before) = transfer.and_then(|transfer| self.remembered.remove(transfer)) {
            return before.number;
        }
        self.next_ticket += 1;
        self.next_ticket
    }

    fn remember(&mut self, transfer: Transfer, number: u64, now: Instant) {
        self.remembered.retain(|_, before| now.saturating_duration_since(before.told) < REMEMBERED_FOR);
        if self.remembered.len() >= REMEMBERED_MAX
            && let Some(oldest) =
                self.remembered.iter().min_by_key(|(_, before)| before.told).map(|(it, _)| *it)
        {
            self.remembered.remove(&oldest);
        }
        self.remembered.insert(transfer, Remembered { number, told: now });
    }

    fn forget_if_unused(&mut self, key: &PublicKey) {
        if self.keys.get(key).is_some_and(|held| held.sessions == 0 && held.waiting == 0) {
            self.keys.remove(key);
        }
    }
}

fn all_taken(sessions: usize, of: &str) -> String {
    match sessions {
        1 => format!("the one session {of} is taken"),
        sessions => format!("all {sessions} sessions {of} are taken"),
    }
}

impl Place {
    /// What a client is told that has to wait.
    pub(super) fn describe(&self, patience: Duration) -> String {
        let (running, max) = (self.admission.running(), self.admission.0.sessions_max);
        let of_key = running.keys.get(&self.key).map_or(0, |held| held.sessions);
        let ahead = running.queue.len();
        let full = if running.sessions >= max {
            all_taken(max, "of the server")
        } else {
            all_taken(of_key, "that this key may have")
        };
        let seconds = patience.as_secs();
        let behind = match ahead {
            0 => String::new(),
            1 => ", behind another client".to_owned(),
            ahead => format!(", behind {ahead} others"),
        };
        format!("{full}: waiting for one for up to {seconds} s{behind}")
    }

    /// Waits for a session, for `patience` at most. A client that comes again with the same `transfer` keeps
    /// its place in the order.
    pub(super) fn wait(
        self,
        transfer: Option<[u8; 16]>,
        patience: Duration,
        cancel: &CancelToken,
    ) -> Result<Seat, Full> {
        let (admission, end) = (&self.admission, Instant::now() + patience);
        let (sessions_max, key_max) = (admission.0.sessions_max, self.limits.sessions_max());
        let transfer = transfer.map(|id| (self.key, id));
        let wake = Arc::new(Condvar::new());
        let _hook = cancel.on_cancel({
            let (admission, wake) = (admission.clone(), wake.clone());
            move || {
                // Under the lock, so that the wait has begun or sees the cancellation.
                let _running = admission.running();
                wake.notify_all();
            }
        });
        let mut running = admission.running();
        let number = running.number_of(transfer.as_ref());
        let (turn, key) = (Turn::Waits, self.key);
        running.queue.push(Ticket { number, key, sessions_max: key_max, turn, wake: wake.clone() });
        running.hand_out(sessions_max);
        let outcome = loop {
            let has = running.turn_of(number) == Turn::Has;
            let left = end.saturating_duration_since(Instant::now());
            match (running.is_closed || cancel.is_cancelled(), has) {
                (true, _) => break Err(Full::Closed),
                (false, true) => break Ok(admission.seat(&mut running, &key, self.limits)),
                (false, false) if left.is_zero() => {
                    break Err(if running.sessions < sessions_max {
                        Full::Key(key_max)
                    } else {
                        Full::Daemon(sessions_max)
                    });
                }
                (false, false) => {
                    let waited = wake.wait_timeout(running, left);
                    running = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        };
        let had = running.turn_of(number);
        running.queue.retain(|other| other.number != number);
        if outcome.is_err() && had == Turn::Has {
            running.discount(&key, sessions_max);
        }
        if let (Err(Full::Daemon(_) | Full::Key(_)), Some(transfer)) = (&outcome, transfer) {
            running.remember(transfer, number, Instant::now());
        }
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
        self.admission.running().discount(&self.key, self.admission.0.sessions_max);
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
        let error = Error::new(ErrorKind::Connect, message);
        match full {
            Full::Daemon(_) | Full::Key(_) | Full::Queue => error.of_busy(Busy::Full),
            Full::Closed => error,
        }
    }
}

#[cfg(test)]
mod tests;
