//! Connections that have not authenticated. They share a bounded pool in which a new one takes the place of
//! an old one: so they never keep out a client with a known key, which leaves the pool within a handshake.

use super::network::Network;
use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most of them at once: what bounds threads and descriptors.
pub(super) const STRANGERS_MAX: usize = 128;
/// Most from one network; several clients behind one NAT may connect at once.
pub(super) const STRANGERS_PER_NETWORK_MAX: usize = 32;

/// The pool.
#[derive(Clone, Default)]
pub(super) struct Strangers(Arc<Mutex<Pool>>);

#[derive(Default)]
struct Pool {
    next: u64,
    /// In the order of arrival.
    connections: BTreeMap<u64, Connection>,
}

struct Connection {
    network: Network,
    socket: TcpStream,
}

/// A place in the pool. Dropping it frees the place.
pub(super) struct Stranger {
    pool: Strangers,
    id: u64,
}

impl Strangers {
    /// Takes in a connection; closes an older one if there is no room. That is one of the same network, or of
    /// the network with the most.
    pub(super) fn admit(&self, socket: &TcpStream, from: IpAddr) -> std::io::Result<Stranger> {
        let (network, socket) = (Network::of(from), socket.try_clone()?);
        let mut pool = self.pool();
        if pool.of(network) >= STRANGERS_PER_NETWORK_MAX {
            pool.close_oldest(network);
        } else if pool.connections.len() >= STRANGERS_MAX
            && let Some(largest) = pool.largest()
        {
            pool.close_oldest(largest);
        }
        let id = pool.next;
        pool.next += 1;
        pool.connections.insert(id, Connection { network, socket });
        Ok(Stranger { pool: self.clone(), id })
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    fn of(&self, network: Network) -> usize {
        self.connections.values().filter(|connection| connection.network == network).count()
    }

    /// The network with the most connections; of several, that of the oldest connection.
    fn largest(&self) -> Option<Network> {
        let networks = self.connections.values().map(|connection| connection.network);
        networks.rev().max_by_key(|network| self.of(*network))
    }

    fn close_oldest(&mut self, network: Network) {
        let oldest = self.connections.iter().find(|(_, connection)| connection.network == network);
        if let Some(id) = oldest.map(|(id, _)| *id)
            && let Some(connection) = self.connections.remove(&id)
        {
            // Its thread sees the end of the connection and ends. Fails only if the client is gone.
            let _ = connection.socket.shutdown(Shutdown::Both);
        }
    }
}

impl Stranger {
    /// Whether it still has its place, and was not closed for a newer connection.
    pub(super) fn has_its_place(&self) -> bool {
        self.pool.pool().connections.contains_key(&self.id)
    }

    /// Leaves the pool and is a stranger no more, unless it was closed before.
    pub(super) fn leave(&self) -> bool {
        self.pool.pool().connections.remove(&self.id).is_some()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.pool.pool().connections.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Both ends of `count` connections.
    fn connections(count: usize) -> Vec<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        };
        std::iter::repeat_with(connect).take(count).collect()
    }

    #[test]
    fn a_new_connection_takes_the_place_of_the_oldest_of_its_network() {
        let (pool, sockets) = (Strangers::default(), connections(STRANGERS_PER_NETWORK_MAX + 2));
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let other = pool.admit(&sockets[0].1, address(1)).unwrap();
        let admitted: Vec<_> =
            sockets[1..].iter().map(|(_, socket)| pool.admit(socket, address(2)).unwrap()).collect();
        assert!(!admitted[0].has_its_place() && admitted[1].has_its_place() && other.has_its_place());
        assert_eq!(sockets[1].0.peek(&mut [0]).unwrap(), 0, "it is closed");
        assert!(!admitted[0].leave() && admitted[1].leave());
        assert!(!admitted[1].leave(), "it has left");
    }

    #[test]
    fn in_a_full_pool_the_largest_network_makes_room() {
        let (pool, sockets) = (Strangers::default(), connections(STRANGERS_MAX + 1));
        let address = |index: usize| IpAddr::from([10, 0, (index / 100) as u8, (index % 100) as u8]);
        let few = |index: usize| if index < 5 { index } else { 5 + index / STRANGERS_PER_NETWORK_MAX };
        let admit = |index: usize| pool.admit(&sockets[index].1, address(few(index))).unwrap();
        let admitted: Vec<_> = (0..STRANGERS_MAX).map(admit).collect();
        let newest = pool.admit(&sockets[STRANGERS_MAX].1, address(77)).unwrap();
        assert!(newest.has_its_place());
        assert!(admitted[..5].iter().all(Stranger::has_its_place), "the lonely ones stay");
        assert_eq!(admitted.iter().filter(|stranger| !stranger.has_its_place()).count(), 1);
    }
}
