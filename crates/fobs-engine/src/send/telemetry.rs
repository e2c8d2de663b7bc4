//! What the sending thread reports of itself: samples, mode changes, causes of losses.

use super::lanes::LaneHub;
use crate::Reporter;
use crate::causes::{Causes, news_of};
use crate::measure::{Audience, SenderMeter};
use fobs_model::measured::Measured;
use fobs_model::sample::{SenderSample, StreamsSample};
use fobs_proto::Timestamp;
use fobs_proto::sender::Sender;
use std::sync::Arc;

/// Meter and causes, and where they are reported.
pub(super) struct Telemetry {
    pub(super) meter: SenderMeter,
    pub(super) causes: Causes,
    pub(super) reporter: Arc<Reporter>,
    pub(super) began: Timestamp,
}

impl Telemetry {
    /// Takes a sample, and reports it.
    pub(super) fn measure(
        &mut self,
        now: Timestamp,
        machine: &Sender,
        (streams, lanes): (StreamsSample, Option<&mut LaneHub>),
        audience: Audience,
    ) -> SenderSample {
        let mut sample = self.meter.sample(now, machine, streams);
        if let Some(lanes) = lanes {
            lanes.add_to(now, self.meter.waits(), &mut sample);
        }
        self.reporter.here(Measured::Sender(sample.clone()), audience);
        sample
    }

    /// Takes the machine's judgements of losses.
    pub(super) fn collect(&mut self, machine: &mut Sender) {
        self.causes.collect(machine, self.began);
    }

    /// Reports what was judged and changed since the last heartbeat, by all lanes.
    pub(super) fn report_causes(&mut self, now: Timestamp, machine: &mut Sender, lanes: Option<&LaneHub>) {
        let others = lanes.map(LaneHub::take_news).unwrap_or_default();
        for news in news_of(now, self.began, &mut self.causes, machine).into_iter().chain(others) {
            self.reporter.here(news, Audience::Both);
        }
    }
}
