//! What a request that is granted gets: the data plane, its keys, and the answer.

use super::lanes::{Binding, LanesAt};
use super::streams::StreamEntrance;
use super::{Policy, lanes, streams};
use crate::late_lanes;
use crate::session::{choose_cipher, memory_available, path_validation, udp_options};
use fobs_channel::control::{ControlChannel, ControlWriter};
use fobs_channel::secure::datagram::Direction;
use fobs_channel::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};
use fobs_engine::streams::StreamSetup;
use fobs_engine::{Clock, LanesSetup, LateLanes, LinkSetup, lane_credit};
use fobs_model::budget::Allotment;
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{
    Accept, Hello, HostPort, KEYS2, LanesAsk, Message, Open, PARTS, SURVEY, SecretBytes,
};
use fobs_model::options::Carrier;
use fobs_proto::receiver::first_credit;
use fobs_proto::session::Side;
use fobs_sys::{UdpSocket, Waker};
use std::net::{IpAddr, Ipv6Addr};

/// What a session needs whose request is granted.
pub(super) struct Granted {
    pub(super) answer: Accept,
    pub(super) link: LinkSetup,
    /// Lanes beside the first.
    pub(super) lanes: Option<LanesSetup>,
    /// What is kept for those that may be added.
    pub(super) late: Option<LateLanes>,
    pub(super) streams: Option<StreamSetup>,
    /// What this side may have in transit, as long as it lasts.
    pub(super) transit: Allotment,
    pub(super) knows_survey: bool,
    /// Whether the client knows directories of which a listing has not all.
    pub(super) knows_parts: bool,
}

/// Makes the data plane.
pub(super) fn grant(
    channel: &mut ControlChannel,
    policy: &mut Policy,
    open: &Open,
    hello: &Hello,
) -> Result<Granted> {
    let ports = chosen_ports(open, channel, policy.udp_ports)?;
    let ask = lanes::asked(open, hello);
    let (ip, at) = bound_at(policy, ask);
    let transit = policy.budget.allot(memory_available());
    let cc = (open.direction == TransferDirection::Pull).then_some(open.sending.cc.as_str());
    let socket = UdpSocket::bind_in_range(ip, ports.0..=ports.1, &udp_options(cc)).map_err(|error| {
        let message = format!("no UDP port of {} to {} could be bound on the server: {error}; widen the range with --udp-ports or try again later", ports.0, ports.1);
        Error::new(ErrorKind::Socket, message)
    })?;
    let waker = Waker::new().map_err(|error| {
        Error::new(ErrorKind::Socket, format!("cannot make an event descriptor: {error}"))
    })?;
    let (cipher, Agreed { secret, told, schedule }) = (choose_cipher(hello.fast_aes), agree(channel, hello));
    let binding = Binding { at, ports, cc, carrier: channel.carrier };
    let sockets = ask.map(|ask| lanes::bind(ask, &binding)).unwrap_or_default();
    let (late_lanes, most) = late_lanes::grant(open, hello, transit.chunks()).unzip();
    let mut keys = SessionKeys::with_lanes(secret, schedule, cipher, sockets.len() + 1 + most.unwrap_or(0));
    let of_late = keys.lanes.split_off(sockets.len().min(keys.lanes.len()));
    let port = socket.local_addr().port();
    let own = ask.map(|ask| lanes::addresses(ask, at)).unwrap_or_default();
    let hosts = std::iter::once(None).chain(policy.addresses.iter().cloned().chain(own).map(Some));
    let mut answer = Accept {
        udp_addresses: hosts.map(|host| HostPort { host, port }).collect(),
        tcp_addresses: Vec::new(),
        secret: told,
        key_schedule: schedule.number(),
        cipher: cipher.name().to_owned(),
        shape: None,
        chunk_limit: first_credit(lane_credit(transit.chunks(), sockets.len() + 1)),
        lanes: ask.map(|_| lanes::answer(&sockets, transit.chunks())),
        late_lanes,
        survey: false,
        limit_bps: None,
        withholds: false,
        made: None,
        object: None,
    };
    let direction = match open.direction {
        TransferDirection::Push => Direction::Receiver,
        TransferDirection::Pull => Direction::Sender,
    };
    let link = LinkSetup {
        socket,
        waker,
        clock: Clock::start(),
        keys: keys.datagrams,
        direction,
        side: Side::Server,
        candidates: Vec::new(),
        named: Vec::new(),
        validation: path_validation(hello, channel.peer.address.or(policy.client)),
    };
    let beside = lanes::ports_beside(ports, channel.carrier);
    let late = late_lanes::of_server(of_late, open, (direction, cc), (beside, transit.chunks()));
    let lanes = lanes::setup(ask, (sockets, keys.lanes), &link, transit.chunks())?;
    let entrance = std::mem::replace(&mut policy.streams, StreamEntrance::Own);
    let offered = streams::offer(channel, hello, open, entrance, &link, keys.streams, ports)?;
    let streams = offered.map(|(setup, at)| {
        streams::with_hosts(&mut answer, at, &policy.addresses);
        setup
    });
    let (knows_survey, knows_parts) = (hello.has(SURVEY), hello.has(PARTS));
    Ok(Granted { answer, link, lanes, late, streams, transit, knows_survey, knows_parts })
}

/// Where the first lane's socket is bound, and where those of the others.
fn bound_at(policy: &Policy, ask: Option<&LanesAsk>) -> (IpAddr, LanesAt) {
    match ask.filter(|ask| lanes::may_come_anywhere(ask)) {
        Some(ask) => {
            let at = LanesAt { reached: bindable(policy.lanes_at.reached), ..policy.lanes_at };
            (at.of_path(ask, 0), at)
        }
        None => {
            let ip = bindable(policy.udp_ip);
            (ip, LanesAt { reached: ip, other: None })
        }
    }
}

/// The address to bind: a link-local one needs its interface, which answers choose by the client's address.
fn bindable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Ipv6Addr::UNSPECIFIED.into(),
        ip => ip,
    }
}

/// What keys come from, and how.
struct Agreed {
    secret: SessionSecret,
    /// The secret, where the client is told of it.
    told: Option<SecretBytes>,
    schedule: KeySchedule,
}

/// Chooses a secret. That of the channel's exporter is for clients without the second schedule: TLS can
/// export it again as long as the channel is open, and with it every key.
fn agree(channel: &mut ControlChannel, hello: &Hello) -> Agreed {
    let exported = channel.exporter.take();
    let schedule = if hello.has(KEYS2) { KeySchedule::Second } else { KeySchedule::First };
    match (schedule, exported) {
        (KeySchedule::First, Some(secret)) => Agreed { secret, told: None, schedule },
        (KeySchedule::First, None) | (KeySchedule::Second, _) => {
            let secret = SessionSecret::random();
            let told = Some(SecretBytes::new(secret.as_bytes()));
            Agreed { secret, told, schedule }
        }
    }
}

/// Answers the client. A secret that went through the channel cannot be had with the keys that the channel
/// keeps.
pub(super) fn accept(writer: &ControlWriter, answer: Accept) -> Result<()> {
    let has_secret = answer.secret.is_some();
    writer.send(&Message::Accept(answer))?;
    if has_secret { writer.renew_keys() } else { Ok(()) }
}

/// The range of ports to bind in: over SSH what the user requests, at a daemon the part of that within its
/// own range.
fn chosen_ports(open: &Open, channel: &ControlChannel, ours: (u16, u16)) -> Result<(u16, u16)> {
    let Some(wish) = open.udp_ports else { return Ok(ours) };
    let chosen = match channel.carrier {
        Carrier::Ssh => wish,
        Carrier::Daemon => (wish.0.max(ours.0), wish.1.min(ours.1)),
    };
    if chosen.0 > chosen.1 || chosen.0 == 0 {
        let message = format!(
            "UDP ports {} to {} are not among those this server uses, {} to {}",
            wish.0, wish.1, ours.0, ours.1
        );
        return Err(Error::new(ErrorKind::Usage, message));
    }
    Ok(chosen)
}
