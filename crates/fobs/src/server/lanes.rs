//! The server's part of lanes (protocol 13): their sockets, and where they may be reached.

use crate::session::udp_options;
use fobs_channel::secure::schedule::DatagramKeys;
use fobs_engine::{LaneSetup, LanesSetup, LinkSetup, lanes_window};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{Hello, KEYS2, LANES, LanesAsk, LanesGrant, Open};
use fobs_model::options::Carrier;
use fobs_sys::confine::{Errand, outside};
use fobs_sys::{UdpSocket, Waker, local_addresses};
use std::net::IpAddr;

/// Addresses of this host that a client is told of beside the one that it reached, of each IP version: as
/// many as it tries.
const ADDRESSES_MAX: usize = 3;

/// Where a server is reached by lanes, which may come by another IP version than its client.
#[derive(Debug, Clone, Copy)]
pub struct LanesAt {
    /// The address for the version by which the client reached the server.
    pub reached: IpAddr,
    /// That of the other version; none where the server does not listen there.
    pub other: Option<IpAddr>,
}

impl LanesAt {
    /// The address for a lane of that path.
    pub(super) fn of_path(self, ask: &LanesAsk, path: u8) -> IpAddr {
        let is_asked_for = |ip: &IpAddr| match ask.families.get(usize::from(path)) {
            Some(4) => ip.is_ipv4(),
            Some(6) => ip.is_ipv6(),
            _ => false,
        };
        self.other.filter(is_asked_for).unwrap_or(self.reached)
    }
}

/// Where sockets of lanes are bound.
pub(super) struct Binding<'a> {
    pub(super) at: LanesAt,
    pub(super) ports: (u16, u16),
    pub(super) cc: Option<&'a str>,
    pub(super) carrier: Carrier,
}

/// What the client asks for, if both sides can.
pub(super) fn asked<'o>(open: &'o Open, hello: &Hello) -> Option<&'o LanesAsk> {
    open.lanes.as_ref().filter(|_| hello.has(LANES) && hello.has(KEYS2))
}

/// Whether the client chose its paths: several lanes of one path come where the first does.
pub(super) fn may_come_anywhere(ask: &LanesAsk) -> bool {
    ask.paths.len() == 1 || ask.paths.iter().any(|path| *path > 0)
}

/// Of these ports, those of lanes beside the first. At a daemon they leave half of its ports to the first
/// lanes of other sessions, which have no other.
pub(super) fn ports_beside((first, last): (u16, u16), carrier: Carrier) -> (u16, u16) {
    match carrier {
        Carrier::Ssh => (first, last),
        Carrier::Daemon => (first, first + (last - first) / 2),
    }
}

/// Sockets of the lanes beside the first: fewer where ports are scarce.
pub(super) fn bind(ask: &LanesAsk, at: &Binding<'_>) -> Vec<UdpSocket> {
    let (first, last) = ports_beside(at.ports, at.carrier);
    let one = |path: &u8| {
        UdpSocket::bind_in_range(at.at.of_path(ask, *path), first..=last, &udp_options(at.cc)).ok()
    };
    ask.paths.iter().skip(1).map_while(one).collect()
}

/// Further addresses of this host, for a client that comes by several paths.
pub(super) fn addresses(ask: &LanesAsk, at: LanesAt) -> Vec<String> {
    if !may_come_anywhere(ask) {
        return Vec::new();
    }
    let mut bound: Vec<IpAddr> = Vec::new();
    for path in 0..=ask.paths.iter().copied().max().unwrap_or(0) {
        let ip = at.of_path(ask, path);
        if ip.is_unspecified() && !bound.contains(&ip) {
            bound.push(ip);
        }
    }
    let here = outside(Errand::Counters, local_addresses).into_iter().map(|(_, ip)| ip);
    let can_be_reached = |ip: &IpAddr| match ip {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    };
    let here: Vec<IpAddr> = here.filter(can_be_reached).collect();
    let of = |bound: &IpAddr| {
        let v4 = bound.is_ipv4();
        here.iter().filter(move |ip| ip.is_ipv4() == v4).take(ADDRESSES_MAX).map(IpAddr::to_string)
    };
    bound.iter().flat_map(of).collect()
}

/// What the client is told.
pub(super) fn answer(sockets: &[UdpSocket], chunks_max: u32) -> LanesGrant {
    let ports = sockets.iter().map(|socket| socket.local_addr().port()).collect();
    LanesGrant { ports, window: lanes_window(chunks_max) }
}

/// The lanes beside the first, whose link this is; `None` if there are none.
pub(super) fn setup(
    ask: Option<&LanesAsk>,
    (sockets, keys): (Vec<UdpSocket>, Vec<DatagramKeys>),
    first: &LinkSetup,
    chunks_max: u32,
) -> Result<Option<LanesSetup>> {
    let Some(ask) = ask.filter(|_| !sockets.is_empty()) else { return Ok(None) };
    let mut further = Vec::new();
    for (lane, (socket, keys)) in (1..).zip(sockets.into_iter().zip(keys)) {
        let waker = Waker::new().map_err(|error| {
            Error::new(ErrorKind::Socket, format!("cannot make an event descriptor: {error}"))
        })?;
        let link = LinkSetup {
            socket,
            waker,
            clock: first.clock,
            keys,
            direction: first.direction,
            side: first.side,
            candidates: Vec::new(),
            named: Vec::new(),
            validation: first.validation,
        };
        further.push(LaneSetup { link, name: format!("lane {lane}") });
    }
    let window = match first.direction {
        // The client receives: it says what it holds.
        fobs_channel::secure::datagram::Direction::Sender => ask.window.min(lanes_window(chunks_max)).max(1),
        fobs_channel::secure::datagram::Direction::Receiver => lanes_window(chunks_max),
    };
    let paths = ask.paths[..=further.len()].to_vec();
    Ok(Some(LanesSetup { further, paths, first: "lane 0".to_owned(), window }))
}
