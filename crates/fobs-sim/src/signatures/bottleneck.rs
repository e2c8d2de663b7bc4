//! A link of the simulator that takes packets one by one and shows which it drops.

use crate::link::{Discipline, Link, LinkConfig, PolicerConfig};
use crate::packet::{Cargo, Ecn, Packet, Way};
use crate::rng::Rng;
use crate::time::Nanos;

#[derive(Debug)]
pub(super) struct Bottleneck {
    link: Link,
    now: Nanos,
}

impl Bottleneck {
    /// A link of `rate` bits per second with a queue of `bytes`.
    pub(super) fn queue(rate: u64, bytes: u64, discipline: Discipline, random: &mut Rng) -> Bottleneck {
        let config = LinkConfig { discipline, ..LinkConfig::new("queue", rate, 0, bytes) };
        Bottleneck { link: Link::new(config, Rng::new(random.bits())), now: 0 }
    }

    /// A policer in front of a link without a limit.
    pub(super) fn policer(config: PolicerConfig) -> Bottleneck {
        let config = LinkConfig { policer: Some(config), ..LinkConfig::wire("policer", 0) };
        Bottleneck { link: Link::new(config, Rng::new(0)), now: 0 }
    }

    /// Whether a packet of `len` bytes that comes at `seconds` is taken. A packet that would come before the
    /// last one comes with it: the end of a burst may overlap the next.
    pub(super) fn offer(&mut self, seconds: f64, len: u32) -> bool {
        let now = self.now.max((seconds * 1e9) as Nanos);
        self.now = now;
        while let Some(at) = self.link.departs_at().filter(|at| *at <= now) {
            self.link.on_departure(at);
        }
        while self.link.pop_arrival(now).is_some() {}
        let dropped = self.dropped();
        self.link.enqueue(
            now,
            Packet {
                flow: 0,
                way: Way::Data,
                hop: 0,
                ecn: Ecn::NotCapable,
                damaged: false,
                len,
                cargo: Cargo::Filler,
            },
        );
        self.dropped() == dropped
    }

    fn dropped(&self) -> u64 {
        let stats = self.link.stats();
        stats.dropped_full + stats.dropped_early + stats.policed
    }
}
