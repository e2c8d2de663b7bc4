//! Flows: what hosts send each other.

pub mod fobs;
pub mod source;
pub mod tcp;

use crate::net::Net;
use crate::packet::{FlowId, Packet};
use crate::time::Nanos;
use fobs_proto::congestion::ModeChange;
use fobs_proto::session::RouteChange;

/// Slots that each flow has in the agenda.
pub(crate) const ROLES: u32 = 8;

/// What a slot of a flow is for. Flows with fewer actors leave the rest unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The sending thread, or the sending host's timer.
    Send,
    /// The receiving thread, or the receiving host's timer.
    Receive,
    /// The thread that reads chunks.
    Read,
    /// The thread that verifies and stores chunks.
    Write,
    /// The control channel.
    Control,
    /// The heartbeat of a transfer's two sides.
    Heartbeat,
    /// Deaths of its ends, and its next attempts.
    Fate,
    /// Streams beside its datagrams.
    Streams,
}

impl Role {
    const ALL: [Role; ROLES as usize] = [
        Role::Send,
        Role::Receive,
        Role::Read,
        Role::Write,
        Role::Control,
        Role::Heartbeat,
        Role::Fate,
        Role::Streams,
    ];

    pub(crate) fn of(index: u32) -> Role {
        Role::ALL[(index % ROLES) as usize]
    }
}

/// A flow's name in the agenda and in the network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) id: FlowId,
    /// The first of its slots.
    pub(crate) slots: u32,
    /// When it begins.
    pub(crate) start: Nanos,
}

impl Identity {
    pub(crate) fn slot(self, role: Role) -> u32 {
        self.slots + role as u32
    }
}

/// What a flow does.
#[derive(Debug, Clone, PartialEq)]
pub enum Traffic {
    /// A FOBS transfer.
    Fobs(Box<fobs::FobsConfig>),
    /// A TCP transfer, by a model.
    Tcp(tcp::TcpConfig),
    /// Packets without acknowledgements.
    Source(source::SourceConfig),
}

/// A flow of a world.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowConfig {
    /// Name, for tables.
    pub name: String,
    /// Host it comes from.
    pub from: String,
    /// Host it goes to.
    pub to: String,
    /// Nodes to pass, both hosts included; empty for the shortest route.
    pub via: Vec<String>,
    /// When it begins.
    pub start: Nanos,
    /// When it ends, if not by itself.
    pub stop: Option<Nanos>,
    /// What it does.
    pub traffic: Traffic,
}

impl FlowConfig {
    /// A flow that begins at once and takes the shortest route.
    pub fn new(name: &str, from: &str, to: &str, traffic: Traffic) -> FlowConfig {
        FlowConfig {
            name: name.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            via: Vec::new(),
            start: 0,
            stop: None,
            traffic,
        }
    }

    /// Whether the flow ends by itself.
    pub fn is_finite(&self) -> bool {
        match &self.traffic {
            Traffic::Fobs(_) => true,
            Traffic::Tcp(tcp) => tcp.bytes.is_some(),
            Traffic::Source(_) => false,
        }
    }
}

/// How a flow stands or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Still at work when the world ended.
    Running,
    /// Everything arrived; of a FOBS flow, verified and stored.
    Complete,
    /// It was stopped.
    Stopped,
    /// A chunk did not verify again and again.
    GaveUp,
    /// A side got no answer for longer than the session's policy allows.
    Silent,
    /// The receiver's disk was full.
    DiskFull,
    /// The receiver's disk failed.
    DiskFailed,
    /// A host crashed.
    Crashed,
}

impl Outcome {
    /// A word for tables.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Running => "running",
            Outcome::Complete => "complete",
            Outcome::Stopped => "stopped",
            Outcome::GaveUp => "gave up",
            Outcome::Silent => "silent",
            Outcome::DiskFull => "disk full",
            Outcome::DiskFailed => "disk failed",
            Outcome::Crashed => "crashed",
        }
    }

    /// Whether everything arrived.
    pub fn is_complete(self) -> bool {
        self == Outcome::Complete
    }

    /// Whether the flow goes on.
    pub fn is_running(self) -> bool {
        self == Outcome::Running
    }
}

/// Figures of a flow. Counters that do not apply are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FlowFigures {
    /// Useful bytes that arrived: payload, each byte once.
    pub delivered: u64,
    /// When the first packet left.
    pub began: Option<Nanos>,
    /// When the last useful byte was there.
    pub ended: Option<Nanos>,
    /// Packets sent.
    pub sent: u64,
    /// Packets that left in frames on streams.
    pub framed: u64,
    /// The number of streams that it found best; 0 before it was measured.
    pub streams: u32,
    /// Streams that ended by themselves.
    pub streams_ended: u64,
    /// Of both, packets that carried what had been sent before.
    pub repeated: u64,
    /// Packets declared lost that did not come after all.
    pub lost: u64,
    /// Of those, packets that were the receiver's and did not slow the sender down.
    pub spared: u64,
    /// Windows of losses whose cause the receiver's counters show.
    pub taught: Taught,
    /// Windows of losses that were judged.
    pub judged: Judged,
    /// Datagrams that the receiving socket had no room for.
    pub socket_drops: u64,
    /// Datagrams dropped because they were damaged.
    pub damaged: u64,
    /// Smallest round-trip time.
    pub rtt_min: Option<Nanos>,
    /// Present round-trip time.
    pub rtt: Option<Nanos>,
    /// Present rate of departures, bits per second.
    pub pacing: Option<u64>,
    /// Present congestion window, bytes.
    pub window: Option<u64>,
    /// Largest UDP payload of FOBS that the path is known to pass, bytes.
    pub datagram: u16,
    /// Attempts of a transfer whose ends are killed; the figures are the last one's.
    pub attempts: u64,
    /// Of a transfer whose ends are killed: bytes that more than one attempt sent.
    pub again: u64,
    /// Bytes that would survive a crash of the receiving host.
    pub durable: u64,
    /// Most chunks that the receiving side had open.
    pub chunks_open_max: u64,
    /// Time that competitors kept the receiving thread from its CPU.
    pub off_cpu: Nanos,
}

/// Windows of known cause, as a sender hands them out for training.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taught {
    /// Of the receiver.
    pub receiver: u64,
    /// Of the network.
    pub network: u64,
}

/// Judged windows of losses with enough of them for a pattern, by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Called the receiver's.
    pub receiver: u64,
    /// Called the network's.
    pub network: u64,
    /// Neither, which is treated as the network's.
    pub inconclusive: u64,
}

impl FlowFigures {
    /// Packets that carried what had been sent before, as a share of the others.
    pub fn waste(&self) -> f64 {
        let others = (self.sent + self.framed).saturating_sub(self.repeated);
        if others == 0 { 0.0 } else { self.repeated as f64 / others as f64 }
    }
}

/// A flow at work.
#[derive(Debug)]
pub(crate) enum Flow {
    Fobs(Box<fobs::FobsFlow>),
    Tcp(Box<tcp::TcpFlow>),
    Source(Box<source::Source>),
}

impl Flow {
    /// Begins.
    pub(crate) fn start(&mut self, net: &mut Net) {
        match self {
            Flow::Fobs(flow) => flow.start(net),
            Flow::Tcp(flow) => flow.start(net),
            Flow::Source(flow) => flow.start(net),
        }
    }

    /// A packet of the flow reached the host at the end of its way.
    pub(crate) fn on_packet(&mut self, net: &mut Net, packet: Packet) {
        match self {
            Flow::Fobs(flow) => flow.on_packet(net, packet),
            Flow::Tcp(flow) => flow.on_packet(net, packet),
            Flow::Source(flow) => flow.on_packet(&packet),
        }
    }

    /// One of its actors is due.
    pub(crate) fn on_due(&mut self, net: &mut Net, role: Role) {
        match self {
            Flow::Fobs(flow) => flow.on_due(net, role),
            Flow::Tcp(flow) => flow.on_due(net, role),
            Flow::Source(flow) => flow.on_due(net),
        }
    }

    /// It is stopped, or its host crashed.
    pub(crate) fn end(&mut self, net: &mut Net, outcome: Outcome) {
        match self {
            Flow::Fobs(flow) => flow.end(net, outcome),
            Flow::Tcp(flow) => flow.end(net, outcome),
            Flow::Source(flow) => flow.end(net, outcome),
        }
    }

    /// Faults of its hosts are over.
    pub(crate) fn calm(&mut self, net: &mut Net) {
        match self {
            Flow::Fobs(flow) => flow.calm(net),
            Flow::Tcp(_) | Flow::Source(_) => {}
        }
    }

    /// The flow, if it is a FOBS transfer.
    pub(crate) fn fobs(&self) -> Option<&fobs::FobsFlow> {
        match self {
            Flow::Fobs(flow) => Some(flow),
            Flow::Tcp(_) | Flow::Source(_) => None,
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Flow::Fobs(flow) => flow.outcome(),
            Flow::Tcp(flow) => flow.outcome(),
            Flow::Source(flow) => flow.outcome(),
        }
    }

    pub(crate) fn figures(&mut self, now: Nanos) -> FlowFigures {
        match self {
            Flow::Fobs(flow) => flow.figures(now),
            Flow::Tcp(flow) => flow.figures(),
            Flow::Source(flow) => flow.figures(),
        }
    }

    /// Changes of its controller's way of sending.
    pub(crate) fn modes(&self) -> &[ModeChange] {
        match self {
            Flow::Fobs(flow) => flow.modes(),
            Flow::Tcp(_) | Flow::Source(_) => &[],
        }
    }

    /// Changes of the way by which its packets leave.
    pub(crate) fn routes(&self) -> &[RouteChange] {
        match self {
            Flow::Fobs(flow) => flow.routes(),
            Flow::Tcp(_) | Flow::Source(_) => &[],
        }
    }

    /// Its state, for the report of a failure.
    pub(crate) fn describe(&self) -> String {
        match self {
            Flow::Fobs(flow) => flow.describe(),
            Flow::Tcp(flow) => flow.describe(),
            Flow::Source(_) => String::new(),
        }
    }
}
