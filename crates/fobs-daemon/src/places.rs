//! Bounded places of connections that have to earn their stay: a new one may take the place of another. So
//! connections that are only held keep nobody out, and what bounds threads and descriptors stands.

use super::network::Network;
use fobs_sys::tcp_info;
use rustix::io::ioctl_fionread;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Who may have to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Yields {
    /// Somebody always does, so there is always room.
    Anybody,
    /// Only a connection that gets on no further.
    TheIdle {
        /// Whose peer has said nothing for so long.
        quiet: Duration,
        /// Or which has taken so long, whatever its peer says meanwhile.
        age: Duration,
    },
}

/// The places. Clones are the same.
#[derive(Clone)]
pub(super) struct Places {
    max: usize,
    yields: Yields,
    pool: Arc<Mutex<Pool>>,
}

#[derive(Default)]
struct Pool {
    next: u64,
    /// In the order of arrival.
    connections: BTreeMap<u64, Connection>,
}

struct Connection {
    network: Network,
    socket: TcpStream,
    since: Instant,
}

/// A place. Dropping it frees the place.
pub(super) struct Place {
    places: Places,
    id: u64,
}

/// How a connection stands, from the one that stays to the one that makes room first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    /// How many of its network there are: the largest one makes room.
    of_network: usize,
    peer: PeerStands,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PeerStands {
    /// It has said something, the last of it so long ago; zero while some of that is unread here.
    Spoke(Duration),
    /// It has said nothing for so long.
    Silent(Duration),
}

impl Places {
    pub(super) fn new(max: usize, yields: Yields) -> Places {
        Places { max, yields, pool: Arc::default() }
    }

    /// Takes in a connection, for which another one may be closed; `None` where there is no room.
    pub(super) fn admit(&self, socket: &TcpStream, from: IpAddr) -> io::Result<Option<Place>> {
        let (network, now) = (Network::of(from), Instant::now());
        let mut pool = self.pool();
        if pool.connections.len() >= self.max {
            let Some(id) = pool.who_yields(self.yields, now) else { return Ok(None) };
            pool.close(id);
        }
        let socket = socket.try_clone()?;
        let id = pool.next;
        pool.next += 1;
        pool.connections.insert(id, Connection { network, socket, since: now });
        Ok(Some(Place { places: self.clone(), id }))
    }

    /// How many there are of each network.
    pub(super) fn by_network(&self) -> HashMap<Network, usize> {
        self.pool().by_network()
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    fn by_network(&self) -> HashMap<Network, usize> {
        count(self.connections.values().map(|connection| connection.network))
    }

    fn who_yields(&self, yields: Yields, now: Instant) -> Option<u64> {
        let of = self.by_network();
        let standing = |(id, connection): (&u64, &Connection)| {
            let peer = PeerStands::at(&connection.socket, now.saturating_duration_since(connection.since));
            let idle = match (yields, peer) {
                (Yields::Anybody, _) | (_, PeerStands::Silent(_)) => true,
                (Yields::TheIdle { quiet, age }, PeerStands::Spoke(so_long)) => {
                    so_long >= quiet || now.saturating_duration_since(connection.since) >= age
                }
            };
            let of_network = of.get(&connection.network).copied().unwrap_or(0);
            idle.then_some((Standing { of_network, peer }, *id))
        };
        // Of equal ones the oldest.
        let standings = self.connections.iter().rev().filter_map(standing);
        standings.max_by_key(|(standing, _)| *standing).map(|(_, id)| id)
    }

    fn close(&mut self, id: u64) {
        if let Some(connection) = self.connections.remove(&id) {
            // Its thread sees the end of the connection and ends. Fails only if the client is gone.
            let _ = connection.socket.shutdown(Shutdown::Both);
        }
    }
}

/// How many there are of each network.
pub(super) fn count(networks: impl Iterator<Item = Network>) -> HashMap<Network, usize> {
    let mut counts = HashMap::new();
    networks.for_each(|network| *counts.entry(network).or_default() += 1);
    counts
}

impl PeerStands {
    /// How the peer of a connection stands that has been here for `age`.
    fn at(socket: &TcpStream, age: Duration) -> PeerStands {
        // What is unread waits for us, not for the peer. A socket that cannot say is of no use.
        if ioctl_fionread(socket).is_ok_and(|unread| unread > 0) {
            return PeerStands::Spoke(Duration::ZERO);
        }
        match tcp_info(socket) {
            Ok(info) if info.bytes_received > 0 => PeerStands::Spoke(info.quiet.min(age)),
            Ok(_) | Err(_) => PeerStands::Silent(age),
        }
    }
}

impl Place {
    /// Whether it is still there, and its connection was not closed for another one.
    pub(super) fn is_held(&self) -> bool {
        self.places.pool().connections.contains_key(&self.id)
    }

    /// Leaves it, so that nothing closes the connection from here on; false if that was done before.
    pub(super) fn leave(&self) -> bool {
        self.places.pool().connections.remove(&self.id).is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.pool().connections.remove(&self.id);
    }
}

#[cfg(test)]
mod tests;
