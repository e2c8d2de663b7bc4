//! The server's part of making streams (protocol 11): what it offers to a client that knows them.

use std::net::IpAddr;

use crate::session::{choice_of, stream_target, tcp_tuning, transport_of};
use fobs_channel::control::ControlChannel;
use fobs_channel::secure::datagram::Direction;
use fobs_channel::secure::stream_keys::StreamKeys;
use fobs_engine::LinkSetup;
use fobs_engine::door::{Gate, Listening, ServerDoor};
use fobs_engine::streams::{Allotment, StreamSetup};
use fobs_model::direction::TransferDirection;
use fobs_model::error::Result;
use fobs_model::message::{Accept, Hello, HostPort, Open, STREAMS};
use fobs_model::options::{STREAMS_MAX, Transport};

/// How streams over TCP get in.
pub enum StreamEntrance {
    /// By a port that the session opens, at the address of its UDP socket.
    Own,
    /// By the daemon's port.
    Shared(SharedPort),
}

/// The daemon's port, for one session.
pub struct SharedPort {
    /// Has the daemon send the session's streams to this gate, until what it returns is dropped.
    pub enter: Box<dyn FnOnce(Gate) -> Box<dyn Send> + Send>,
    /// Most streams of the session at once.
    pub open_max: u32,
}

/// A port of 0 in `tcp_addresses`: the one to which the client made the control channel. The daemon does not
/// know that if a firewall forwards another one.
pub const PORT_OF_THE_CHANNEL: u16 = 0;

/// What the session needs for streams, and where they get in; `None` where the client does not know or want
/// them: their keys are gone then. `ports` are those that the session may bind in.
pub(super) fn offer(
    channel: &mut ControlChannel,
    hello: &Hello,
    open: &Open,
    entrance: StreamEntrance,
    link: &LinkSetup,
    keys: StreamKeys,
    ports: (u16, u16),
) -> Result<Option<(StreamSetup, Vec<HostPort>)>> {
    let transport = transport_of(&open.sending)?;
    let (true, Some(choice)) = (open.streams && hello.has(STREAMS), choice_of(transport)) else {
        return Ok(None);
    };
    let tuning = tcp_tuning(&open.sending, written_here(open.direction))?;
    let (lane, mailbox) = channel.open_lane()?;
    let open_max = match &entrance {
        StreamEntrance::Own => STREAMS_MAX,
        StreamEntrance::Shared(port) => port.open_max,
    };
    let gate = Gate::new(keys.pass().clone(), open_max);
    let local = link.socket.local_addr();
    let (entrance, port) = match (transport, entrance) {
        (Transport::Channel, _) => (None, None),
        (_, StreamEntrance::Shared(_)) if open_max == 0 => (None, None),
        (_, StreamEntrance::Shared(port)) => (Some((port.enter)(gate.clone())), Some(PORT_OF_THE_CHANNEL)),
        (_, StreamEntrance::Own) => own_port(local.ip(), local.port(), ports, &gate),
    };
    let door = ServerDoor {
        gate,
        lane: (!matches!(transport, Transport::Tcp { .. })).then_some(lane),
        mailbox,
        writer: channel.writer.clone(),
        entrance,
        asked: 0,
    };
    let addresses = port.map(|port| HostPort { host: None, port }).into_iter().collect();
    let target = stream_target(open.sending.priority.as_deref());
    let allotment = Allotment::default();
    let setup = StreamSetup { choice, target, door: Box::new(door), keys, allotment, tuning };
    Ok(Some((setup, addresses)))
}

/// What the server writes on streams.
fn written_here(direction: TransferDirection) -> Direction {
    match direction {
        TransferDirection::Push => Direction::Receiver,
        TransferDirection::Pull => Direction::Sender,
    }
}

/// A port of the session's own. Without one there is still the lane.
fn own_port(
    ip: IpAddr,
    preferred: u16,
    ports: (u16, u16),
    gate: &Gate,
) -> (Option<Box<dyn Send>>, Option<u16>) {
    match Listening::start(ip, preferred, ports.0..=ports.1, gate.clone()) {
        Ok(own) => {
            let port = own.port;
            (Some(Box::new(own)), Some(port))
        }
        Err(_) => (None, None),
    }
}

/// Where else the port may be reached.
pub(super) fn with_hosts(accept: &mut Accept, addresses: Vec<HostPort>, hosts: &[String]) {
    accept.tcp_addresses = addresses
        .into_iter()
        .flat_map(|at| {
            let others = hosts.iter().map(move |host| HostPort { host: Some(host.clone()), port: at.port });
            std::iter::once(at.clone()).chain(others).collect::<Vec<_>>()
        })
        .collect();
}
