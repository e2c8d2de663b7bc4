//! What a controller that has several ways of sending tells of going from one to another.

use super::Priority;
use crate::{Rate, Timestamp};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Changes that are kept until they are asked for. Who asks does so a few times a second, and a change takes round trips; of more, the
/// oldest are forgotten.
const CHANGES_MAX: usize = 64;

/// A change from one way of sending to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModeChange {
    /// When.
    pub at: Timestamp,
    /// What it did before, in a word.
    pub from: &'static str,
    /// What it does now.
    pub to: &'static str,
    /// Why.
    pub reason: ModeReason,
    /// The part of the queueing delay that stood.
    pub queue: Duration,
    /// What was delivered.
    pub delivered: Rate,
}

/// Why a controller does something else from now on, with the figures that say so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ModeReason {
    /// The start is over: no more is delivered than was sent, or no more may be sent.
    PathFound,
    /// A queue stands although less was sent: others hold it.
    QueueStays {
        /// The queue that it would leave standing itself.
        target: Duration,
        /// How much shorter the queue would be if it were its own.
        yielded: Duration,
    },
    /// It need not give way to all any more, and a queue stands.
    ClaimRaised {
        /// What it claims from now on.
        to: Priority,
    },
    /// It claims more or less than before, and looks again.
    ClaimChanged {
        /// What it claims from now on.
        to: Priority,
    },
    /// Losses go on although they were answered: others do not answer.
    LossesStay {
        /// Round trips with losses in a row.
        rounds: u32,
        /// What the path delivered before it had to be shared.
        proven: Rate,
    },
    /// It has more than a part: others answer losses after all.
    LossesAnswered {
        /// What the path delivered before it had to be shared.
        proven: Rate,
    },
    /// The queue went away when less was sent, or by itself.
    QueueGone {
        /// The queue that shows that nobody else holds one.
        target: Duration,
    },
    /// What was delivered is all that was sent: there is no queue, the path is longer than it was.
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
            ModeReason::ClaimRaised { to } => write!(f, "a queue stands, and it is {to} from now on"),
            ModeReason::ClaimChanged { to } => write!(f, "it is {to} from now on"),
            ModeReason::LossesStay { rounds, proven } => write!(
                f,
                "others do not answer losses: {rounds} round trips with losses after they were answered, and the path gave {proven} before"
            ),
            ModeReason::LossesAnswered { proven } => {
                write!(f, "others answer losses after all: the path gave {proven} before")
            }
            ModeReason::QueueGone { target } => {
                write!(f, "nobody holds a queue any more: it is below {:.1} ms", ms(target))
            }
            ModeReason::PathLonger { rtt } => {
                write!(f, "there is no queue, the path has become longer: {:.1} ms", ms(rtt))
            }
        }
    }
}

/// Changes that nobody has asked for yet.
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
    fn what_nobody_asks_for_is_bounded_and_the_newest_are_kept() {
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
