//! A FOBS transfer: the real sender and receiver of `fobs-proto`, each on its host, driven the way the engine's threads drive them.
//!
//! Sending host: a thread that reads chunks ahead (`sending`) and one that paces packets and hears acks. Receiving host: a thread
//! that takes packets in batches and reports (`receiving`), and one that verifies chunks as they complete and stores them in order
//! (`writer`). The control channel is reliable and takes the route's delay.

mod object;
mod receiving;
mod sending;
mod writer;

pub use object::{BYTES_MAX, CHUNK_DATA, Object};

use super::{FlowFigures, Identity, Outcome, Role};
use crate::check::rule;
use crate::host::HostConfig;
use crate::net::Net;
use crate::packet::{Cargo, Packet, Way};
use crate::rng::Rng;
use crate::time::{MS, Nanos};
use fobs_proto::ChunkId;
use fobs_proto::congestion::{CongestionControl, ModeChange, Params, PathHistory, Priority};
use fobs_proto::loss_cause::JudgeMethod;
use fobs_proto::receiver::ReceiverConfig;
use receiving::Receiving;
use sending::Sending;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use writer::WriterEvent;

/// Chunks that each side of the engine holds at most.
pub const CHUNKS_MAX: u32 = 40;
/// What the control channel adds to the route's delay: a write, a wake-up and a read at either end.
const CONTROL_DELAY: Nanos = MS;

/// What a receiver says of its own losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Honesty {
    /// What its socket dropped.
    Honest,
    /// Nothing, because its kernel counts no drops; only how late it read.
    Uncounted,
    /// That it dropped whatever did not arrive: a receiver that wants the sender not to slow down.
    ClaimsAllLosses,
}

/// What a FOBS flow is.
#[derive(Debug, Clone, PartialEq)]
pub struct FobsConfig {
    /// What is sent.
    pub object: Object,
    /// Who decides the rate; `fixed` with its rate.
    pub controller: CongestionControl,
    /// What `auto` claims of a shared link.
    pub priority: Priority,
    /// Numbers of `auto`.
    pub params: Params,
    /// What earlier transfers left of the path.
    pub history: PathHistory,
    /// When the object should be there, after the flow's start.
    pub deadline: Option<Nanos>,
    /// How the sender tells whose losses they were.
    pub loss_cause: JudgeMethod,
    /// What the receiver says of its own losses.
    pub honesty: Honesty,
    /// Never faster than this, bits per second.
    pub rate_limit: Option<u64>,
    /// Data bytes per packet; `None` probes the path.
    pub payload: Option<u16>,
    /// Packets put out before acks are looked at; `None` for the controller's own.
    pub burst: Option<u32>,
    /// Whether packets leave in the papers' circular order whatever the controller wants.
    pub circular: bool,
    /// Chunks that the sender holds at once.
    pub sender_chunks: u32,
    /// New packets between acks.
    pub ack_every: u32,
    /// Longest time that a packet waits for its ack.
    pub ack_delay: Nanos,
    /// Chunks that the receiver holds at once: the credit.
    pub receiver_chunks: u32,
    /// How often the verdict on each of these chunks is a mismatch.
    pub mismatches: BTreeMap<ChunkId, u8>,
}

impl FobsConfig {
    /// A transfer with the product's defaults.
    pub fn new(object: Object, controller: CongestionControl) -> FobsConfig {
        FobsConfig {
            object,
            controller,
            priority: Priority::Fair,
            params: Params::default(),
            history: PathHistory::default(),
            deadline: None,
            loss_cause: JudgeMethod::On,
            honesty: Honesty::Honest,
            rate_limit: None,
            payload: None,
            burst: None,
            circular: false,
            sender_chunks: CHUNKS_MAX,
            ack_every: fobs_proto::receiver::ACK_EVERY,
            ack_delay: fobs_proto::receiver::ACK_DELAY_MAX.as_nanos() as Nanos,
            receiver_chunks: CHUNKS_MAX,
            mismatches: BTreeMap::new(),
        }
    }

    fn receiver(&self) -> ReceiverConfig {
        ReceiverConfig {
            ack_every: self.ack_every,
            ack_delay_max: Duration::from_nanos(self.ack_delay),
            chunks_max: self.receiver_chunks,
        }
    }
}

/// A transfer at work.
#[derive(Debug)]
pub(crate) struct FobsFlow {
    me: Identity,
    config: FobsConfig,
    sending: Sending,
    receiving: Receiving,
    /// Chunks that the receiver asks for again, and when the sender hears of it.
    rejections: VecDeque<(Nanos, ChunkId, u8)>,
    outcome: Outcome,
}

impl FobsFlow {
    /// A transfer between two hosts.
    pub(crate) fn new(
        me: Identity,
        config: FobsConfig,
        from: &HostConfig,
        to: &HostConfig,
        seed: u64,
    ) -> FobsFlow {
        let stream = |part: u64| Rng::new(seed, u64::from(me.id) * 16 + part + (1 << 20));
        FobsFlow {
            sending: Sending::new(me, &config, from, stream(0), stream(1)),
            receiving: Receiving::new(me, &config, to, stream(2), stream(3)),
            me,
            config,
            rejections: VecDeque::new(),
            outcome: Outcome::Running,
        }
    }

    pub(crate) fn start(&mut self, net: &mut Net) {
        self.sending.start(net, &self.config);
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome
    }

    pub(crate) fn on_packet(&mut self, net: &mut Net, packet: Packet) {
        if !self.outcome.is_running() {
            return;
        }
        match packet.way {
            Way::Data => self.receiving.on_datagram(net, packet),
            Way::Acks => {
                if let Cargo::FobsAck { number, bytes } = packet.cargo {
                    self.sending.on_ack_datagram(net, number, bytes, packet.len, packet.damaged);
                }
            }
        }
    }

    pub(crate) fn on_due(&mut self, net: &mut Net, role: Role) {
        match role {
            Role::Send => self.sending.on_due(net, &self.config),
            Role::Receive => self.on_receiver_due(net),
            Role::Read => self.sending.on_read(net, &self.config),
            Role::Write => self.on_writer_due(net),
            Role::Control => self.on_control_due(net),
        }
        self.finish_if_done(net);
    }

    pub(crate) fn end(&mut self, net: &mut Net, outcome: Outcome) {
        if !self.outcome.is_running() {
            return;
        }
        self.outcome = outcome;
        for role in Role::ALL {
            net.agenda.set(self.me.slot(role), None);
        }
        self.sending.clear();
        self.receiving.clear();
        self.rejections.clear();
    }

    pub(crate) fn calm(&mut self, net: &mut Net) {
        self.sending.calm(net);
        self.receiving.calm(net);
    }

    pub(crate) fn figures(&mut self, now: Nanos) -> FlowFigures {
        let mut figures = FlowFigures::default();
        self.sending.fill(&mut figures);
        self.receiving.fill(now, &mut figures);
        figures
    }

    pub(crate) fn modes(&self) -> &[ModeChange] {
        self.sending.modes()
    }

    pub(crate) fn describe(&self) -> String {
        format!("{}; {}", self.sending.describe(), self.receiving.describe())
    }

    fn on_receiver_due(&mut self, net: &mut Net) {
        let control_delay = net.delay(self.me.id, Way::Acks) + CONTROL_DELAY;
        let rejected = self.receiving.on_due(net, &self.config);
        for rejection in rejected {
            match rejection {
                Some((chunk, attempt)) => {
                    self.rejections.push_back((net.now + control_delay, chunk, attempt));
                }
                None => return self.end(net, Outcome::GaveUp),
            }
        }
        if let Some((at, ..)) = self.rejections.front() {
            net.agenda.hasten(self.me.slot(Role::Control), *at);
        }
    }

    fn on_writer_due(&mut self, net: &mut Net) {
        match self.receiving.on_writer_due(net, &self.config) {
            WriterEvent::Failed(outcome) => self.end(net, outcome),
            WriterEvent::Nothing => {}
        }
    }

    fn on_control_due(&mut self, net: &mut Net) {
        while let Some(&(at, chunk, attempt)) = self.rejections.front() {
            if at > net.now {
                net.agenda.set(self.me.slot(Role::Control), Some(at));
                return;
            }
            self.rejections.pop_front();
            let again = self.sending.on_rejected(net, chunk, attempt);
            rule!(net, again, "the receiver gives up before the sender", "chunk {chunk} attempt {attempt}");
        }
    }

    fn finish_if_done(&mut self, net: &mut Net) {
        if !self.outcome.is_running() || !self.sending.is_silent() || !self.receiving.is_complete() {
            return;
        }
        self.sending.check_end(net, &self.config);
        self.receiving.check_end(net, &self.config);
        self.end(net, Outcome::Complete);
    }
}
