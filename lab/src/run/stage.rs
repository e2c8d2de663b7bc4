//! A path that is up: the emulator, and what the runner needs of each of its hosts.

use std::collections::BTreeMap;
use std::path::Path;

use super::emulator::Emulator;
use super::namespace::Namespace;
use super::shaping;
use super::tuning::Tuning;
use crate::link::spec::Way;
use crate::plan::PlannedPath;
use crate::record::Link;
use crate::tool::PathFacts;

/// Header of IPv4 without options, header of UDP, and FOBS's own header and tag at their longest.
const FOBS_OVERHEAD_BYTES: f64 = (20 + 8 + 28) as f64;

/// A path that is up; taken down when it is dropped.
pub struct Stage {
    /// The emulator.
    pub emulator: Emulator,
    hosts: BTreeMap<String, StageHost>,
}

/// A host of the path.
pub struct StageHost {
    /// Its network namespace.
    pub namespace: Namespace,
    /// What its kernel was set to before the first run.
    pub tuning: Tuning,
}

impl Stage {
    /// Brings a path up; the emulator's files lie in `folder`.
    pub fn new(path: &PlannedPath, folder: &Path) -> Result<Stage, String> {
        let emulator = Emulator::start(&path.spec, folder)?;
        let mut hosts = BTreeMap::new();
        for host in emulator.hosts() {
            let namespace = Namespace::open(&host.namespace)?;
            let tuning = Tuning::remember(&namespace)?;
            if let Some(rate) = path.host_rate {
                shaping::limit(&namespace, rate)?;
            }
            hosts.insert(host.name.clone(), StageHost { namespace, tuning });
        }
        Ok(Stage { emulator, hosts })
    }

    /// The host of that name.
    pub fn host(&self, name: &str) -> Result<&StageHost, String> {
        self.hosts.get(name).ok_or_else(|| format!("the emulator made no host {name:?}"))
    }
}

/// The path, seen by a flow between two of its hosts.
pub fn facts(path: &PlannedPath, way: Way, ends: [&str; 2]) -> PathFacts {
    let back = match way {
        Way::Forward => Way::Backward,
        Way::Backward => Way::Forward,
    };
    let rate = |way| path.spec.link_rate(way).bits_per_second() as f64;
    let hosts = path.spec.hosts.west.iter().chain(&path.spec.hosts.east);
    // A host's own access line is crossed there and back.
    let access =
        hosts.filter(|host| ends.contains(&host.name.as_str())).map(|host| 2 * host.delay.duration());
    PathFacts {
        rate_bps: rate(way),
        return_rate_bps: rate(back),
        rtt: path.spec.base_rtt().duration() + access.sum(),
        queue_bytes: path.spec.queue_bytes(way),
        mtu: u32::from(path.spec.mtu),
    }
}

/// The same for a record.
pub fn link(path: &PlannedPath, way: Way, facts: &PathFacts) -> Link {
    let mtu = f64::from(facts.mtu);
    Link {
        rate_bps: facts.rate_bps,
        host_rate_bps: path.host_rate.map(|rate| rate.bits_per_second() as f64),
        rtt_ms: facts.rtt.as_secs_f64() * 1e3,
        loss: path.spec.mean_loss(way),
        queue_bytes: facts.queue_bytes,
        mtu: facts.mtu,
        payload_share: (mtu - FOBS_OVERHEAD_BYTES) / mtu,
    }
}
