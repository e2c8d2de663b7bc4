//! What goes wrong behind a link: loss, damage, copies, disorder, outages.

use crate::rng::{Chance, Rng};
use crate::time::Nanos;
use std::collections::BTreeSet;

/// Everything that may go wrong on a link; all of it is off by default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Faults {
    /// Independent losses.
    pub loss: Chance,
    /// Losses in bursts.
    pub bursts: Option<GilbertElliott>,
    /// Packets that arrive damaged.
    pub corruption: Chance,
    /// Packets that arrive twice.
    pub duplication: Chance,
    /// Packets that are held up, so that later ones overtake them.
    pub reordering: Chance,
    /// How long they are held up: at most this, uniformly; with a deviation, this in the mean.
    pub reordering_delay: Nanos,
    /// Standard deviation of that time where it is normally distributed, and at least 0; 0 for a uniform one.
    pub reordering_deviation: Nanos,
    /// Packets that take a second, longer path (ECMP), which keeps their order among themselves.
    pub detour: Chance,
    /// By how much it is longer.
    pub detour_delay: Nanos,
    /// Extra delay of every packet, at most; order is kept.
    pub jitter: Nanos,
    /// Packets go on only at multiples of this time, all that wait together, as behind an access point that
    /// sends when it is its turn; 0 for at once.
    pub turns: Nanos,
    /// From when until when nothing passes.
    pub outages: Vec<(Nanos, Nanos)>,
    /// Packets that are lost by their place in the order of departure, from 0.
    pub drops: BTreeSet<u64>,
}

/// Uniform draws whose sum is as good as normal (Irwin 1927, Hall 1927); twelve have a variance of 1. No
/// logarithm, so that every machine draws the same.
const DRAWS: u32 = 12;

impl Faults {
    /// How long a packet is held up that later ones may overtake.
    fn held_up(&self, rng: &mut Rng) -> Nanos {
        if self.reordering_deviation == 0 {
            return rng.range(0, self.reordering_delay);
        }
        let normal = (0..DRAWS).map(|_| rng.unit()).sum::<f64>() - f64::from(DRAWS) / 2.0;
        // A float below 0 becomes 0.
        (self.reordering_delay as f64 + normal * self.reordering_deviation as f64) as Nanos
    }
}

/// Two states with a loss rate each (Gilbert 1960, Elliott 1963).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GilbertElliott {
    /// Probability, at each packet, that a burst begins.
    pub begin: Chance,
    /// Probability, at each packet, that it ends.
    pub end: Chance,
    /// Loss within a burst.
    pub loss: Chance,
}

/// What becomes of a packet behind the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Lost,
    /// It takes this much longer than the link's delay; `in_order` packets do not overtake each other.
    Passes {
        extra: Nanos,
        in_order: bool,
        damaged: bool,
        twice: bool,
    },
}

#[derive(Debug)]
pub(super) struct FaultState {
    faults: Faults,
    in_burst: bool,
    /// Packets so far.
    count: u64,
    /// Nothing can go wrong: the common case costs one comparison.
    none: bool,
}

impl FaultState {
    pub(super) fn new(faults: Faults) -> FaultState {
        FaultState { none: faults == Faults::default(), in_burst: false, count: 0, faults }
    }

    /// Other faults from now on.
    pub(super) fn set(&mut self, faults: Faults) {
        let in_burst = self.in_burst && faults.bursts.is_some();
        *self = FaultState { in_burst, count: self.count, ..FaultState::new(faults) };
    }

    pub(super) fn fate(&mut self, now: Nanos, rng: &mut Rng) -> Fate {
        let place = self.count;
        self.count += 1;
        if self.none {
            return Fate::Passes { extra: 0, in_order: true, damaged: false, twice: false };
        }
        let faults = &self.faults;
        if let Some(model) = faults.bursts {
            let turns = if self.in_burst { model.end } else { model.begin };
            self.in_burst ^= rng.happens(turns);
            if self.in_burst && rng.happens(model.loss) {
                return Fate::Lost;
            }
        }
        if faults.drops.contains(&place) {
            return Fate::Lost;
        }
        let out = faults.outages.iter().any(|(from, until)| (*from..*until).contains(&now));
        if rng.happens(faults.loss) || out {
            return Fate::Lost;
        }
        let damaged = rng.happens(faults.corruption);
        let twice = rng.happens(faults.duplication);
        if rng.happens(faults.reordering) {
            return Fate::Passes { extra: faults.held_up(rng), in_order: false, damaged, twice };
        }
        if rng.happens(faults.detour) {
            return Fate::Passes { extra: faults.detour_delay, in_order: false, damaged, twice };
        }
        let jitter = if faults.jitter > 0 { rng.range(0, faults.jitter) } else { 0 };
        let extra = (now + jitter).next_multiple_of(faults.turns.max(1)) - now;
        Fate::Passes { extra, in_order: true, damaged, twice }
    }
}
