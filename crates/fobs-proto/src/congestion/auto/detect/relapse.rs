//! Whether what was resumed after a burst was the flow's own queue. A burst comes at any time; a
//! self-induced queue comes back one round trip after the rate was resumed.

use super::super::findings::Relapse;
use super::super::params::Params;

/// When a queue ended a phase of the ramp that had begun with a resumed rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResumedPhase {
    /// Before the resumed rate had arrived: another's queue.
    Early,
    /// After it had: probably self-induced.
    Measured,
}

/// Counts resumptions in a row that ended in self-induced queueing.
#[derive(Debug, Default)]
pub(crate) struct RelapseDetector {
    count: u32,
}

impl RelapseDetector {
    /// A resumed phase ended in a queue.
    pub(crate) fn on_queue(&mut self, phase: ResumedPhase, p: &Params) -> Option<Relapse> {
        self.count = if phase == ResumedPhase::Measured { self.count + 1 } else { 0 };
        let relapsed = self.count >= p.in_a_row;
        if relapsed {
            self.count = 0;
        }
        relapsed.then_some(Relapse)
    }

    /// A phase of the ramp found the path willing.
    pub(crate) fn on_success(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_consecutive_self_induced_queues_are_a_relapse() {
        use ResumedPhase::{Early, Measured};
        let (mut relapse, p) = (RelapseDetector::default(), Params::default());
        let seen = [Measured, Early, Measured, Measured, Measured].map(|phase| relapse.on_queue(phase, &p));
        assert_eq!(seen, [None, None, None, Some(Relapse), None]);
        relapse.on_success();
        assert_eq!(relapse.on_queue(Measured, &p), None);
    }
}
