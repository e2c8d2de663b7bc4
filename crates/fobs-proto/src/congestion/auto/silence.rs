//! After silence. That nothing comes back for two probe timeouts says that the path is interrupted, not that
//! it is congested. It is over with the first answer: half of the former rate at once, which is the most that
//! careful resume allows (RFC 9959), and all of it when that has arrived without a queue.

use super::super::AckSample;
use super::Auto;
use super::detect::CrowdDetector;
use super::model::Shortfall;
use super::state::{State, Why};

impl Auto {
    /// Everything in flight is given up.
    pub(super) fn on_silence(&mut self) {
        let proven = self.model.capacity;
        self.silenced.get_or_insert(proven);
    }

    /// The first answer after a silence.
    pub(super) fn end_silence(&mut self, ack: &AckSample) {
        let Some(former) = self.silenced.take() else { return };
        let model = &mut self.model;
        model.capacity = former.scaled(1.0 - model.params.withheld_max);
        model.shortfall = Shortfall::None;
        model.losses.begin_phase();
        self.detect.crowd = CrowdDetector::default();
        self.forget_bursts();
        self.transition(ack.now, State::silenced(ack.now, former), Why::SilenceOver, 1.0);
    }
}
