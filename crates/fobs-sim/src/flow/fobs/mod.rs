//! A FOBS transfer: sender and receiver of `fobs-proto` with the session's policy, each on its host, driven
//! as the engine's threads drive them.
//!
//! Sending host: a thread that reads chunks ahead (`reading`), and one that paces packets and takes acks
//! (`sending`). Receiving host: a thread that takes packets in batches and reports (`receiving`), and one
//! that verifies chunks as they complete and stores them in order (`writer`). The control channel is
//! reliable and takes the route's delay. Streams (`streams`) carry frames beside the datagrams (`framing`).
//! Several flows can be the lanes (`lane`) of one session.
//! Where ends are killed (`lives`), the store and its journal outlive them (`kept`).

mod audit;
mod framing;
mod kept;
mod lane;
mod lives;
mod measured;
mod observed;
mod reading;
mod receiving;
mod replay;
mod sending;
mod streams;
mod writer;

pub use fobs_proto::session::CHUNKS_MAX;
pub use kept::{Dies, Journaling, Kill};
pub use measured::{ReceiverMeasures, SenderMeasures, ThreadTime, Worked};
pub use streams::{StreamFaults, StreamsConfig};

pub use crate::object::{BYTES_MAX, Object};
pub use crate::session::{LaneSeat, SessionFigures};

use super::{FlowFigures, Identity, Outcome, Role};
use crate::check::rule;
use crate::host::HostConfig;
use crate::net::Net;
use crate::object::Cut;
use crate::packet::{Cargo, Packet, Way};
use crate::time::{MS, Nanos};
use fobs_proto::ChunkId;
use fobs_proto::congestion::{CongestionControl, ModeChange, Params, PathHistory, Priority};
use fobs_proto::loss_cause::JudgeMethod;
use fobs_proto::receiver::ReceiverConfig;
use fobs_proto::session::{ANSWER_WAIT, HEARTBEAT, Rejection, RouteChange, Silence};
use framing::Framing;
use kept::Kept;
pub(crate) use lane::LaneShared;
use receiving::Receiving;
use sending::Sending;
pub(crate) use sending::{controller_of, first_datagram};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use writer::WriterEvent;

/// Delay of the control channel beside the route's: a write, a wake-up and a read at either end.
const CONTROL_DELAY: Nanos = MS;

/// What a receiver reports of its own losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Honesty {
    /// The drops of its socket.
    Honest,
    /// No drops, because its kernel does not count them; only how late it reads.
    Uncounted,
    /// Everything that did not arrive as dropped by itself: a receiver that wants the sender not to slow
    /// down.
    ClaimsAllLosses,
}

/// Configuration of a FOBS flow.
#[derive(Debug, Clone, PartialEq)]
pub struct FobsConfig {
    /// The object.
    pub object: Object,
    /// Congestion control algorithm; `fixed` with its rate.
    pub controller: CongestionControl,
    /// Share of a bottleneck that `auto` claims beside other flows.
    pub priority: Priority,
    /// Numbers of `auto`.
    pub params: Params,
    /// The path as earlier transfers found it.
    pub history: PathHistory,
    /// Deadline, after the flow's start.
    pub deadline: Option<Nanos>,
    /// How the sender attributes losses.
    pub loss_cause: JudgeMethod,
    /// What the receiver reports of its own losses.
    pub honesty: Honesty,
    /// Never faster than this, bits per second.
    pub rate_limit: Option<u64>,
    /// Data bytes per packet; `None` probes the path.
    pub payload: Option<u16>,
    /// Maximum packets per burst; `None` for the controller's own.
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
    /// How long either side may be silent once it has been heard.
    pub timeout: Nanos,
    /// Whether datagrams that came before are refused by their number (protocol 3.5); without it the machine
    /// sees them.
    pub replay_window: bool,
    /// How often the verdict on each of these chunks is a mismatch.
    pub mismatches: BTreeMap<ChunkId, u8>,
    /// Deaths of its ends, each in an attempt of its own; the transfer is opened again after each.
    pub kills: Vec<Kill>,
    /// When the receiver's journal notes a chunk.
    pub journaling: Journaling,
    /// Streams beside the datagrams; `None` for a peer that knows none.
    pub streams: Option<StreamsConfig>,
    /// Which lane of a session it is; `None` for a session of its own.
    pub seat: Option<LaneSeat>,
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
            timeout: ANSWER_WAIT.as_nanos() as Nanos,
            replay_window: true,
            mismatches: BTreeMap::new(),
            kills: Vec::new(),
            journaling: Journaling::Stored,
            streams: None,
            seat: None,
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
    cut: Cut,
    sending: Sending,
    receiving: Receiving,
    /// Chunks that the receiver rejected, and when the message reaches the sender.
    rejections: VecDeque<(Nanos, ChunkId, u8)>,
    /// When the reports that the sender makes at its heartbeats reach the receiver.
    reports: VecDeque<Nanos>,
    outcome: Outcome,
    /// What outlives its processes, where they are killed.
    kept: Option<Box<Kept>>,
    /// Its streams, where both ends know them.
    framing: Option<Box<Framing>>,
    /// Number of the attempt, 0 for the first. Each has keys of its own: packets of others do not open.
    session: u32,
}

impl FobsFlow {
    /// A transfer between two hosts; a lane has what it shares.
    pub(crate) fn new(
        me: Identity,
        config: FobsConfig,
        (from, to): (&HostConfig, &HostConfig),
        seed: u64,
        shared: Option<LaneShared>,
    ) -> FobsFlow {
        let stream = lives::streams(me.id, seed);
        FobsFlow {
            sending: Sending::new(me, &config, from, (stream(0), stream(1)), shared),
            receiving: Receiving::new(me, &config, to, stream(2), stream(3)),
            me,
            cut: config.seat.map_or_else(|| Cut::new(config.object.clone()), |_| Cut::of_lane()),
            kept: Kept::new(&config, (from, to), seed),
            framing: Framing::new(me, &config, stream(4)),
            config,
            rejections: VecDeque::new(),
            reports: VecDeque::new(),
            outcome: Outcome::Running,
            session: 0,
        }
    }

    pub(crate) fn start(&mut self, net: &mut Net) {
        self.begin_lives(net);
        self.sending.start(net, &mut self.cut);
        self.direct(net);
        self.wait_for_heartbeat(net);
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome
    }

    pub(crate) fn on_packet(&mut self, net: &mut Net, packet: Packet) {
        if !self.outcome.is_running() {
            return;
        }
        let (sender_lives, receiver_lives) = self.alive();
        match packet.cargo {
            Cargo::Fobs { session, .. } if receiver_lives && session == self.session => {
                self.receiving.on_datagram(net, packet);
            }
            Cargo::FobsAck { session, number, bytes } if sender_lives && session == self.session => {
                self.sending.on_ack_datagram(net, number, bytes, packet.len, packet.damaged);
            }
            _ => {}
        }
    }

    pub(crate) fn on_due(&mut self, net: &mut Net, role: Role) {
        match role {
            Role::Send => self.sending.on_due(net, &mut self.cut),
            Role::Receive => self.on_receiver_due(net),
            Role::Read => self.sending.on_read(net, &mut self.cut),
            Role::Write => self.on_writer_due(net),
            Role::Control => self.on_control_due(net),
            Role::Heartbeat => self.on_heartbeat(net),
            Role::Fate => self.on_fate(net),
            Role::Streams => {}
        }
        if self.framing.is_some() {
            self.on_streams(net);
        }
        self.cut.forget_below(self.sending.freed().min(self.receiving.stored()));
        self.finish_if_done(net);
    }

    pub(crate) fn end(&mut self, net: &mut Net, outcome: Outcome) {
        if !self.outcome.is_running() {
            return;
        }
        self.outcome = outcome;
        self.quiet(net);
    }

    /// No thread runs any more.
    fn quiet(&mut self, net: &mut Net) {
        for role in Role::ALL {
            net.agenda.set(self.me.slot(role), None);
        }
        self.sending.clear();
        self.receiving.clear();
        if let Some(framing) = &mut self.framing {
            framing.clear();
        }
        self.rejections.clear();
        self.reports.clear();
    }

    pub(crate) fn calm(&mut self, net: &mut Net) {
        if let Some(kept) = &mut self.kept {
            kept.calm = true;
        }
        self.sending.calm(net);
        self.receiving.calm(net);
        if let Some(framing) = &mut self.framing {
            framing.calm();
        }
    }

    pub(crate) fn figures(&mut self, now: Nanos) -> FlowFigures {
        let mut figures = FlowFigures::default();
        self.sending.fill(&mut figures);
        self.receiving.fill(now, &mut figures);
        (figures.streams, figures.streams_ended) = self.framing.as_ref().map_or((0, 0), |f| f.figures());
        (figures.attempts, figures.again) = self.kept.as_ref().map_or((1, 0), |kept| kept.figures());
        figures
    }

    pub(crate) fn modes(&self) -> &[ModeChange] {
        self.sending.modes()
    }

    pub(crate) fn routes(&self) -> &[RouteChange] {
        self.framing.as_ref().map_or(&[], |framing| &framing.changes)
    }

    pub(crate) fn describe(&self) -> String {
        let kept = self.kept.as_ref().map(|kept| format!("; {}", kept.describe())).unwrap_or_default();
        format!("{}; {}{kept}", self.sending.describe(), self.receiving.describe())
    }

    fn on_receiver_due(&mut self, net: &mut Net) {
        let control_delay = net.delay(self.me.id, Way::Acks) + CONTROL_DELAY;
        let rejected = self.receiving.on_due(net, &self.config, &self.cut);
        for rejection in rejected {
            match rejection {
                Some((chunk, attempt)) => {
                    if let Some(kept) = &mut self.kept {
                        kept.on_rejected(&self.cut, chunk);
                    }
                    self.rejections.push_back((net.now + control_delay, chunk, attempt));
                }
                None => return self.end(net, Outcome::GaveUp),
            }
        }
        if let Some((at, ..)) = self.rejections.front().filter(|_| self.alive().0) {
            net.agenda.hasten(self.me.slot(Role::Control), *at);
        }
    }

    fn on_writer_due(&mut self, net: &mut Net) {
        match self.receiving.on_writer_due(net, &self.config) {
            WriterEvent::Failed(outcome) => self.end(net, outcome),
            WriterEvent::Nothing => {}
        }
        let (stored, begun) = self.receiving.written();
        if let Some(kept) = &mut self.kept {
            kept.on_written(net, &self.cut, stored, begun);
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
            let hopeless = matches!(again, Rejection::Hopeless { .. });
            rule!(
                net,
                !hopeless,
                "the receiver gives up before the sender",
                "chunk {chunk} attempt {attempt}"
            );
        }
    }

    fn wait_for_heartbeat(&self, net: &mut Net) {
        let next = net.now + HEARTBEAT.as_nanos() as Nanos;
        net.agenda.set(self.me.slot(Role::Heartbeat), Some(next));
    }

    /// Both sides ask for how long the other has been silent, as the engine's threads do at each heartbeat.
    fn on_heartbeat(&mut self, net: &mut Net) {
        while let Some(&at) = self.reports.front().filter(|at| **at <= net.now) {
            self.reports.pop_front();
            self.receiving.on_message(at);
        }
        let sides = [self.sending.check_silence(net.now), self.receiving.check_silence(net.now)];
        if sides != [Silence::Short; 2] {
            if self.survives_silence(net) {
                return;
            }
            self.leave_session(net);
            return self.end(net, Outcome::Silent);
        }
        self.reports.push_back(net.now + net.delay(self.me.id, Way::Data) + CONTROL_DELAY);
        self.direct(net);
        self.look_after_lane(net);
        self.wait_for_heartbeat(net);
    }

    fn finish_if_done(&mut self, net: &mut Net) {
        if let Some(seat) = self.config.seat {
            return self.finish_lane_if_done(net, seat);
        }
        if !self.outcome.is_running()
            || self.alive() != (true, true)
            || !self.sending.is_silent()
            || !self.receiving.is_complete()
        {
            return;
        }
        self.sending.check_end(net, &mut self.cut);
        self.receiving.check_end(net, &self.config, &self.cut);
        self.close_account(net);
        if let Some(kept) = &self.kept {
            kept.check_end(net);
        }
        self.end(net, Outcome::Complete);
    }
}
