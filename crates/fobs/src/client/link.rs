//! The client's end of the data plane: where the server's UDP socket is, and the keys.

use super::Client;
use crate::session::{path_validation, udp_options};
use fobs_channel::secure::datagram::{Cipher, Direction};
use fobs_channel::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};
use fobs_channel::secure::stream_keys::StreamKeys;
use fobs_engine::{Clock, LinkSetup};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{Accept, HostPort};
use fobs_model::options::AddressFamily;
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
        let candidates = candidates(&accept.udp_addresses, &self.hosts, self.options.address_family);
        let Some(first) = candidates.first() else {
            let message = format!(
                "no address is known at which the UDP port of {peer} can be reached; check -4 and -6 and the host's name"
            );
            return Err(Error::new(ErrorKind::Connect, message));
        };
        let here: IpAddr =
            if first.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind(SocketAddr::new(here, 0), &udp_options(cc))
            .map_err(|error| Error::new(ErrorKind::Socket, format!("cannot make a UDP socket: {error}")))?;
        let waker = Waker::new().map_err(|error| {
            Error::new(ErrorKind::Socket, format!("cannot make an event descriptor: {error}"))
        })?;
        let clock = Clock::start();
        let validation = path_validation(&self.hello, None);
        let link =
            LinkSetup { socket, waker, clock, keys: keys.datagrams, direction, candidates, validation };
        Ok((link, keys.streams, cipher))
    }
}

/// Where a socket of the server may be, best first. `hosts` are those that the control channel reached.
pub(super) fn candidates(at: &[HostPort], hosts: &[String], family: AddressFamily) -> Vec<SocketAddr> {
    // The server's socket has one family, and an address that the server names shows which.
    let named = at.iter().find_map(|at| at.host.as_ref()?.parse::<IpAddr>().ok());
    let fits = |address: &SocketAddr| {
        let wanted = match family {
            AddressFamily::Any => true,
            AddressFamily::V4 => address.is_ipv4(),
            AddressFamily::V6 => address.is_ipv6(),
        };
        wanted && named.is_none_or(|named| named.is_ipv4() == address.is_ipv4())
    };
    let mut found = Vec::new();
    for at in at.iter().take(ADDRESSES_MAX) {
        for name in at.host.as_ref().map_or(hosts, std::slice::from_ref) {
            let (name, port) = (name.clone(), at.port);
            let addresses = outside(Errand::Fetch, move || (name.as_str(), port).to_socket_addrs());
            for address in addresses.into_iter().flatten().filter(fits) {
                if !found.contains(&address) {
                    found.push(address);
                }
            }
        }
    }
    if let Some(v4) = found.first().map(SocketAddr::is_ipv4) {
        found.retain(|address| address.is_ipv4() == v4);
    }
    found.truncate(ADDRESSES_MAX);
    found
}

/// The server's port, for the message where UDP is blocked.
pub(super) fn ports_of(accept: &Accept) -> String {
    accept.udp_addresses.first().map_or_else(|| "ports".to_owned(), |at| format!("port {}", at.port))
}
