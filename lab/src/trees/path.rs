//! The path between the two ends: emulated, or a pair of virtual devices.

use std::path::Path;

use crate::link::spec::{LinkSpec, Way};
use crate::run::emulator::Emulator;
use crate::run::namespace::Namespace;
use crate::run::pair::{DEVICE, Pair};
use crate::run::places::Places;
use crate::run::tuning::Tuning;
use crate::tool::{Buffers, Host, PathFacts, Side, Tcp, Windows};
use crate::units::{Rate, Time};

/// A pair of virtual devices has no delay.
const PAIR_RATE_BPS: f64 = 10e9;
/// So that the devices cut and join packets as a network card does.
const WIRE_LIKE: [&str; 10] =
    ["tso", "off", "gso", "on", "tx-udp-segmentation", "off", "gro", "on", "rx-udp-gro-forwarding", "on"];

/// Two hosts and what lies between them; gone when it is dropped.
pub struct TreePath {
    link: Link,
    /// The client's host first.
    pub hosts: [Host; 2],
    /// Their namespaces.
    pub namespaces: [Namespace; 2],
    tunings: [Tuning; 2],
    /// What tools are told of it.
    pub facts: PathFacts,
}

/// What joins the hosts.
enum Link {
    Emulated(Emulator),
    /// Kept for its end.
    Pair {
        _pair: Pair,
    },
}

impl TreePath {
    /// Brings the path up: emulated with `rtt`, or a pair of devices where that is zero.
    pub fn new(rtt: Time, rate: Rate, folder: &Path) -> Result<TreePath, String> {
        let (link, hosts, facts) = match rtt.nanos() {
            0 => pair()?,
            _ => emulated(rtt, rate, folder)?,
        };
        let open = |host: &Host| Namespace::open(&host.namespace);
        let namespaces = [open(&hosts[0])?, open(&hosts[1])?];
        if let Link::Pair { .. } = link {
            for namespace in &namespaces {
                namespace.output(&[&["ethtool", "-K", DEVICE][..], &WIRE_LIKE].concat())?;
            }
        }
        let tunings = [Tuning::remember(&namespaces[0])?, Tuning::remember(&namespaces[1])?];
        Ok(TreePath { link, hosts, namespaces, tunings, facts })
    }

    /// Both kernels set alike for every contestant, and nothing remembered of the run before.
    pub fn reset(&self) -> Result<(), String> {
        let tcp = Tcp { congestion: None, buffers: Buffers::Tuned, windows: Windows::Large };
        for (namespace, tuning) in self.namespaces.iter().zip(&self.tunings) {
            tuning.apply(namespace, &tcp, &self.facts)?;
        }
        match &self.link {
            Link::Emulated(emulator) => emulator.reset(),
            Link::Pair { .. } => Ok(()),
        }
    }

    /// Why the run since [`TreePath::reset`] does not count; nothing if it does.
    pub fn doubts(&self) -> Result<Vec<String>, String> {
        match &self.link {
            Link::Emulated(emulator) => emulator.counters().map(|counters| counters.invalid_because),
            Link::Pair { .. } => Ok(Vec::new()),
        }
    }

    /// Processors of a host's programs; any if empty.
    pub fn processors(&self, side: Side) -> Vec<usize> {
        match (&self.link, side) {
            (Link::Pair { .. }, _) => Vec::new(),
            (Link::Emulated(_), Side::Sender) => Places::new(None).of(&self.hosts[0].name, side),
            (Link::Emulated(_), Side::Receiver) => Places::new(None).of(&self.hosts[1].name, side),
        }
    }
}

fn pair() -> Result<(Link, [Host; 2], PathFacts), String> {
    let pair = Pair::new("trees").map_err(|error| error.to_string())?;
    let facts = PathFacts {
        rate_bps: PAIR_RATE_BPS,
        return_rate_bps: PAIR_RATE_BPS,
        rtt: std::time::Duration::ZERO,
        queue_bytes: 0,
        mtu: 1500,
    };
    let hosts = pair.hosts().clone();
    Ok((Link::Pair { _pair: pair }, hosts, facts))
}

fn emulated(rtt: Time, rate: Rate, folder: &Path) -> Result<(Link, [Host; 2], PathFacts), String> {
    let text = format!("rtt = \"{rtt}\"\nrate = \"{rate}\"\n");
    let spec = LinkSpec::read(&text, &[]).map_err(|error| error.to_string())?;
    let emulator = Emulator::start(&spec, folder)?;
    let [client, server, ..] = emulator.hosts() else {
        return Err("the emulator made fewer than two hosts; report this bug".to_owned());
    };
    let hosts = [client.clone(), server.clone()];
    let facts = PathFacts {
        rate_bps: spec.link_rate(Way::Forward).bits_per_second() as f64,
        return_rate_bps: spec.link_rate(Way::Backward).bits_per_second() as f64,
        rtt: rtt.duration(),
        queue_bytes: spec.queue_bytes(Way::Forward),
        mtu: u32::from(spec.mtu),
    };
    Ok((Link::Emulated(emulator), hosts, facts))
}
