//! Changes of mode of a controller that has several, with their reasons.

use super::Priority;
use crate::{Rate, Timestamp};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Changes kept until they are polled, which happens a few times a second, while a change takes round
/// trips. Beyond it the oldest go.
const CHANGES_MAX: usize = 64;

/// A change from one mode to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModeChange {
    /// When.
    pub at: Timestamp,
    /// The mode before, in one word.
    pub from: &'static str,
    /// The mode now.
    pub to: &'static str,
    /// Why.
    pub reason: ModeReason,
    /// The standing queue.
    pub queue: Duration,
    /// The delivery rate.
    pub delivered: Rate,
}

/// Why the mode changed, with the figures behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ModeReason {
    /// The ramp is over: the path delivers no more, or no more may be claimed.
    PathFound,
    /// A queue stands although less was sent: others hold it.
    QueueStays {
        /// The queue that the flow would leave standing itself.
        target: Duration,
        /// How much shorter the queue would be if it were self-induced.
        yielded: Duration,
    },
    /// The flow need not yield to all traffic any more, and a queue stands.
    ClaimRaised {
        /// The claim from now on.
        to: Priority,
    },
    /// The flow claims more or less than before, and tests anew whose queue it is.
    ClaimChanged {
        /// The claim from now on.
        to: Priority,
    },
    /// The queue went away when less was sent, or by itself.
    QueueGone {
        /// The longest queue that shows that no other flow holds one.
        target: Duration,
    },
    /// All that was sent is delivered: there is no queue, the path is longer than it was.
    PathLonger {
        /// Its round trip now.
        rtt: Duration,
    },
}

impl fmt::Display for ModeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: &Duration| time.as_secs_f64() * 1e3;
        match self {
            ModeReason::PathFound => write!(f, "the path's rate is found"),
            ModeReason::QueueStays { target, yielded } => write!(
                f,
                "others hold the queue: it should be {:.1} ms, and what was yielded would have shortened it by {:.1} ms",
                ms(target),
                ms(yielded)
            ),
            ModeReason::ClaimRaised { to } => {
                write!(f, "a queue stands, and the priority is {to} from now on")
            }
            ModeReason::ClaimChanged { to } => write!(f, "the priority is {to} from now on"),
            ModeReason::QueueGone { target } => {
                write!(f, "no other flow holds a queue any more: it is below {:.1} ms", ms(target))
            }
            ModeReason::PathLonger { rtt } => {
                write!(f, "there is no queue, the path has become longer: {:.1} ms", ms(rtt))
            }
        }
    }
}

/// Changes that were not polled yet.
#[derive(Debug, Default)]
pub(super) struct ModeLog {
    changes: VecDeque<ModeChange>,
}

impl ModeLog {
    /// One more.
    pub(super) fn note(&mut self, change: ModeChange) {
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
    }

    /// The oldest.
    pub(super) fn poll(&mut self) -> Option<ModeChange> {
        self.changes.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpolled_changes_are_bounded_and_the_newest_are_kept() {
        let mut log = ModeLog::default();
        for ms in 0..1000 {
            log.note(ModeChange {
                at: Timestamp::from_nanos(ms),
                from: "cruise",
                to: "as cubic",
                reason: ModeReason::PathFound,
                queue: Duration::ZERO,
                delivered: Rate::ZERO,
            });
        }
        let kept: Vec<u64> = std::iter::from_fn(|| log.poll()).map(|change| change.at.as_nanos()).collect();
        assert_eq!(kept, (1000 - CHANGES_MAX as u64..1000).collect::<Vec<_>>());
    }
}
