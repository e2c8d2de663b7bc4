//! TCP transfers by a model: packets, selective acknowledgements, loss detection as RACK does it (RFC 8985),
//! retransmission timeout, receive window, and window algorithms, one file each. What is left out: handshake,
//! ECN, silly windows, offloads; a receiver acknowledges every second packet at once and a single one after
//! 40 ms, as Linux does.
//!
//! Deliberately independent of `fobs_proto::congestion`: a bug there must not hide in its own competitor.

mod bbr;
mod receiver;
mod scoreboard;
mod window;

use super::{FlowFigures, Identity, Outcome, Role};
use crate::net::Net;
use crate::packet::{Cargo, Ecn, Packet, TcpAck, Way};
use crate::time::{MS, Nanos, stamp, time_for};
use bbr::Bbr;
use fobs_proto::recovery::Rtt;
use receiver::TcpReceiver;
use scoreboard::{AckNews, Scoreboard};
use std::collections::VecDeque;
use std::time::Duration;
use window::{Cubic, HighSpeed, Reno, Window};

/// Payload of a packet: 1500 bytes less IPv4, TCP and time stamps.
pub const SEGMENT: u64 = 1448;
/// A full packet with IP and TCP headers.
const PACKET: u32 = 1500;
/// An acknowledgement with one or two SACK blocks.
const ACK_PACKET: u32 = 68;
/// Smallest retransmission timeout (Linux), and the first before any sample (RFC 6298).
const RTO_MIN: Nanos = 200 * MS;
const RTO_FIRST: Nanos = 1000 * MS;
/// Longest timeout.
const RTO_MAX: Nanos = 60_000 * MS;
/// Packets to start with (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0;
/// Bytes that a connection puts on its own interface before it waits: TCP small queues.
const INTERFACE_BYTES: u64 = 128 << 10;

/// Window algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681.
    Reno,
    /// RFC 9438, with the slow-start exit of RFC 9406.
    Cubic,
    /// RFC 3649.
    HighSpeed,
    /// Version 1 (Cardwell and others 2016), which Linux has.
    Bbr,
}

impl Algorithm {
    /// All of them.
    pub const ALL: &[Algorithm] = &[Algorithm::Reno, Algorithm::Cubic, Algorithm::HighSpeed, Algorithm::Bbr];

    /// Name, as Linux has it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Reno => "reno",
            Algorithm::Cubic => "cubic",
            Algorithm::HighSpeed => "highspeed",
            Algorithm::Bbr => "bbr",
        }
    }

    fn window(self) -> Box<dyn Window> {
        match self {
            Algorithm::Reno => Box::new(Reno::default()),
            Algorithm::Cubic => Box::new(Cubic::default()),
            Algorithm::HighSpeed => Box::new(HighSpeed::default()),
            Algorithm::Bbr => Box::new(Bbr::default()),
        }
    }
}

/// What a TCP flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpConfig {
    /// Window algorithm.
    pub algorithm: Algorithm,
    /// Bytes to send; `None` for without end.
    pub bytes: Option<u64>,
    /// Receive window, bytes.
    pub receive_window: u64,
}

impl TcpConfig {
    /// A transfer without end and with a receive window of 64 MiB.
    pub fn endless(algorithm: Algorithm) -> TcpConfig {
        TcpConfig { algorithm, bytes: None, receive_window: 64 << 20 }
    }
}

/// A TCP flow at work.
#[derive(Debug)]
pub(crate) struct TcpFlow {
    me: Identity,
    config: TcpConfig,
    window: Box<dyn Window>,
    board: Scoreboard,
    receiver: TcpReceiver,
    rtt: Rtt,
    /// Places to send again.
    again: VecDeque<u64>,
    next_place: u64,
    /// Every place below is there.
    acked_below: u64,
    /// No further reduction until this transmission is acknowledged.
    recovery_until: Option<u64>,
    timeout_at: Option<Nanos>,
    backoff: u32,
    next_departure: Nanos,
    lost: u64,
    outcome: Outcome,
    began: Option<Nanos>,
    ended: Option<Nanos>,
}

impl TcpFlow {
    pub(crate) fn new(me: Identity, config: TcpConfig) -> TcpFlow {
        TcpFlow {
            me,
            config,
            window: config.algorithm.window(),
            board: Scoreboard::default(),
            receiver: TcpReceiver::default(),
            rtt: Rtt::default(),
            again: VecDeque::new(),
            next_place: 0,
            acked_below: 0,
            recovery_until: None,
            timeout_at: None,
            backoff: 0,
            next_departure: 0,
            lost: 0,
            outcome: Outcome::Running,
            began: None,
            ended: None,
        }
    }

    pub(crate) fn start(&mut self, net: &mut Net) {
        self.began = Some(net.now);
        self.send(net);
    }

    pub(crate) fn on_packet(&mut self, net: &mut Net, packet: Packet) {
        if packet.damaged || !self.outcome.is_running() {
            return;
        }
        match packet.cargo {
            Cargo::Tcp { place, transmission } => {
                let at_once = self.receiver.on_segment(net.now, place, transmission);
                if at_once {
                    self.acknowledge(net);
                } else {
                    net.agenda.set(self.me.slot(Role::Receive), self.receiver.deadline());
                }
            }
            Cargo::TcpAck(ack) => self.on_ack(net, &ack),
            _ => {}
        }
    }

    pub(crate) fn on_due(&mut self, net: &mut Net, role: Role) {
        match role {
            Role::Receive => self.acknowledge(net),
            _ => {
                if self.timeout_at.is_some_and(|at| at <= net.now) {
                    self.on_timeout(net);
                }
                self.send(net);
            }
        }
    }

    pub(crate) fn end(&mut self, net: &mut Net, outcome: Outcome) {
        self.outcome = outcome;
        self.ended = Some(net.now);
        net.agenda.set(self.me.slot(Role::Send), None);
        net.agenda.set(self.me.slot(Role::Receive), None);
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome
    }

    pub(crate) fn figures(&self) -> FlowFigures {
        let nanos = |d: Duration| d.as_nanos() as Nanos;
        FlowFigures {
            delivered: self.receiver.unique() * SEGMENT,
            began: self.began,
            ended: self.ended,
            sent: self.board.next(),
            repeated: self.board.next() - self.next_place,
            lost: self.lost,
            rtt_min: self.rtt.min_ever().map(nanos),
            rtt: self.rtt.latest().map(nanos),
            pacing: self.window.pacing(),
            window: Some(self.window.packets() as u64 * SEGMENT),
            ..FlowFigures::default()
        }
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "{} window {:.1}, {} in flight, {} to send again, places {} to {}, timeout {:?}",
            self.config.algorithm.name(),
            self.window.packets(),
            self.board.in_flight(),
            self.again.len(),
            self.acked_below,
            self.next_place,
            self.timeout_at,
        )
    }

    fn acknowledge(&mut self, net: &mut Net) {
        net.agenda.set(self.me.slot(Role::Receive), None);
        let ack = self.receiver.ack();
        net.send(Packet {
            flow: self.me.id,
            way: Way::Acks,
            hop: 0,
            ecn: Ecn::NotCapable,
            damaged: false,
            len: ACK_PACKET,
            cargo: Cargo::TcpAck(Box::new(ack)),
        });
    }

    fn on_ack(&mut self, net: &mut Net, ack: &TcpAck) {
        let now = net.now;
        self.acked_below = self.acked_below.max(ack.next_place);
        if self.last_place().is_some_and(|last| self.acked_below >= last) {
            return self.end(net, Outcome::Complete);
        }
        let news = self.board.on_ack(now, &ack.ranges);
        if let Some(sent_at) = news.newest_sent_at {
            self.rtt.on_sample(stamp(now), Duration::from_nanos(now - sent_at), Duration::ZERO);
        }
        if news.newly_acked > 0 {
            self.backoff = 0;
            self.set_timeout(now);
        }
        // RFC 8985: what was sent a quarter of a round trip before something that arrived is lost.
        let srtt = self.rtt.smoothed().as_nanos() as Nanos;
        let patience = self.rtt.min().map_or(srtt, |min| min.as_nanos() as Nanos) / 4;
        let lost_before = self.lost;
        let (again, lost) = (&mut self.again, &mut self.lost);
        self.board.detect_losses(patience, |place| {
            *lost += 1;
            again.push_back(place);
        });
        let lost = self.lost - lost_before;
        if self.recovery_until.is_some_and(|until| news.newest.is_some_and(|n| n >= until)) {
            self.recovery_until = None;
        }
        let in_recovery = self.recovery_until.is_some();
        let report = self.report(now, &news, lost, in_recovery);
        if lost > 0 && !in_recovery {
            self.recovery_until = Some(self.board.next());
            self.window.on_loss(&report);
        }
        self.window.on_ack(&report);
        self.send(net);
    }

    fn report(&self, now: Nanos, news: &AckNews, lost: u64, in_recovery: bool) -> window::AckReport {
        let nanos = |d: Duration| d.as_nanos() as Nanos;
        window::AckReport {
            now,
            acked: news.newly_acked,
            lost,
            in_flight: self.board.in_flight(),
            rtt: self.rtt.latest().map_or(0, nanos),
            min_rtt: self.rtt.min().map_or(0, nanos),
            round: news.round,
            rate: news.rate,
            in_recovery,
        }
    }

    fn on_timeout(&mut self, net: &mut Net) {
        self.timeout_at = None;
        let again = &mut self.again;
        let lost = self.board.lose_all(|place| again.push_back(place));
        self.lost += lost;
        self.backoff = (self.backoff + 1).min(8);
        self.recovery_until = Some(self.board.next());
        let report = self.report(net.now, &AckNews::default(), lost, true);
        self.window.on_timeout(&report);
    }

    fn set_timeout(&mut self, now: Nanos) {
        let base = self
            .rtt
            .latest()
            .map_or(RTO_FIRST, |_| (self.rtt.probe_timeout(Duration::ZERO).as_nanos() as Nanos).max(RTO_MIN));
        let timeout = base.saturating_mul(1 << self.backoff).min(RTO_MAX);
        self.timeout_at = (self.board.in_flight() > 0).then_some(now + timeout);
    }

    /// Sends what window, receiver, interface and pace allow.
    fn send(&mut self, net: &mut Net) {
        let now = net.now;
        let window = self.window.packets().max(1.0) as u64;
        let mut wake = None;
        while self.board.in_flight() < window {
            if let Some(at) = net.room_at(self.me.id, Way::Data, INTERFACE_BYTES) {
                wake = Some(at);
                break;
            }
            if self.window.pacing().is_some() && self.next_departure > now {
                wake = Some(self.next_departure);
                break;
            }
            let Some(place) = self.next_to_send() else { break };
            let transmission = self.board.on_sent(now, place);
            if let Some(rate) = self.window.pacing() {
                self.next_departure =
                    self.next_departure.max(now) + time_for(u64::from(PACKET), rate.max(100_000));
            }
            net.send(Packet {
                flow: self.me.id,
                way: Way::Data,
                hop: 0,
                ecn: Ecn::NotCapable,
                damaged: false,
                len: PACKET,
                cargo: Cargo::Tcp { place, transmission },
            });
        }
        if self.timeout_at.is_none() {
            self.set_timeout(now);
        }
        let next = [wake, self.timeout_at].into_iter().flatten().min();
        net.agenda.set(self.me.slot(Role::Send), next);
    }

    fn next_to_send(&mut self) -> Option<u64> {
        while let Some(place) = self.again.pop_front() {
            if place >= self.acked_below {
                return Some(place);
            }
        }
        let in_window = (self.next_place - self.acked_below) * SEGMENT < self.config.receive_window;
        if !in_window || self.last_place().is_some_and(|last| self.next_place >= last) {
            return None;
        }
        self.next_place += 1;
        Some(self.next_place - 1)
    }

    fn last_place(&self) -> Option<u64> {
        self.config.bytes.map(|bytes| bytes.div_ceil(SEGMENT).max(1))
    }
}
