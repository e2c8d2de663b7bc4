//! A world: hosts, links and flows from a configuration, and the loop that lets happen what happens next.

mod flows;

use crate::agenda::Slot;
use crate::flow::fobs::{ReceiverMeasures, SenderMeasures, SessionFigures};
use crate::flow::{Flow, FlowConfig, FlowFigures, Identity, Outcome, ROLES, Role};
use crate::host::HostConfig;
use crate::link::{Change, Faults, Link, LinkStats};
use crate::log::Entry;
use crate::net::Net;
use crate::packet::FlowId;
use crate::rng::Rng;
use crate::session::Session;
use crate::time::{MS, Nanos};
use crate::topology::Edge;
use crate::violation::Violation;
use flows::{make_flow, routes, sessions, shared_by_lanes};
use fobs_proto::congestion::ModeChange;
use fobs_proto::session::{LANES_MAX, RouteChange};

/// Samples kept of each flow and link; beyond that every second one is dropped and the distance doubles.
pub const SAMPLES_MAX: usize = 2_000;
/// Flows of one world.
pub const FLOWS_MAX: usize = 256;

/// Everything about a world.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Name, for tables.
    pub name: String,
    /// Seed of all its randomness.
    pub seed: u64,
    /// When it ends at the latest.
    pub duration: Nanos,
    /// Hosts that flows begin and end at.
    pub hosts: Vec<HostConfig>,
    /// Links, each one direction.
    pub edges: Vec<Edge>,
    /// Flows.
    pub flows: Vec<FlowConfig>,
    /// What changes, at any time.
    pub changes: Vec<(Nanos, Happening)>,
    /// Distance of samples.
    pub sample: Nanos,
}

impl Config {
    /// A world without anything in it that ends after `duration`.
    pub fn new(name: &str, seed: u64, duration: Nanos) -> Config {
        Config {
            name: name.to_owned(),
            seed,
            duration,
            hosts: Vec::new(),
            edges: Vec::new(),
            flows: Vec::new(),
            changes: Vec::new(),
            sample: 100 * MS,
        }
    }
}

/// Something that happens at a time of its own.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// A link changes; by its place in the list.
    Link(usize, Change),
    /// All faults of links and hosts end, and sources fall silent: the liveness phase.
    Calm,
}

/// Why a world cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A flow's host is not in the list.
    #[error("flow {flow:?} names the host {host:?}, which does not exist")]
    NoHost {
        /// The flow.
        flow: String,
        /// The host.
        host: String,
    },
    /// There is no way between a flow's hosts.
    #[error("flow {flow:?} has no route from {from:?} to {to:?}; add links or correct `via`")]
    NoRoute {
        /// The flow.
        flow: String,
        /// Where it begins.
        from: String,
        /// Where it ends.
        to: String,
    },
    /// A lane is out of its place.
    #[error(
        "flow {flow:?} is out of its place: the lanes of a session, at most {LANES_MAX}, follow each other"
    )]
    Lanes {
        /// The flow.
        flow: String,
    },
    /// Too many flows.
    #[error("{count} flows are more than {FLOWS_MAX}")]
    TooManyFlows {
        /// How many.
        count: usize,
    },
}

/// One flow's figures at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowSample {
    /// When.
    pub at: Nanos,
    /// Useful bytes delivered so far.
    pub delivered: u64,
    /// Newest round-trip time.
    pub rtt: Option<Nanos>,
    /// Rate of departures, bits per second.
    pub pacing: Option<u64>,
    /// Congestion window, bytes.
    pub window: Option<u64>,
    /// Bytes of its data that wait in the queues of its route.
    pub queued: u64,
}

/// One link's figures at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSample {
    /// When.
    pub at: Nanos,
    /// Time that a packet would wait.
    pub waiting: Nanos,
}

/// A flow after or during a run.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowView {
    /// How it stands.
    pub outcome: Outcome,
    /// Its figures.
    pub figures: FlowFigures,
    /// What it was like over time.
    pub samples: Vec<FlowSample>,
    /// Changes of its controller's way of sending.
    pub modes: Vec<ModeChange>,
    /// Changes of the way by which its packets leave.
    pub routes: Vec<RouteChange>,
}

/// A link after or during a run.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkView {
    /// What became of its packets.
    pub stats: LinkStats,
    /// The delay in its queue that half of the packets stayed below, and that 95% did.
    pub queue_delay: (Nanos, Nanos),
    /// What it was like over time.
    pub samples: Vec<LinkSample>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every flow that can end has.
    Finished,
    /// Time was up.
    TimeUp,
}

/// A running world.
#[derive(Debug)]
pub struct World {
    config: Config,
    pub(crate) net: Net,
    pub(crate) flows: Vec<Flow>,
    flow_slots: Slot,
    schedule: Vec<(Nanos, Step)>,
    done_of_schedule: usize,
    schedule_slot: Slot,
    sample_slot: Slot,
    sample: Nanos,
    flow_samples: Vec<Vec<FlowSample>>,
    link_samples: Vec<Vec<LinkSample>>,
    events: u64,
}

/// A happening of the configuration, or one that follows from it.
#[derive(Debug, Clone)]
enum Step {
    Given(Happening),
    Start(usize),
    Stop(usize),
    Crash(String),
}

impl World {
    /// The world of a configuration.
    ///
    /// # Errors
    /// Flows whose hosts or routes do not exist.
    pub fn new(config: Config) -> Result<World, ConfigError> {
        if config.flows.len() > FLOWS_MAX {
            return Err(ConfigError::TooManyFlows { count: config.flows.len() });
        }
        let routes = config.flows.iter().map(|flow| routes(&config.edges, flow)).collect::<Result<_, _>>()?;
        let links: Vec<Link> = (1u64..)
            .zip(&config.edges)
            .map(|(stream, edge)| Link::new(edge.link.clone(), Rng::stream(config.seed, stream)))
            .collect();
        let flow_slots = 2 * links.len() as Slot;
        let mut net = Net::new(links, routes);
        net.sessions = sessions(&config)?;
        let mut flows = Vec::new();
        for ((id, flow), shared) in (0..).zip(&config.flows).zip(shared_by_lanes(&config)) {
            let me = Identity { id, slots: flow_slots + u32::from(id) * ROLES, start: flow.start };
            for _ in 0..ROLES {
                net.agenda.add();
            }
            flows.push(make_flow(&config, flow, me, shared)?);
            flows.iter().last().and_then(Flow::fobs).iter().for_each(|flow| flow.take_seat(&mut net));
        }
        let schedule = schedule(&config);
        let (schedule_slot, sample_slot) = (net.agenda.add(), net.agenda.add());
        net.agenda.set(schedule_slot, schedule.first().map(|(at, _)| *at));
        let sample = config.sample.max(1);
        net.agenda.set(sample_slot, Some(sample));
        Ok(World {
            flow_samples: vec![Vec::new(); flows.len()],
            link_samples: vec![Vec::new(); config.edges.len()],
            net,
            flows,
            flow_slots,
            schedule,
            done_of_schedule: 0,
            schedule_slot,
            sample_slot,
            sample,
            events: 0,
            config,
        })
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn run(&mut self) -> Result<End, Violation> {
        self.run_until(self.config.duration)
    }

    /// Runs until every flow that can end has, or until a moment.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn run_until(&mut self, until: Nanos) -> Result<End, Violation> {
        while !self.is_finished() {
            let Some(at) = self.net.agenda.peek().filter(|at| *at <= until) else {
                self.net.now = self.net.now.max(until);
                self.check_links();
                return self.net.violation.clone().map_or(Ok(End::TimeUp), Err);
            };
            debug_assert!(at >= self.net.now, "time goes forward");
            self.net.now = at;
            self.step();
            if let Some(violation) = &self.net.violation {
                return Err(violation.clone());
            }
        }
        self.check_links();
        self.net.violation.clone().map_or(Ok(End::Finished), Err)
    }

    /// Records from now on what FOBS flows send and store. Memory grows with every packet: for short runs.
    pub fn keep_log(&mut self) {
        self.net.log.get_or_insert_default();
    }

    /// What was recorded; nothing unless [`World::keep_log`] was called.
    pub fn log(&self) -> &[Entry] {
        self.net.log.as_deref().unwrap_or_default()
    }

    /// The present moment.
    pub fn now(&self) -> Nanos {
        self.net.now
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Packets that have reached their hosts.
    pub fn packets(&self) -> u64 {
        self.net.delivered
    }

    /// A session of several lanes, by its place; `None` beyond the last.
    pub fn session(&self, id: usize) -> Option<SessionFigures> {
        self.net.sessions.get(id).map(Session::figures)
    }

    /// A flow, by its place in the configuration.
    pub fn flow(&mut self, id: usize) -> FlowView {
        let flow = &mut self.flows[id];
        FlowView {
            outcome: flow.outcome(),
            figures: flow.figures(self.net.now),
            samples: self.flow_samples[id].clone(),
            modes: flow.modes().to_vec(),
            routes: flow.routes().to_vec(),
        }
    }

    /// A link, by its place in the configuration.
    pub fn link(&self, id: usize) -> LinkView {
        let link = &self.net.links[id];
        LinkView {
            stats: link.stats(),
            queue_delay: (link.queue_delay(0.5), link.queue_delay(0.95)),
            samples: self.link_samples[id].clone(),
        }
    }

    /// What the ends of a FOBS flow measure of themselves at present; `None` for another flow.
    pub fn measures(&self, id: usize) -> Option<(SenderMeasures, ReceiverMeasures)> {
        self.flows.get(id)?.fobs().map(|flow| flow.measures(self.now()))
    }

    /// How things stand, for the report of a failure.
    pub fn describe(&self) -> String {
        let lines = self.flows.iter().zip(&self.config.flows).map(|(flow, config)| {
            format!("{} ({}): {}", config.name, flow.outcome().word(), flow.describe())
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    fn is_finished(&self) -> bool {
        let mut finite =
            self.flows.iter().zip(&self.config.flows).filter(|(_, config)| config.is_finite()).peekable();
        finite.peek().is_some() && finite.all(|(flow, _)| !flow.outcome().is_running())
    }

    fn step(&mut self) {
        let Some((_, slot)) = self.net.agenda.pop() else { return };
        self.events += 1;
        if slot < self.flow_slots {
            let link = (slot / 2) as usize;
            if slot % 2 == 0 {
                self.net.on_departure(link);
            } else {
                while let Some(packet) = self.net.pop_arrival(link) {
                    self.flows[usize::from(packet.flow)].on_packet(&mut self.net, packet);
                }
            }
        } else if slot < self.schedule_slot {
            let index = slot - self.flow_slots;
            self.flows[(index / ROLES) as usize].on_due(&mut self.net, Role::of(index));
        } else if slot == self.schedule_slot {
            self.follow_schedule();
        } else {
            self.take_samples();
        }
    }

    fn follow_schedule(&mut self) {
        while let Some((at, step)) = self.schedule.get(self.done_of_schedule).cloned() {
            if at > self.net.now {
                self.net.agenda.set(self.schedule_slot, Some(at));
                return;
            }
            self.done_of_schedule += 1;
            match step {
                Step::Given(Happening::Link(link, change)) => self.change(link, change),
                Step::Given(Happening::Calm) => self.calm(),
                Step::Start(flow) => self.flows[flow].start(&mut self.net),
                Step::Stop(flow) => self.end(flow, Outcome::Stopped),
                Step::Crash(host) => {
                    for flow in 0..self.flows.len() {
                        if [&self.config.flows[flow].from, &self.config.flows[flow].to].contains(&&host) {
                            self.end(flow, Outcome::Crashed);
                        }
                    }
                }
            }
        }
    }

    fn end(&mut self, flow: usize, outcome: Outcome) {
        if self.flows[flow].outcome().is_running() {
            self.flows[flow].end(&mut self.net, outcome);
        }
    }

    fn change(&mut self, link: usize, change: Change) {
        self.net.links[link].change(self.net.now, change);
        self.net.reschedule(link);
    }

    fn calm(&mut self) {
        for link in 0..self.net.links.len() {
            self.change(link, Change::Faults(Faults::default()));
            self.change(link, Change::Unpoliced);
        }
        for flow in 0..self.flows.len() {
            self.flows[flow].calm(&mut self.net);
            if !self.config.flows[flow].is_finite() {
                self.end(flow, Outcome::Stopped);
            }
        }
    }

    fn take_samples(&mut self) {
        let at = self.net.now;
        for ((id, flow), samples) in (0..).zip(&mut self.flows).zip(&mut self.flow_samples) {
            let FlowFigures { delivered, rtt, pacing, window, .. } = flow.figures(at);
            samples.push(FlowSample { at, delivered, rtt, pacing, window, queued: self.net.queued(id) });
        }
        for (link, samples) in self.net.links.iter().zip(&mut self.link_samples) {
            samples.push(LinkSample { at, waiting: link.waiting_time() });
        }
        let taken = self.flow_samples.first().map_or(0, Vec::len);
        if taken >= SAMPLES_MAX {
            self.flow_samples.iter_mut().for_each(thin_out);
            self.link_samples.iter_mut().for_each(thin_out);
            self.sample *= 2;
        }
        self.net.agenda.set(self.sample_slot, Some(at + self.sample));
    }

    /// Every packet has a fate, and no queue passed its limit.
    fn check_links(&mut self) {
        for id in 0..self.net.links.len() {
            let link = &self.net.links[id];
            let (stats, limit, inside) = (link.stats(), link.config().queue, link.inside());
            let out = stats.delivered + stats.dropped_full + stats.dropped_early + stats.policed;
            let out = out + stats.lost + stats.wire_full + inside;
            let name = &self.config.edges[id].link.name;
            if out != stats.entered + stats.copied {
                let detail = format!("link {name}: {stats:?}, {inside} inside");
                self.net.breach("every packet has a fate", detail);
            } else if stats.queue_max > limit {
                let detail = format!("link {name}: {} of {limit} bytes", stats.queue_max);
                self.net.breach("no queue past its limit", detail);
            }
        }
    }
}

fn thin_out<T>(samples: &mut Vec<T>) {
    let mut index = 0;
    samples.retain(|_| {
        index += 1;
        index % 2 == 0
    });
}

/// Everything that happens at a time of its own, in order; ties keep the order of the configuration.
fn schedule(config: &Config) -> Vec<(Nanos, Step)> {
    let mut schedule: Vec<(Nanos, Step)> = Vec::new();
    for (id, flow) in config.flows.iter().enumerate() {
        schedule.push((flow.start, Step::Start(id)));
        schedule.extend(flow.stop.map(|at| (at, Step::Stop(id))));
    }
    for host in &config.hosts {
        schedule.extend(host.crash.map(|at| (at, Step::Crash(host.name.clone()))));
    }
    schedule.extend(config.changes.iter().map(|(at, happening)| (*at, Step::Given(happening.clone()))));
    schedule.sort_by_key(|(at, _)| *at);
    schedule
}

const _: () = assert!(FLOWS_MAX <= FlowId::MAX as usize);
