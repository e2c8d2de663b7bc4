//! Where a socket of the server may be.

use fobs_model::error::{Error, ErrorKind};
use fobs_model::message::HostPort;
use fobs_model::options::AddressFamily;
use fobs_sys::confine::{Errand, outside};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// Most addresses of a server that are tried.
const ADDRESSES_MAX: usize = 4;

/// No address of the server's socket is known.
pub(super) fn unreachable(peer: &str) -> Error {
    let message = format!(
        "no address is known at which the UDP port of {peer} can be reached; check -4 and -6 and the host's name"
    );
    Error::new(ErrorKind::Connect, message)
}

/// Where a socket of the server may be, best first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Candidates {
    /// Addresses of the host that the control channel reached.
    pub(super) reached: Vec<SocketAddr>,
    /// Others, which the server names: the host there has not proven anything yet.
    pub(super) named: Vec<SocketAddr>,
}

/// What the server's answer and `hosts`, which the control channel reached, give. Names are looked up of the
/// latter only.
pub(super) fn candidates(at: &[HostPort], hosts: &[String], family: AddressFamily) -> Candidates {
    let look_up = |name: &str, port: u16| {
        let name = name.to_owned();
        let found = outside(Errand::Fetch, move || (name.as_str(), port).to_socket_addrs());
        found.into_iter().flatten().collect::<Vec<_>>()
    };
    candidates_of(at, hosts, family, look_up)
}

fn candidates_of(
    at: &[HostPort],
    hosts: &[String],
    family: AddressFamily,
    look_up: impl Fn(&str, u16) -> Vec<SocketAddr>,
) -> Candidates {
    let at = &at[..at.len().min(ADDRESSES_MAX)];
    let literal = |at: &HostPort| at.host.as_ref()?.parse::<IpAddr>().ok();
    let mut named: Vec<SocketAddr> =
        at.iter().filter_map(|at| Some(SocketAddr::new(literal(at)?, at.port))).collect();
    // The server's socket has one family, and an address that the server names shows which.
    let shown = named.first().map(SocketAddr::is_ipv4);
    let wanted = match family {
        AddressFamily::Any => shown,
        AddressFamily::V4 => Some(true),
        AddressFamily::V6 => Some(false),
    };
    let fits = |address: &SocketAddr, v4: Option<bool>| v4.is_none_or(|v4| address.is_ipv4() == v4);
    let mut reached: Vec<SocketAddr> = Vec::new();
    for at in at {
        for host in hosts {
            for address in look_up(host, at.port) {
                let new = !reached.contains(&address) && fits(&address, wanted) && fits(&address, shown);
                if new {
                    reached.push(address);
                }
            }
        }
    }
    // Of several addresses of a name, the one that the server was reached at is best.
    reached.sort_by_key(|address| !named.iter().any(|named| named.ip() == address.ip()));
    let one = reached.first().or(named.first()).map(SocketAddr::is_ipv4);
    reached.retain(|address| fits(address, one));
    reached.truncate(ADDRESSES_MAX);
    named.retain(|named| {
        let is_reached = reached.iter().any(|address| address.ip() == named.ip());
        !is_reached && fits(named, one) && fits(named, wanted)
    });
    named.dedup();
    named.truncate(ADDRESSES_MAX - reached.len());
    Candidates { reached, named }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: Option<&str>, port: u16) -> HostPort {
        HostPort { host: host.map(str::to_owned), port }
    }

    fn found(at: &[HostPort], family: AddressFamily, addresses: &[&str]) -> Candidates {
        let look_up = |name: &str, port: u16| {
            assert_eq!(name, "reached", "a server's names are not looked up");
            addresses.iter().map(|ip| SocketAddr::new(ip.parse().expect("an address"), port)).collect()
        };
        candidates_of(at, &["reached".to_owned()], family, look_up)
    }

    fn all(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|address| address.parse().expect("an address")).collect()
    }

    #[test]
    fn the_host_that_was_reached_comes_first() {
        let answer = [at(None, 7), at(Some("192.0.2.2"), 7)];
        let candidates = found(&answer, AddressFamily::Any, &["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
        assert_eq!(candidates.reached, all(&["192.0.2.2:7", "192.0.2.1:7"]));
        assert_eq!(candidates.named, []);
    }

    #[test]
    fn what_a_server_names_is_apart_and_bounded() {
        let mut answer = vec![at(None, 7), at(Some("evil.example"), 7)];
        answer.extend((0..5000).map(|n| at(Some(&format!("198.51.{}.{}", n / 250, n % 250)), 7)));
        let candidates = found(&answer, AddressFamily::Any, &["192.0.2.1"]);
        assert_eq!(candidates.reached, all(&["192.0.2.1:7"]));
        assert_eq!(candidates.named, all(&["198.51.0.0:7", "198.51.0.1:7"]), "of the first four");
        let unknown = found(&answer, AddressFamily::Any, &[]);
        assert_eq!((unknown.reached, unknown.named.len()), (vec![], 2));
        let other = found(&answer, AddressFamily::V6, &["192.0.2.1"]);
        assert_eq!(other, Candidates::default());
    }
}
