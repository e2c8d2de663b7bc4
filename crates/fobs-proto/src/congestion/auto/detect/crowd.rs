//! Flows that hold the queue, as CUBIC does: the queue does not go away although this flow sends less. A
//! flow that yields to the delay there starves.
//!
//! A self-induced queue is gone once as much was yielded as it holds; several `auto` flows let their queue
//! go once in each drain cycle.

use super::super::super::AckSample;
use super::super::findings::Crowd;
use super::super::params::Params;
use crate::Timestamp;
use std::time::Duration;

/// A time for which the queue has stayed long without a break.
#[derive(Debug, Clone, Copy)]
struct Spell {
    since: Timestamp,
    last: Timestamp,
    peak: Duration,
    /// Seconds by which the queue would be shorter if it were self-induced: what was sent less than was
    /// delivered, net of what was sent more, or drains and climbs among several `auto` flows would look
    /// like yielding.
    yielded: f64,
}

/// Whether a spell has outlasted what was yielded since the queue was last gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Suspicion {
    #[default]
    None,
    Stayed,
}

/// What one ack says about the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CrowdSample {
    /// The standing queue, and the queue above a multiple of which it may be others'.
    pub(crate) queue: Duration,
    pub(crate) target: Duration,
    /// Share of what is delivered that is not sent: negative if more is sent.
    pub(crate) yields: f64,
    /// Time for which the queue must not have been gone.
    pub(crate) patience: Duration,
}

/// Watches whether the queue goes away when less is sent.
#[derive(Debug, Default)]
pub(crate) struct CrowdDetector {
    spell: Option<Spell>,
    suspicion: Suspicion,
    gone: Timestamp,
}

impl CrowdDetector {
    /// The queue is gone, whatever made it go: flows that fill queues never let it go.
    pub(crate) fn on_gone(&mut self, now: Timestamp) {
        *self = CrowdDetector { gone: now, ..CrowdDetector::default() };
    }

    /// Takes an ack while cruising or draining.
    pub(crate) fn on_ack(&mut self, ack: &AckSample, sample: &CrowdSample, p: &Params) -> Option<Crowd> {
        if self.stays(ack, sample, p) {
            self.suspicion = Suspicion::Stayed;
        }
        let crowded = self.suspicion == Suspicion::Stayed && ack.now - self.gone >= sample.patience;
        let yielded = self.spell.map_or(0.0, |spell| spell.yielded);
        let yielded = Duration::try_from_secs_f64(yielded).unwrap_or_default();
        crowded.then_some(Crowd { target: sample.target, yielded })
    }

    fn stays(&mut self, ack: &AckSample, sample: &CrowdSample, p: &Params) -> bool {
        let queue = sample.queue;
        if queue <= p.queue_step * sample.target || ack.app_limited {
            self.spell = None;
            return false;
        }
        let begins = Spell { since: ack.now, last: ack.now, peak: queue, yielded: 0.0 };
        let spell = self.spell.get_or_insert(begins);
        spell.yielded = (spell.yielded + sample.yields * (ack.now - spell.last).as_secs_f64()).max(0.0);
        spell.last = ack.now;
        spell.peak = spell.peak.max(queue);
        ack.now - spell.since >= p.crowd_rounds * ack.latest_rtt
            && spell.yielded >= p.crowd_margin * spell.peak.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::testing::Acks;
    use super::*;
    use crate::Rate;

    const MS: Duration = Duration::from_millis(1);
    const TARGET: Duration = Duration::from_millis(2);
    const RATE: Rate = Rate::bits_per_second(50_000_000);

    fn sample(queue: Duration, patience: Duration) -> CrowdSample {
        CrowdSample { queue, target: TARGET, yields: 0.25, patience }
    }

    /// Whether a crowd is found: the rate is cut by a quarter for `acks_sent` acks of 5 ms, with queues from
    /// `queue`.
    fn crowded(acks_sent: u32, queue: impl Fn(u32) -> Duration) -> bool {
        let (mut crowd, mut acks, p) = (CrowdDetector::default(), Acks::new(40 * MS), Params::default());
        (0..acks_sent)
            .any(|n| crowd.on_ack(&acks.next(5 * MS, RATE), &sample(queue(n), 200 * MS), &p).is_some())
    }

    #[test]
    fn a_queue_that_stays_is_a_crowd_and_one_that_goes_is_none() {
        assert!(crowded(60, |_| 20 * MS), "it does not shrink");
        // Self-induced: a quarter less takes 1.25 ms from it with each ack.
        assert!(!crowded(60, |n| (20 * MS).saturating_sub(n * Duration::from_micros(1250))));
        assert!(!crowded(60, |_| TARGET), "no longer than the target");
        assert!(!crowded(20, |_| 20 * MS), "not yet");
    }

    #[test]
    fn a_queue_that_goes_once_in_a_cycle_is_no_crowd() {
        let judge = |goes_every: u32| {
            let (mut crowd, mut acks, p) = (CrowdDetector::default(), Acks::new(40 * MS), Params::default());
            (1..400).any(|n| {
                let ack = acks.next(5 * MS, RATE);
                if n % goes_every == 0 {
                    crowd.on_gone(ack.now);
                }
                crowd.on_ack(&ack, &sample(20 * MS, 1000 * MS), &p).is_some()
            })
        };
        assert!(!judge(190), "every 950 ms");
        assert!(judge(210), "every 1050 ms");
    }
}
