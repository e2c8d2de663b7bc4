//! The client's end of the data plane: where the server's UDP socket is, and the keys.

use super::Client;
use crate::session::{path_validation, udp_options};
use fobs_channel::secure::datagram::{Cipher, Direction};
use fobs_channel::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};
use fobs_channel::secure::stream_keys::StreamKeys;
use fobs_engine::{Clock, LinkSetup};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{Accept, HostPort};
use fobs_model::options::{AddressFamily, Transport};
use fobs_proto::session::Side;
use fobs_sys::confine::{Errand, outside};
use fobs_sys::{UdpSocket, Waker};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// Most addresses of a server that are tried.
const ADDRESSES_MAX: usize = 4;

impl Client<'_> {
    /// Makes the UDP socket and the keys, and takes the secret out of the answer. `cc` names the controller
    /// that sends from this side, if any.
    pub(super) fn link(
        &mut self,
        accept: &mut Accept,
        direction: Direction,
        cc: Option<&str>,
    ) -> Result<(LinkSetup, StreamKeys, Cipher)> {
        let peer = &self.channel.peer.description;
        let broken = |what: &str| {
            Error::new(ErrorKind::Protocol, format!("{peer} {what}; install the same version on both sides"))
        };
        let cipher = Cipher::from_name(&accept.cipher)
            .ok_or_else(|| broken("chose a cipher that is not known here"))?;
        let schedule = KeySchedule::from_number(accept.key_schedule)
            .ok_or_else(|| broken("derives keys in a way that is not known here"))?;
        // The answer lives as long as the transfer; the secret must not.
        let secret = match (schedule, self.channel.exporter.take(), accept.secret.take()) {
            (KeySchedule::First, Some(secret), _) => secret,
            (_, _, Some(told)) => SessionSecret::told(told.as_slice())
                .ok_or_else(|| broken("sent a session secret of a wrong length"))?,
            (_, _, None) => return Err(broken("sent no session secret")),
        };
        let keys = SessionKeys::derive(secret, schedule, cipher);
        let Candidates { reached: candidates, named } =
            candidates(&accept.udp_addresses, &self.hosts, self.options.address_family);
        let here: IpAddr = match candidates.first().or(named.first()) {
            Some(first) if first.is_ipv4() => Ipv4Addr::UNSPECIFIED.into(),
            Some(_) => Ipv6Addr::UNSPECIFIED.into(),
            // Behind a jump host or in a container the name may be nobody's here: no datagram is sent.
            None if self.options.transport == Transport::Channel => Ipv4Addr::UNSPECIFIED.into(),
            None => {
                let message = format!(
                    "no address is known at which the UDP port of {peer} can be reached; check -4 and -6 and the host's name"
                );
                return Err(Error::new(ErrorKind::Connect, message));
            }
        };
        let socket = UdpSocket::bind(SocketAddr::new(here, 0), &udp_options(cc))
            .map_err(|error| Error::new(ErrorKind::Socket, format!("cannot make a UDP socket: {error}")))?;
        let waker = Waker::new().map_err(|error| {
            Error::new(ErrorKind::Socket, format!("cannot make an event descriptor: {error}"))
        })?;
        let clock = Clock::start();
        let validation = path_validation(&self.hello, None);
        let link = LinkSetup {
            socket,
            waker,
            clock,
            keys: keys.datagrams,
            direction,
            side: Side::Client,
            candidates,
            named,
            validation,
        };
        Ok((link, keys.streams, cipher))
    }
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

/// The server's port, for the message where UDP is blocked.
pub(super) fn ports_of(accept: &Accept) -> String {
    accept.udp_addresses.first().map_or_else(|| "ports".to_owned(), |at| format!("port {}", at.port))
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
