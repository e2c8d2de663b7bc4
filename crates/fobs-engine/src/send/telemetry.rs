//! What the sending thread reports of itself: samples, mode changes, causes of losses.

use super::lanes::LaneHub;
use crate::Reporter;
use crate::causes::Causes;
use crate::measure::{Audience, SenderMeter};
use fobs_model::measured::Measured;
use fobs_model::mode::ModeChange;
use fobs_model::sample::StreamsSample;
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
    /// Takes a sample.
    pub(super) fn measure(
        &mut self,
        now: Timestamp,
        machine: &Sender,
        (streams, lanes): (StreamsSample, Option<&LaneHub>),
        audience: Audience,
    ) {
        let mut sample = self.meter.sample(now, machine, streams);
        lanes.iter().for_each(|lanes| lanes.add_to(&mut sample));
        self.reporter.here(Measured::Sender(sample), audience);
    }

    /// Takes the machine's judgements of losses.
    pub(super) fn collect(&mut self, machine: &mut Sender) {
        self.causes.collect(machine, self.began);
    }

    /// Reports what was judged and changed since the last heartbeat.
    pub(super) fn report_causes(&mut self, now: Timestamp, machine: &mut Sender) {
        while let Some(change) = machine.poll_mode_change() {
            self.reporter.here(Measured::Mode(ModeChange::of(&change, self.began)), Audience::Both);
        }
        for window in self.causes.take_windows() {
            self.reporter.here(Measured::Loss(window), Audience::Both);
        }
        let seconds = (now - self.began).as_secs_f64();
        if let Some(remedy) = self.causes.take_drain(machine, seconds) {
            self.reporter.here(Measured::Remedy(remedy), Audience::Both);
        }
    }
}
