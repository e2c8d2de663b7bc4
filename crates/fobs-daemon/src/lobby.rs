//! Connections that were accepted and are not answered yet: they hold a descriptor and no thread. A client
//! speaks first, so one that has not spoken gets no thread, and is closed where there is no room; one that
//! has waits for its turn.

use super::network::Network;
use super::places::count;
use fobs_channel::control::tls::HANDSHAKE_WAIT;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use rustix::process::{Resource, getrlimit};
use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Most connections: a burst of 500 clients that were started together, beside as many that say nothing.
pub(super) const LOBBY_MAX: usize = 1024;
/// Fewest, where the process may hold few descriptors.
const LOBBY_MIN: usize = 64;
/// The part of the process's descriptors that it may hold.
const DESCRIPTORS_SHARE: u64 = 4;

/// How long a connection may say nothing where another one needs its room: a client speaks with the third
/// segment of its connection.
const SPEAK_WAIT: Duration = Duration::from_secs(2);

/// The connections.
pub(super) struct Lobby {
    max: usize,
    next: u64,
    /// In the order of arrival.
    waiting: BTreeMap<u64, Waiting>,
}

/// A connection that waits.
pub(super) struct Waiting {
    pub(super) socket: TcpStream,
    pub(super) from: SocketAddr,
    since: Instant,
    speech: Speech,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speech {
    None,
    /// It said something, as the n-th of all.
    Began(u64),
}

/// Why a connection left before anybody talked to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Departure {
    /// For a newer one.
    MadeRoom,
    /// It has waited too long.
    Late,
    /// Its client ended it.
    Gone,
}

/// What has been closed, for the log.
pub(super) type Departed = (SocketAddr, Departure);

impl Lobby {
    pub(super) fn new() -> Lobby {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let share = usize::try_from(descriptors / DESCRIPTORS_SHARE).unwrap_or(usize::MAX);
        Lobby::of(share.clamp(LOBBY_MIN, LOBBY_MAX))
    }

    fn of(max: usize) -> Lobby {
        Lobby { max, next: 0, waiting: BTreeMap::new() }
    }

    /// Waits until there is something to accept, or a client has spoken, for `timeout` at most.
    pub(super) fn wait(
        &mut self,
        listeners: &[TcpListener],
        timeout: Duration,
    ) -> rustix::io::Result<Vec<Departed>> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
        let silent = || self.waiting.iter().filter(|(_, waiting)| waiting.speech == Speech::None);
        let mut polled: Vec<_> = listeners.iter().map(|it| PollFd::new(it, PollFlags::IN)).collect();
        polled.extend(silent().map(|(_, waiting)| PollFd::new(&waiting.socket, PollFlags::IN)));
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let ready = polled[listeners.len()..].iter().map(|fd| !fd.revents().is_empty());
        let ids: Vec<u64> =
            silent().map(|(id, _)| *id).zip(ready).filter_map(|(id, ready)| ready.then_some(id)).collect();
        Ok(ids.into_iter().filter_map(|id| self.hear(id)).collect())
    }

    /// Looks what a connection has said.
    fn hear(&mut self, id: u64) -> Option<Departed> {
        let waiting = self.waiting.get_mut(&id)?;
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(&waiting.socket, &mut [0; 1][..], flags) {
            Ok((1.., _)) => {
                waiting.speech = Speech::Began(self.next);
                self.next += 1;
                None
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => None,
            Ok(_) | Err(_) => self.close(id, Departure::Gone),
        }
    }

    /// Takes in a connection; what had to be closed for it, which may be itself.
    pub(super) fn enter(&mut self, socket: TcpStream, from: SocketAddr, now: Instant) -> Option<Departed> {
        let id = self.next;
        self.next += 1;
        self.waiting.insert(id, Waiting { socket, from, since: now, speech: Speech::None });
        if self.waiting.len() <= self.max {
            return None;
        }
        // It may have spoken with its first segment.
        self.hear(id).or_else(|| self.make_room(now))
    }

    /// Closes one connection: first those that could have spoken long since, then one of the largest network,
    /// which has been silent the longest or else spoke last.
    pub(super) fn make_room(&mut self, now: Instant) -> Option<Departed> {
        let of = self.by_network();
        let rank = |(id, waiting): (&u64, &Waiting)| {
            let of_network = of.get(&waiting.network()).copied().unwrap_or(0);
            let is_stale = now.saturating_duration_since(waiting.since) >= SPEAK_WAIT;
            match waiting.speech {
                Speech::None => (is_stale, of_network, true, u64::MAX - *id),
                Speech::Began(order) => (false, of_network, false, order),
            }
        };
        let (id, _) = self.waiting.iter().max_by_key(|entry| rank(*entry))?;
        self.close(*id, Departure::MadeRoom)
    }

    /// Closes those that have waited as long as a handshake may take.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Departed> {
        let is_late = |waiting: &Waiting| now.saturating_duration_since(waiting.since) >= HANDSHAKE_WAIT;
        // In the order of arrival.
        let late: Vec<u64> =
            self.waiting.iter().take_while(|(_, waiting)| is_late(waiting)).map(|(id, _)| *id).collect();
        late.into_iter().filter_map(|id| self.close(id, Departure::Late)).collect()
    }

    /// Whether anybody waits for a turn.
    pub(super) fn has_spoken(&self) -> bool {
        self.waiting.values().any(|waiting| waiting.speech != Speech::None)
    }

    /// Whose turn it is: of those that have spoken the first one of the network with the fewest in
    /// `talked_to`.
    pub(super) fn turn(&self, talked_to: &HashMap<Network, usize>) -> Option<(u64, &Waiting)> {
        let order = |(id, waiting): (&u64, &Waiting)| match waiting.speech {
            Speech::None => None,
            Speech::Began(order) => {
                Some((talked_to.get(&waiting.network()).copied().unwrap_or(0), order, *id))
            }
        };
        let (_, _, id) = self.waiting.iter().filter_map(order).min()?;
        self.waiting.get(&id).map(|waiting| (id, waiting))
    }

    /// Somebody talks to it.
    pub(super) fn take(&mut self, id: u64) -> Option<Waiting> {
        self.waiting.remove(&id)
    }

    fn by_network(&self) -> HashMap<Network, usize> {
        count(self.waiting.values().map(Waiting::network))
    }

    fn close(&mut self, id: u64, why: Departure) -> Option<Departed> {
        self.waiting.remove(&id).map(|waiting| (waiting.from, why))
    }
}

impl Waiting {
    fn network(&self) -> Network {
        Network::of(self.from.ip())
    }
}

#[cfg(test)]
mod tests;
