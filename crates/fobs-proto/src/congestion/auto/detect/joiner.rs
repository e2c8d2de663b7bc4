//! Another `auto` flow that joins: delivery falls and a queue stands. What the newcomer takes for the base
//! delay has the queue in it; a drain shows it the true one.

use super::super::findings::{Bursts, Joined};
use super::super::model::QueueLevel;
use super::super::params::Params;

/// Compares the flow's share of the path with the one that it reckons with.
#[derive(Debug)]
pub(crate) struct JoinDetector {
    /// Share of the proven capacity that the flow reckons with: less since another joined.
    expects: f64,
}

impl Default for JoinDetector {
    fn default() -> JoinDetector {
        JoinDetector { expects: 1.0 }
    }
}

impl JoinDetector {
    /// Takes the end of the `phase`th phase since the last drain. While bursts are expected nothing is
    /// found: what they take comes back.
    pub(crate) fn on_phase(
        &mut self,
        phase: u32,
        share: f64,
        level: QueueLevel,
        bursts: Bursts,
        p: &Params,
    ) -> Option<Joined> {
        if level != QueueLevel::Busy {
            self.expects = 1.0;
            return None;
        }
        let joined =
            phase >= p.crowd_rounds && share < self.expects * p.resume_share && bursts != Bursts::Expected;
        joined.then_some(Joined)
    }

    /// The flow drained for the newcomer and reckons with its present share until the queue is short again.
    pub(crate) fn settle(&mut self, share: f64) {
        self.expects = share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_join_is_found_once_until_the_queue_is_short() {
        let (mut joiner, p) = (JoinDetector::default(), Params::default());
        let at = |joiner: &mut JoinDetector, phase, share, level, bursts| {
            joiner.on_phase(phase, share, level, bursts, &p).is_some()
        };
        use QueueLevel::{Busy, Short};
        assert!(at(&mut joiner, 4, 0.5, Busy, Bursts::Absent));
        joiner.settle(0.5);
        assert!(!at(&mut joiner, 4, 0.5, Busy, Bursts::Absent), "already known");
        assert!(at(&mut joiner, 4, 0.4, Busy, Bursts::Absent), "a second one");
        assert!(!at(&mut joiner, 4, 0.5, Short, Bursts::Absent), "no queue");
        assert!(at(&mut joiner, 4, 0.5, Busy, Bursts::Absent), "forgotten since");
        assert!(!at(&mut joiner, 3, 0.5, Busy, Bursts::Absent), "too soon after a drain");
        assert!(!at(&mut joiner, 4, 0.5, Busy, Bursts::Expected), "a burst");
    }
}
