//! The client's lanes (protocol 13): which paths they take, their sockets, and where the server's are.

use super::Client;
use super::candidates::{Candidates, candidates, unreachable};
use crate::session::udp_options;
use fobs_engine::lanes_window;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::Event;
use fobs_model::message::{Accept, HostPort, LANES, LanesAsk};
use fobs_model::options::{AddressFamily, Lanes, Transport, Via};
use fobs_sys::confine::{Errand, outside};
use fobs_sys::{UdpSocket, local_addresses};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A path of the data, as this host sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientPath {
    /// Addresses of this host that its packets may have; any if none.
    local: Vec<IpAddr>,
    /// The interface by which they go; as routes say if none.
    interface: Option<String>,
    /// What its socket is bound to.
    binds: Binds,
    /// The only address of the server; any of its if none.
    remote: Option<IpAddr>,
    pub(super) name: String,
}

/// What the socket of a path is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binds {
    /// To one of its addresses, and to its interface where the kernel lets us.
    Address,
    /// To its interface alone, whose addresses may change, where the kernel lets us.
    Interface,
}

impl ClientPath {
    /// The paths that the user chose, at least one; `here` are the addresses of this host.
    ///
    /// # Errors
    /// `Usage` for an interface without an address.
    fn all(lanes: &Lanes, here: &[(String, IpAddr)]) -> Result<Vec<ClientPath>> {
        if lanes.via.is_empty() {
            let name = "the first path".to_owned();
            let binds = Binds::Address;
            return Ok(vec![ClientPath { local: Vec::new(), interface: None, binds, remote: None, name }]);
        }
        lanes.via.iter().map(|via| ClientPath::of(via, here)).collect()
    }

    fn of(via: &Via, here: &[(String, IpAddr)]) -> Result<ClientPath> {
        let name = format!("--via {via}");
        match via {
            Via::Address(address) => {
                let found = here.iter().find(|(_, ip)| ip == address);
                let is_here = found.is_some();
                Ok(ClientPath {
                    local: if is_here { vec![*address] } else { Vec::new() },
                    // Every address of the loopback leads everywhere on this host.
                    interface: found.map(|(name, _)| name.clone()).filter(|_| !address.is_loopback()),
                    binds: Binds::Address,
                    // One of the loopback leads to this host alone.
                    remote: (!is_here || address.is_loopback()).then_some(*address),
                    name,
                })
            }
            Via::Interface(interface) => {
                let of_it = here.iter().filter(|(name, ip)| name == interface && !is_link_local(*ip));
                let local: Vec<IpAddr> = of_it.map(|(_, ip)| *ip).collect();
                if local.is_empty() {
                    let message = format!(
                        "{name}: this host has no interface {interface:?} with an address; ip address shows those that it has"
                    );
                    return Err(Error::new(ErrorKind::Usage, message));
                }
                let (interface, binds) = (Some(interface.clone()), Binds::Interface);
                Ok(ClientPath { local, interface, binds, remote: None, name })
            }
        }
    }

    /// The IP versions that it may use.
    fn family(&self, wanted: AddressFamily) -> AddressFamily {
        let all = |v4: bool| !self.local.is_empty() && self.local.iter().all(|ip| ip.is_ipv4() == v4);
        match (wanted, self.remote) {
            (AddressFamily::Any, Some(remote)) if remote.is_ipv4() => AddressFamily::V4,
            (AddressFamily::Any, Some(_)) => AddressFamily::V6,
            (AddressFamily::Any, None) if all(true) => AddressFamily::V4,
            (AddressFamily::Any, None) if all(false) => AddressFamily::V6,
            (wanted, _) => wanted,
        }
    }

    /// Of the places where the server's socket may be, those that this path may lead to, likeliest first: an
    /// address in the network of one of ours before one that a router must be asked for.
    fn ranked(&self, port: u16, found: Candidates) -> Candidates {
        if let Some(remote) = self.remote {
            return Candidates { reached: vec![SocketAddr::new(remote, port)], named: Vec::new() };
        }
        if self.local.is_empty() {
            return found;
        }
        let Candidates { mut reached, mut named } = found;
        let near = |at: &SocketAddr| self.local.iter().map(|ip| common_bits(*ip, at.ip())).max().unwrap_or(0);
        reached.sort_by_key(|at| std::cmp::Reverse(near(at)));
        named.sort_by_key(|at| std::cmp::Reverse(near(at)));
        let is_nearer = named.first().map(near) > reached.first().map(near);
        // What the server names is tried with few bytes until it answers; it is first where it is nearer.
        if is_nearer { Candidates { reached: Vec::new(), named } } else { Candidates { reached, named } }
    }

    /// A socket of this path.
    fn bind(&self, to: SocketAddr, cc: Option<&str>) -> Result<UdpSocket> {
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let bound = |ip: IpAddr| {
            UdpSocket::bind(SocketAddr::new(ip, 0), &udp_options(cc))
                .map_err(|error| Error::new(ErrorKind::Socket, format!("cannot make a UDP socket: {error}")))
        };
        if let (Binds::Interface, Some(interface)) = (self.binds, &self.interface) {
            let socket = bound(any)?;
            if socket.bind_to_interface(interface).is_ok() {
                return Ok(socket);
            }
        }
        let same = self.local.iter().filter(|ip| ip.is_ipv4() == to.is_ipv4());
        let here = same.max_by_key(|ip| common_bits(**ip, to.ip())).copied().unwrap_or(any);
        let socket = bound(here)?;
        if let Some(interface) = &self.interface {
            // An old kernel wants a privilege for that: the address alone then says where answers come, and
            // routes say where packets go.
            let _ = socket.bind_to_interface(interface);
        }
        Ok(socket)
    }
}

/// Whether a place that the server names may be of this IP version.
fn may_be_of(at: &HostPort, family: AddressFamily) -> bool {
    match (at.host.as_ref().and_then(|host| host.parse::<IpAddr>().ok()), family) {
        (Some(ip), AddressFamily::V4) => ip.is_ipv4(),
        (Some(ip), AddressFamily::V6) => ip.is_ipv6(),
        _ => true,
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// How many bits from the first on two addresses share; 0 for addresses of two families.
fn common_bits(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

/// Of several paths that the user chose, those whose interfaces have an address, and the others; `None` where
/// all are there or none is.
fn present_of(lanes: &Lanes, here: &[(String, IpAddr)]) -> Option<(Lanes, Vec<Via>)> {
    let (via, missing): (Vec<Via>, Vec<Via>) =
        lanes.via.iter().cloned().partition(|via| ClientPath::of(via, here).is_ok());
    (!via.is_empty() && !missing.is_empty()).then(|| (Lanes { via, ..lanes.clone() }, missing))
}

impl Client<'_> {
    /// Leaves out the paths of interfaces that are not there, such as a network that a laptop is not in,
    /// where the user chose another that is. Each attempt looks again.
    pub(super) fn leave_out_paths(&mut self) {
        let lanes = &self.options.lanes;
        let here = if lanes.via.len() > 1 { outside(Errand::Counters, local_addresses) } else { Vec::new() };
        let (present, missing) = present_of(lanes, &here).unzip();
        for via in missing.into_iter().flatten() {
            let text = format!(
                "--via {via} is left out: this host has no interface of that name with an address; the other paths carry the data"
            );
            self.events.event(Event::Notice(text));
        }
        self.lanes.present = present;
    }

    /// What is asked of the server, if the user chose paths or lanes and the server knows them.
    pub(super) fn ask_for_lanes(&self) -> Option<LanesAsk> {
        let lanes = self.wanted_lanes();
        if !lanes.are_chosen() {
            return None;
        }
        let paths = lanes.paths();
        if !self.hello.has(LANES) {
            if paths.len() > 1 {
                let peer = &self.channel.peer.description;
                let text = format!("{peer} has an older fobs, which has one lane: one path carries the data");
                self.events.event(Event::Notice(text));
            }
            return None;
        }
        let window = lanes_window(self.chunks_max);
        Some(LanesAsk { paths, window, families: self.families().unwrap_or_default() })
    }

    /// The IP version of each path; none where the user chose no path, or one that is not there, of which the
    /// user learns when its socket is made.
    fn families(&self) -> Option<Vec<u8>> {
        let paths = self.paths().ok().filter(|_| !self.options.lanes.via.is_empty())?;
        let family = |path: &ClientPath| match path.family(self.options.address_family) {
            AddressFamily::V4 => 4,
            AddressFamily::V6 => 6,
            AddressFamily::Any => 0,
        };
        Some(paths.iter().map(family).collect())
    }

    /// The paths of the lanes.
    pub(super) fn paths(&self) -> Result<Vec<ClientPath>> {
        let lanes = self.wanted_lanes();
        if lanes.via.is_empty() {
            return ClientPath::all(&lanes, &[]);
        }
        ClientPath::all(&lanes, &outside(Errand::Counters, local_addresses))
    }

    /// How many lanes the session has: as many as were asked for, or fewer.
    ///
    /// # Errors
    /// `Protocol` for lanes that nobody asked for.
    pub(super) fn lanes_granted(&self, accept: &Accept) -> Result<usize> {
        let (Some(granted), wanted) = (&accept.lanes, self.wanted_lanes().paths().len()) else {
            return Ok(1);
        };
        let count = granted.ports.len() + 1;
        let peer = &self.channel.peer.description;
        if !self.wanted_lanes().are_chosen() || count > wanted || granted.ports.contains(&0) {
            let message = format!(
                "{peer} offers {count} lanes where {wanted} were asked for, or one without a port; install the same version on both sides"
            );
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        if count < wanted && self.has_chosen_lanes() {
            let text = format!(
                "{peer} has free UDP ports for {count} of the {wanted} lanes that were asked for (--udp-ports gives it more)"
            );
            self.events.event(Event::Notice(text));
        }
        Ok(count)
    }

    /// The socket of a lane, and where the server's is.
    pub(super) fn lane_socket(
        &self,
        path: &ClientPath,
        (at, port): (&[HostPort], u16),
        cc: Option<&str>,
    ) -> Result<(UdpSocket, Candidates)> {
        let family = path.family(self.options.address_family);
        // Another lane's socket may be of another IP version.
        let at = at.iter().filter(|at| may_be_of(at, family));
        let at: Vec<HostPort> = at.map(|at| HostPort { host: at.host.clone(), port }).collect();
        let found = candidates(&at, &self.hosts, family);
        let found = path.ranked(port, found);
        let to = match found.reached.first().or(found.named.first()) {
            Some(first) => *first,
            // Behind a jump host or in a container the name may be nobody's here: no datagram is sent.
            None if self.options.transport == Transport::Channel => (Ipv4Addr::UNSPECIFIED, 0).into(),
            None => return Err(unreachable(&self.channel.peer.description)),
        };
        Ok((path.bind(to, cc)?, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Vec<(String, IpAddr)> {
        [("lo", "127.0.0.1"), ("e0", "10.0.1.1"), ("e1", "10.0.2.1"), ("e1", "fe80::1"), ("e1", "fd00:2::1")]
            .map(|(name, ip)| (name.to_owned(), ip.parse().expect("an address")))
            .to_vec()
    }

    fn path(via: &str) -> ClientPath {
        ClientPath::of(&via.parse().expect("a path"), &here()).expect("possible")
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_is_ours_or_the_servers() {
        let ours = path("10.0.2.1");
        assert_eq!((ours.interface.as_deref(), ours.remote), (Some("e1"), None));
        let theirs = path("10.0.2.2");
        assert_eq!((theirs.local.len(), theirs.remote), (0, Some("10.0.2.2".parse().expect("an address"))));
        assert_eq!(path("127.0.0.1").interface, None);
        assert_eq!(path("e1").local.len(), 2, "of both families, and none of the link alone");
        let none = ClientPath::of(&Via::Interface("e7".to_owned()), &here()).expect_err("unknown");
        assert!(none.kind == ErrorKind::Usage && none.message.contains("\"e7\""), "{none}");
    }

    #[test]
    fn paths_that_are_not_there_are_left_out_where_another_is() {
        let lanes = |names: &[&str]| Lanes {
            via: names.iter().map(|name| name.parse().expect("a path")).collect(),
            each: Some(2),
        };
        assert_eq!(present_of(&lanes(&["e0", "10.0.2.2"]), &here()), None, "all may be there");
        assert_eq!(present_of(&lanes(&["e7", "e8"]), &here()), None, "the first is named in an error");
        let (present, missing) = present_of(&lanes(&["e7", "e1", "10.0.2.2"]), &here()).expect("one is not");
        assert_eq!((present, missing), (lanes(&["e1", "10.0.2.2"]), lanes(&["e7"]).via));
    }

    #[test]
    fn the_nearest_address_of_the_server_is_first() {
        let found = || Candidates {
            reached: vec![at("10.0.1.2:7")],
            named: vec![at("10.0.9.2:7"), at("10.0.2.2:7")],
        };
        let second = path("e1").ranked(7, found());
        assert_eq!((second.reached, second.named), (vec![], vec![at("10.0.2.2:7"), at("10.0.9.2:7")]));
        assert_eq!(path("10.0.1.1").ranked(7, found()).reached, [at("10.0.1.2:7")]);
        assert_eq!(path("10.0.7.7").ranked(7, found()).reached, [at("10.0.7.7:7")]);
    }
}
