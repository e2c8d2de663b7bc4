//! Lanes that a session gets while it runs (protocol 13.7): what they are made of, and when the client asks
//! for one.

use crate::LinkSetup;
use crate::link::PathValidation;
use fobs_channel::secure::datagram::Direction;
use fobs_channel::secure::schedule::DatagramKeys;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::sample::{Cpu, ReceiverSample, SenderSample};
use fobs_model::words::percent;
use fobs_proto::object::CHUNK_DATA_MAX;
use fobs_proto::sender::SenderConfig;
use fobs_proto::session::{GrowthRule, GrowthSeen, LaneGrowth, Side, ThreadTimes};
use fobs_sys::{UdpOptions, UdpSocket, Waker};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Makes the configuration of one more lane of the session.
pub type LaneConfig = Box<dyn Fn() -> Result<SenderConfig> + Send>;

/// What lanes need that may be added.
pub struct LateLanes {
    /// The keys of each, in order: as many may be added.
    pub keys: VecDeque<DatagramKeys>,
    /// Options of their sockets.
    pub options: UdpOptions,
    /// Ports that a server may bind, inclusive; any at a client.
    pub ports: Option<(u16, u16)>,
    /// Chunks of the object that are sent at once, from the oldest unverified one on.
    pub window: u32,
    /// When a client asks for one.
    pub rule: Option<GrowthRule>,
}

/// See the module.
pub(crate) struct LateCourse {
    keys: VecDeque<DatagramKeys>,
    options: UdpOptions,
    ports: Option<(u16, u16)>,
    /// Where the first lane's socket is bound, and what its link is like.
    ip: IpAddr,
    side: Side,
    direction: Direction,
    validation: PathValidation,
    pub(crate) window: u32,
    growth: Option<LaneGrowth>,
    seen: GrowthSeen,
    /// The lane that was asked for and not answered, and how busy a thread was.
    asked: Option<(u8, f64)>,
}

impl LateCourse {
    /// Of a session whose first lane has this link.
    pub(crate) fn new(late: LateLanes, first: &LinkSetup) -> LateCourse {
        let LateLanes { keys, options, ports, window, rule } = late;
        let room = u64::from(window) * u64::from(CHUNK_DATA_MAX);
        LateCourse {
            keys,
            options,
            ports,
            ip: first.socket.local_addr().ip(),
            side: first.side,
            direction: first.direction,
            validation: first.validation,
            window,
            growth: rule.map(|rule| LaneGrowth::new(rule, room)),
            seen: GrowthSeen::default(),
            asked: None,
        }
    }

    /// The sending end shows this.
    pub(crate) fn see_sender(&mut self, sample: &SenderSample) {
        self.seen.sender = times(sample.time_us, &sample.cpu);
        self.seen.bytes = sample.bytes_acked;
        self.seen.framed = sample.bytes_frames_delivered;
        self.seen.round_trip_us = sample.rtt_us;
    }

    /// The receiving end shows this.
    pub(crate) fn see_receiver(&mut self, sample: &ReceiverSample) {
        self.seen.receiver = times(sample.time_us, &sample.cpu);
    }

    /// The number of the lane that a session with `lanes` should ask for now, if any.
    pub(crate) fn poll_wanted(&mut self, lanes: usize) -> Option<u8> {
        let lane = u8::try_from(lanes).ok()?;
        if self.asked.is_some() || self.keys.is_empty() {
            return None;
        }
        let busy = self.growth.as_mut()?.observe(lane, self.seen)?;
        self.asked = Some((lane, busy));
        Some(lane)
    }

    /// The server has answered for a lane: the reason for which it was asked.
    ///
    /// # Errors
    /// `Protocol` for one that was not asked for.
    pub(crate) fn answered(&mut self, lane: u8) -> Result<String> {
        match self.asked.take() {
            Some((asked, busy)) if asked == lane => Ok(format!(
                "the thread that seals or opens packets was busy for {} of the time",
                percent(busy)
            )),
            _ => Err(out_of_turn(&format!("the other side adds lane {lane}, which was not asked for"))),
        }
    }

    /// No further lane is asked for.
    pub(crate) fn end(&mut self) {
        self.growth.iter_mut().for_each(LaneGrowth::end);
    }

    /// Whether a client may ask for this lane in a session with `lanes`.
    ///
    /// # Errors
    /// `Protocol` if not.
    pub(crate) fn check_wanted(&self, lane: u8, lanes: usize) -> Result<()> {
        if self.side == Side::Server && usize::from(lane) == lanes && !self.keys.is_empty() {
            return Ok(());
        }
        Err(out_of_turn(&format!("the other side asks for lane {lane} of {lanes}")))
    }

    /// One more lane's part of the data plane, whose peer may be at `server`; and its port.
    ///
    /// # Errors
    /// `Socket` where there is none.
    pub(crate) fn open(&mut self, server: Option<SocketAddr>) -> Result<(LinkSetup, u16)> {
        let bound = match self.ports {
            Some((first, last)) => UdpSocket::bind_in_range(self.ip, first..=last, &self.options),
            None => {
                let v4 = server.map_or(self.ip.is_ipv4(), |server| server.is_ipv4());
                let any: IpAddr =
                    if v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
                UdpSocket::bind(SocketAddr::new(any, 0), &self.options)
            }
        };
        let no = |what: &str, error: std::io::Error| {
            Error::new(ErrorKind::Socket, format!("{what} for one more lane: {error}"))
        };
        let socket = bound.map_err(|error| no("cannot make a UDP socket", error))?;
        let waker = Waker::new().map_err(|error| no("cannot make an event descriptor", error))?;
        let Some(keys) = self.keys.pop_front() else {
            return Err(out_of_turn("there are keys for no further lane"));
        };
        let port = socket.local_addr().port();
        let link = LinkSetup {
            socket,
            waker,
            clock: crate::Clock::start(),
            keys,
            direction: self.direction,
            side: self.side,
            candidates: server.into_iter().collect(),
            named: Vec::new(),
            validation: self.validation,
        };
        Ok((link, port))
    }
}

fn times(time_us: u64, cpu: &Cpu) -> ThreadTimes {
    ThreadTimes { time_us, run_us: cpu.run_us, delay_us: cpu.delay_us }
}

/// The same address with another port, and its interface where it needs one.
pub(crate) fn at_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// The other end says something of lanes that it may not say now.
pub(crate) fn out_of_turn(what: &str) -> Error {
    let message = format!("{what}, which is out of turn; use the same version of fobs on both sides");
    Error::new(ErrorKind::Protocol, message)
}

/// What a lane is called that was added so long after the session's start.
pub(crate) fn name_of(seconds: f64) -> String {
    format!("the lane added at {seconds:.1} s")
}
