//! A path that has become longer: its delay stays as it is while the flow yields to it and all that is sent
//! arrives. Queues move, a flow's own with what it sends and those of others with what they send.

use super::super::findings::Longer;
use super::super::params::Params;
use crate::Rate;
use std::time::Duration;

/// What a phase of cruising that yielded to a long queue says about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongerSample {
    /// The standing queue at its end.
    pub(crate) queue: Duration,
    /// What arrived at its end, and the rate then.
    pub(crate) arrived: Rate,
    pub(crate) pacing: Rate,
}

/// Phases in a row with the same delay.
#[derive(Debug, Clone, Copy)]
struct Spell {
    queue: Duration,
    phases: u32,
    /// The rate at the end of the phase before: more than that arrives only where a queue empties.
    pacing: Rate,
}

/// Watches the delay over phases that yield to it.
#[derive(Debug, Default)]
pub(crate) struct LongerDetector {
    spell: Option<Spell>,
}

impl LongerDetector {
    /// Takes a phase; `None` for one that did not yield to a long queue, or lost packets.
    pub(crate) fn on_phase(&mut self, sample: Option<LongerSample>, p: &Params) -> Option<Longer> {
        let Some(LongerSample { queue, arrived, pacing }) = sample else {
            self.spell = None;
            return None;
        };
        let goes_on = self.spell.filter(|spell| {
            spell.queue.abs_diff(queue) <= queue.mul_f64(p.longer_still)
                && arrived <= spell.pacing.scaled(1.0 + p.noise)
        });
        let spell = match goes_on {
            Some(spell) => Spell { phases: spell.phases + 1, pacing, ..spell },
            None => Spell { queue, phases: 0, pacing },
        };
        let is_longer = spell.phases >= p.in_a_row;
        self.spell = (!is_longer).then_some(spell);
        is_longer.then_some(Longer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Phases until the path counts as longer; this many Mbit/s arrive of 50.
    fn phases(queue: impl Fn(u32) -> Duration, arrived: u64) -> Option<u32> {
        let (mut longer, p) = (LongerDetector::default(), Params::default());
        let rate = |mbit| Rate::bits_per_second(mbit * 1_000_000);
        (0..20).find(|n| {
            let sample = LongerSample { queue: queue(*n), arrived: rate(arrived), pacing: rate(50) };
            longer.on_phase(Some(sample), &p).is_some()
        })
    }

    #[test]
    fn a_delay_that_stays_as_it_is_is_the_paths() {
        assert_eq!(phases(|_| 80 * MS, 50), Some(2));
        assert_eq!(phases(|_| 80 * MS, 70), None, "a queue empties");
        assert_eq!(phases(|n| (400 * MS).saturating_sub(n * 10 * MS), 50), None, "self-induced");
        assert_eq!(phases(|n| 80 * MS + n * 10 * MS, 50), None, "others fill it");
    }
}
