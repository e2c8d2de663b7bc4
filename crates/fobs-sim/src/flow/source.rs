//! Competing traffic that expects no acknowledgements.

use super::{FlowFigures, Identity, Outcome, Role};
use crate::net::Net;
use crate::packet::{Cargo, Ecn, Packet, Way};
use crate::rng::Rng;
use crate::time::{Nanos, time_for};

/// How packets follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// At equal distances.
    Constant,
    /// At exponential distances.
    Poisson,
    /// At equal distances during on-phases, none during off-phases; both last exponential times with these
    /// means.
    OnOff {
        /// Mean of the on-phases.
        on: Nanos,
        /// Mean of the off-phases.
        off: Nanos,
    },
}

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceConfig {
    /// Bits per second with IP headers, above zero; while it is on.
    pub rate: u64,
    /// Bytes of a packet with IP headers.
    pub packet: u32,
    /// How they follow each other.
    pub pattern: Pattern,
}

/// A source at work.
#[derive(Debug)]
pub(crate) struct Source {
    me: Identity,
    config: SourceConfig,
    rng: Rng,
    /// End of the present on-phase.
    on_until: Nanos,
    outcome: Outcome,
    figures: FlowFigures,
}

impl Source {
    pub(crate) fn new(me: Identity, config: SourceConfig, seed: u64) -> Source {
        let rng = Rng::stream(seed, u64::from(me.id) * 16 + (1 << 20));
        Source { me, config, rng, on_until: 0, outcome: Outcome::Running, figures: FlowFigures::default() }
    }

    pub(crate) fn start(&mut self, net: &mut Net) {
        self.on_until = match self.config.pattern {
            Pattern::OnOff { on, .. } => net.now + self.exponential(on),
            _ => Nanos::MAX,
        };
        self.figures.began = Some(net.now);
        net.agenda.set(self.me.slot(Role::Send), Some(net.now));
    }

    pub(crate) fn on_due(&mut self, net: &mut Net) {
        self.figures.sent += 1;
        net.send(Packet {
            flow: self.me.id,
            way: Way::Data,
            hop: 0,
            ecn: Ecn::NotCapable,
            damaged: false,
            len: self.config.packet,
            cargo: Cargo::Filler,
        });
        let gap = time_for(u64::from(self.config.packet), self.config.rate).max(1);
        let next = match self.config.pattern {
            Pattern::Constant => net.now + gap,
            Pattern::Poisson => net.now + self.exponential(gap).max(1),
            Pattern::OnOff { on, off } => {
                let mut next = net.now + gap;
                if next >= self.on_until {
                    next = self.on_until.max(net.now + 1) + self.exponential(off);
                    self.on_until = next + self.exponential(on);
                }
                next
            }
        };
        net.agenda.set(self.me.slot(Role::Send), Some(next));
    }

    fn exponential(&mut self, mean: Nanos) -> Nanos {
        self.rng.exponential(mean as f64) as Nanos
    }

    pub(crate) fn on_packet(&mut self, packet: &Packet) {
        if packet.damaged {
            self.figures.damaged += 1;
        } else {
            self.figures.delivered += u64::from(packet.len);
        }
    }

    pub(crate) fn end(&mut self, net: &mut Net, outcome: Outcome) {
        self.outcome = outcome;
        self.figures.ended = Some(net.now);
        net.agenda.set(self.me.slot(Role::Send), None);
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome
    }

    pub(crate) fn figures(&self) -> FlowFigures {
        self.figures
    }
}
