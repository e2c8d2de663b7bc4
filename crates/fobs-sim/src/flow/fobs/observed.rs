//! What a sender's machine reports while it runs: mode changes, and the causes of losses.

use crate::flow::{Judged, Taught};
use fobs_proto::congestion::ModeChange;
use fobs_proto::loss_cause::Verdict;
use fobs_proto::sender::Sender;

/// Mode changes of a controller that are kept; of more, the first.
const MODES_MAX: usize = 256;

/// Reports of a flow so far.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) taught: Taught,
    pub(super) judged: Judged,
    pub(super) modes: Vec<ModeChange>,
}

impl Observed {
    /// Takes the reports that wait in the machine.
    pub(super) fn take(&mut self, machine: &mut Sender) {
        while let Some(change) = machine.poll_mode_change() {
            if self.modes.len() < MODES_MAX {
                self.modes.push(change);
            }
        }
        while let Some(lesson) = machine.poll_lesson() {
            match lesson.cause {
                Verdict::Receiver => self.taught.receiver += 1,
                Verdict::Network | Verdict::Inconclusive => self.taught.network += 1,
            }
        }
        while let Some(report) = machine.poll_loss_report() {
            // Too few losses have no pattern: without drop counts they are the network's, unjudged.
            if report.evidence.pattern.is_some() {
                match report.verdict {
                    Verdict::Receiver => self.judged.receiver += 1,
                    Verdict::Network => self.judged.network += 1,
                    Verdict::Inconclusive => self.judged.inconclusive += 1,
                }
            }
        }
    }
}
