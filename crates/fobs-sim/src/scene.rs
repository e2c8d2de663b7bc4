//! Flows through one bottleneck in a few lines: what most tests and tables need.
//!
//! ```
//! use fobs_proto::congestion::CongestionControl;
//! use fobs_sim::flow::fobs::{FobsConfig, Object};
//! use fobs_sim::scene::Scene;
//! use fobs_sim::time::{MS, SEC};
//!
//! let object = Object::Bytes(5_000_000);
//! let mut played = Scene::new(100_000_000, 20 * MS)
//!     .fobs(FobsConfig::new(object, CongestionControl::Auto))
//!     .drop([3, 4, 5])
//!     .play();
//! assert!(played.flow(0).outcome.is_complete());
//! assert_eq!(played.flow(0).figures.lost, 3);
//! ```
//!
//! Each flow runs between hosts of its own, `s0 -> r0`, `s1 -> r1`, ...; the bottleneck is link 0, the way
//! back link 1.

use crate::flow::fobs::FobsConfig;
use crate::flow::tcp::{Algorithm, TcpConfig};
use crate::flow::{FlowConfig, Traffic};
use crate::host::HostConfig;
use crate::link::{Change, Faults, LinkConfig};
use crate::log::Entry;
use crate::time::{Nanos, SEC};
use crate::topology::{Dumbbell, Edge};
use crate::world::{Config, FlowView, Happening, LinkView, World};

/// Shortest queue of [`Scene::queue_quarters`], bytes: 20 full packets, a burst and a half.
const QUEUE_MIN: u64 = 30_000;
/// Virtual time after which a scene ends that has no other end.
const LASTS: Nanos = 300 * SEC;

/// Where the bottleneck is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bottleneck {
    /// In a router, which drops what finds its queue full; interfaces of hosts have this rate, bits per
    /// second.
    Router { interface_rate: u64 },
    /// The interface of the sending host, which makes its sockets wait instead.
    Interface,
}

/// A flow and its hosts.
#[derive(Debug, Clone)]
pub struct SceneFlow {
    /// The host that sends.
    pub sender: HostConfig,
    /// The host that receives.
    pub receiver: HostConfig,
    /// The flow.
    pub flow: FlowConfig,
}

/// Flows through one bottleneck.
#[derive(Debug, Clone)]
pub struct Scene {
    seed: u64,
    lasts: Nanos,
    rtt: Nanos,
    bottleneck: Bottleneck,
    link: LinkConfig,
    back: LinkConfig,
    flows: Vec<SceneFlow>,
    changes: Vec<(Nanos, Happening)>,
}

impl Scene {
    /// A drop-tail bottleneck of `rate` bits per second with a queue of one bandwidth-delay product, behind
    /// interfaces ten times as fast. `rate` 0 is no limit.
    pub fn new(rate: u64, rtt: Nanos) -> Scene {
        let scene = Scene {
            seed: 1,
            lasts: LASTS,
            rtt,
            bottleneck: Bottleneck::Router { interface_rate: rate.saturating_mul(10) },
            link: LinkConfig::new("bottleneck", rate, rtt / 2, u64::MAX),
            back: LinkConfig::wire("back", rtt / 2),
            flows: Vec::new(),
            changes: Vec::new(),
        };
        scene.queue_quarters(4)
    }

    /// Another seed than 1.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Scene {
        self.seed = seed;
        self
    }

    /// The scene ends here at the latest; without this, after 300 s.
    #[must_use]
    pub fn lasts(mut self, time: Nanos) -> Scene {
        self.lasts = time;
        self
    }

    /// Length of the bottleneck's queue, bytes.
    #[must_use]
    pub fn queue(mut self, bytes: u64) -> Scene {
        self.link.queue = bytes;
        self
    }

    /// Length of the bottleneck's queue in quarters of the bandwidth-delay product, at least 30 kB.
    #[must_use]
    pub fn queue_quarters(mut self, quarters: u64) -> Scene {
        let product = u128::from(self.link.rate) * u128::from(self.rtt) / u128::from(8 * SEC);
        self.link.queue = (product as u64 * quarters / 4).max(QUEUE_MIN);
        self
    }

    /// Rate of the hosts' interfaces, bits per second.
    #[must_use]
    pub fn interface_rate(mut self, rate: u64) -> Scene {
        self.bottleneck = Bottleneck::Router { interface_rate: rate };
        self
    }

    /// The bottleneck is the sending host's own interface: a full queue makes its socket wait instead of
    /// dropping. For scenes of one flow.
    #[must_use]
    pub fn at_own_interface(mut self) -> Scene {
        self.bottleneck = Bottleneck::Interface;
        self
    }

    /// Changes the bottleneck.
    #[must_use]
    pub fn link(mut self, edit: impl FnOnce(&mut LinkConfig)) -> Scene {
        edit(&mut self.link);
        self
    }

    /// Changes the way back, which without this only delays.
    #[must_use]
    pub fn back(mut self, edit: impl FnOnce(&mut LinkConfig)) -> Scene {
        edit(&mut self.back);
        self
    }

    /// These packets are lost behind the bottleneck, counted from 0 in the order in which they leave it.
    #[must_use]
    pub fn drop(mut self, packets: impl IntoIterator<Item = u64>) -> Scene {
        self.link.faults.drops.extend(packets);
        self
    }

    /// Nothing passes the bottleneck from one moment until the other.
    #[must_use]
    pub fn outage(mut self, from: Nanos, until: Nanos) -> Scene {
        self.link.faults.outages.push((from, until));
        self
    }

    /// No ack passes from one moment until the other.
    #[must_use]
    pub fn ack_outage(mut self, from: Nanos, until: Nanos) -> Scene {
        self.back.faults.outages.push((from, until));
        self
    }

    /// The bottleneck changes.
    #[must_use]
    pub fn change(mut self, at: Nanos, change: Change) -> Scene {
        self.changes.push((at, Happening::Link(0, change)));
        self
    }

    /// All faults are over.
    #[must_use]
    pub fn calm(mut self, at: Nanos) -> Scene {
        self.changes.push((at, Happening::Calm));
        self
    }

    /// The bottleneck has other faults from now on.
    #[must_use]
    pub fn faults(self, at: Nanos, faults: Faults) -> Scene {
        self.change(at, Change::Faults(faults))
    }

    /// Another flow, between ordinary hosts, which begins at once.
    #[must_use]
    pub fn flow(mut self, traffic: Traffic) -> Scene {
        let id = self.flows.len();
        let (from, to) = (format!("s{id}"), format!("r{id}"));
        self.flows.push(SceneFlow {
            sender: HostConfig::ordinary(&from),
            receiver: HostConfig::ordinary(&to),
            flow: FlowConfig::new(&from, &from, &to, traffic),
        });
        self
    }

    /// A FOBS transfer.
    #[must_use]
    pub fn fobs(self, config: FobsConfig) -> Scene {
        self.flow(Traffic::Fobs(Box::new(config)))
    }

    /// A TCP flow that never ends.
    #[must_use]
    pub fn tcp(self, algorithm: Algorithm) -> Scene {
        self.flow(Traffic::Tcp(TcpConfig::endless(algorithm)))
    }

    /// Changes the flow that was added last, and its hosts. Their names stay as they are.
    #[must_use]
    pub fn with(mut self, edit: impl FnOnce(&mut SceneFlow)) -> Scene {
        if let Some(last) = self.flows.last_mut() {
            edit(last);
        }
        self
    }

    /// The flow that was added last begins at this time.
    #[must_use]
    pub fn starts(self, at: Nanos) -> Scene {
        self.with(|flow| flow.flow.start = at)
    }

    /// The flow that was added last ends at this time.
    #[must_use]
    pub fn stops(self, at: Nanos) -> Scene {
        self.with(|flow| flow.flow.stop = Some(at))
    }

    /// The flow that was added last runs between hosts that add next to no delay.
    #[must_use]
    pub fn between_ideal_hosts(self) -> Scene {
        self.with(|flow| {
            flow.sender = HostConfig::ideal(&flow.sender.name);
            flow.receiver = HostConfig::ideal(&flow.receiver.name);
        })
    }

    /// The configuration.
    pub fn config(self) -> Config {
        let edges = match self.bottleneck {
            Bottleneck::Interface => vec![Edge::new("s0", "r0", self.link), Edge::new("r0", "s0", self.back)],
            Bottleneck::Router { interface_rate } => {
                let (pairs, mtu) = (self.flows.len(), self.link.mtu.max(1500));
                let bell = Dumbbell { pairs, interface_rate, bottleneck: self.link, back: self.back };
                let mut edges = bell.edges();
                edges.iter_mut().skip(2).for_each(|edge| edge.link.mtu = mtu);
                edges
            }
        };
        let mut config =
            Config { edges, changes: self.changes, ..Config::new("scene", self.seed, self.lasts) };
        for flow in self.flows {
            config.hosts.extend([flow.sender, flow.receiver]);
            config.flows.push(flow.flow);
        }
        config
    }

    /// Starts the scene without running it.
    ///
    /// # Panics
    /// If the scene is no world: a host with another name, too many flows.
    pub fn start(self) -> Played {
        Played { world: World::new(self.config()).expect("hosts and routes of a scene exist") }
    }

    /// Runs the scene until all flows that end have ended, or until its time is up.
    ///
    /// # Panics
    /// If a rule is broken; names the rule and the seed.
    pub fn play(self) -> Played {
        let mut played = self.start();
        let end = played.world.config().duration;
        played.run_until(end);
        played
    }
}

/// A scene at work, or after its end.
#[derive(Debug)]
pub struct Played {
    /// Its world.
    pub world: World,
}

impl Played {
    /// Goes on until all flows that end have ended, or until a moment.
    ///
    /// # Panics
    /// If a rule is broken; names the rule and the seed.
    pub fn run_until(&mut self, at: Nanos) -> &mut Played {
        if let Err(violation) = self.world.run_until(at) {
            panic!("seed {}: {violation}\n{}", self.world.config().seed, self.world.describe());
        }
        self
    }

    /// A flow, in the order in which they were added.
    pub fn flow(&mut self, id: usize) -> FlowView {
        self.world.flow(id)
    }

    /// The bottleneck.
    pub fn bottleneck(&self) -> LinkView {
        self.world.link(0)
    }

    /// Useful bytes that each flow has delivered.
    pub fn delivered(&mut self) -> Vec<u64> {
        (0..self.world.config().flows.len()).map(|id| self.world.flow(id).figures.delivered).collect()
    }

    /// Share of the bottleneck's rate that each flow got between two moments, 0 to 1. Runs the scene that
    /// far.
    ///
    /// # Panics
    /// If a rule is broken.
    pub fn shares(&mut self, from: Nanos, until: Nanos) -> Vec<f64> {
        let before = self.run_until(from).delivered();
        let after = self.run_until(until).delivered();
        let carries =
            self.world.config().edges[0].link.rate as f64 / 8.0 * (until - from) as f64 / SEC as f64;
        after.iter().zip(before).map(|(after, before)| (after - before) as f64 / carries).collect()
    }

    /// Share of the bottleneck's first rate that a flow got from its first packet to its last useful byte, 0
    /// to 1.
    pub fn share(&mut self, id: usize) -> f64 {
        let FlowView { outcome, figures, .. } = self.world.flow(id);
        let took = crate::report::span(&figures, outcome, self.world.now());
        crate::report::mbit(figures.delivered, took) * 1e6 / self.world.config().edges[0].link.rate as f64
    }

    /// What FOBS flows have sent and stored so far, in order, if [`World::keep_log`] was called at the start.
    pub fn log(&self) -> &[Entry] {
        self.world.log()
    }
}
