//! What a lane beside the first has judged and changed, for the session's report and for later transfers.

use crate::causes::{Causes, news_of};
use fobs_model::measured::Measured;
use fobs_proto::Timestamp;
use fobs_proto::loss_cause::Lesson;
use fobs_proto::sender::Sender;

/// Most measurements of one lane that wait for the session's thread: those of ten heartbeats.
const NEWS_MAX: usize = 64;

/// A lane's own account of its losses.
pub(super) struct LaneCauses {
    lane: usize,
    causes: Causes,
    began: Timestamp,
}

impl LaneCauses {
    pub(super) fn new(lane: usize, began: Timestamp) -> LaneCauses {
        LaneCauses { lane, causes: Causes::new(0), began }
    }

    /// Takes the machine's judgements of losses.
    pub(super) fn collect(&mut self, machine: &mut Sender) {
        self.causes.collect(machine, self.began);
    }

    /// What was judged and changed since the last call.
    pub(super) fn take(&mut self, now: Timestamp, machine: &mut Sender) -> Vec<Measured> {
        let lane = self.lane;
        let named = |measured| match measured {
            Measured::Mode(mut change) => {
                change.reason = format!("lane {lane}: {}", change.reason);
                Measured::Mode(change)
            }
            other => other,
        };
        news_of(now, self.began, &mut self.causes, machine).into_iter().map(named).collect()
    }

    /// Windows of known cause.
    pub(super) fn take_lessons(&mut self) -> Vec<Lesson> {
        self.causes.take_lessons()
    }
}

/// What waits for the session's thread.
#[derive(Default)]
pub(super) struct LaneNews {
    measured: Vec<Measured>,
    lessons: Vec<Lesson>,
}

impl LaneNews {
    /// Adds measurements; those that are too many are dropped.
    pub(super) fn add(&mut self, measured: Vec<Measured>) {
        let room = NEWS_MAX.saturating_sub(self.measured.len());
        self.measured.extend(measured.into_iter().take(room));
    }

    /// A lane at its end has learned this.
    pub(super) fn teach(&mut self, lessons: Vec<Lesson>) {
        self.lessons.extend(lessons);
    }

    pub(super) fn take_measured(&mut self) -> Vec<Measured> {
        std::mem::take(&mut self.measured)
    }

    pub(super) fn take_lessons(&mut self) -> Vec<Lesson> {
        std::mem::take(&mut self.lessons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_model::cause::{Remedy, RemedyAction, RemedyResult};

    #[test]
    fn what_nobody_takes_is_bounded() {
        let action = RemedyAction::DrainRate { bits_per_second: 1 };
        let remedy = || Measured::Remedy(Remedy { seconds: 0.0, action, result: RemedyResult::Applied });
        let mut news = LaneNews::default();
        (0..3).for_each(|_| news.add((0..40).map(|_| remedy()).collect()));
        assert_eq!(news.take_measured().len(), NEWS_MAX);
        news.add(vec![remedy()]);
        assert_eq!((news.take_measured().len(), news.take_measured().len()), (1, 0));
    }
}
