//! The first flight: a short train of packets, whose dispersion at arrival is about the path's rate.

use super::super::{AckSample, BurstSent, Priority};
use super::Auto;
use super::state::{Start, State, Why};
use crate::Rate;

impl Auto {
    /// Goes on behind the train where the path is remembered; not a scavenger, since others may have the
    /// path by now.
    pub(super) fn on_train_sent(&mut self, sent: &BurstSent) {
        if let Some(rate) = self.memory.jump_rate() {
            self.model.pacing = rate;
            return;
        }
        let whole = sent.bytes_in_flight + self.model.packet_len > self.window;
        if !whole || self.claims.priority == Priority::Scavenger {
            return;
        }
        let share = 1.0 - self.model.params.withheld_max;
        let Some((rate, window)) = self.memory.jump(share, self.claims.ceiling) else { return };
        // Of the train's size or less, as on a short path, it is not worth a wait less.
        if window > self.window {
            self.memory.begin_jump(rate, sent.bytes_in_flight / self.model.packet_len);
            self.window = window;
            // The train's last burst is followed by a pause for all of the train, so that the train arrives
            // by itself.
            self.model.pacing = rate.scaled(sent.bytes as f64 / sent.bytes_in_flight.max(1) as f64);
        }
    }

    /// Something was lost or marked before the train has come back: memory counts no more, and nothing
    /// leaves until then.
    pub(super) fn retreat(&mut self) {
        if matches!(self.state, State::Start(Start::Train(_))) && self.memory.jump_rate().is_some() {
            self.memory.forget();
            self.window = self.model.params.train_packets * self.model.packet_len;
        }
    }

    pub(super) fn on_train_ack(&mut self, ack: &AckSample) {
        let State::Start(Start::Train(train)) = &mut self.state else { return };
        let first_ack = *train.first_ack.get_or_insert(ack.now);
        let waited = ack.now - first_ack >= self.model.latest_rtt.max(self.model.params.measure_min);
        if let Some(sample) = ack.rate.filter(|sample| sample.packets >= self.model.params.few_packets) {
            // Stamps make a short slope look steeper than it is.
            let bytes = sample.rate.bytes_in(sample.span);
            train.steepest =
                train.steepest.max(Rate::of(bytes, sample.span + self.model.params.train_stamps));
        }
        let steepest = train.steepest;
        if self.model.losses.lost() >= self.model.params.few_packets as f64 {
            // What is sent again must not overflow the same queue.
            self.model.pacing = steepest.unwrap_or(self.model.params.rate_min);
        }
        let Some(rate) = self.estimate_train(ack, waited, steepest) else { return };
        self.model.capacity = self.memory.start(rate, &self.model.params).max(self.model.params.rate_min);
        self.memory.end_jump_below(rate);
        self.model.proven = self.model.capacity;
        self.model.losses.begin_turn(ack.now + self.model.latest_rtt);
        self.transition(ack.now, State::ramp(ack.now, 0), Why::TrainMeasured, 1.0);
    }

    /// What the train has found, if enough of it has arrived.
    fn estimate_train(&mut self, ack: &AckSample, waited: bool, steepest: Option<Rate>) -> Option<Rate> {
        let p = &self.model.params;
        // All of the train is accounted for, or all of it that will be: then what there is must do.
        let acked = self.model.losses.acked() as u64;
        let (slope, passed) = self.memory.of_train(acked, ack.rate, p);
        let complete = waited || passed || acked >= p.train_packets || ack.bytes_in_flight == 0;
        let sample = slope.filter(|s| complete || s.packets >= p.train_packets_min);
        // Where a short queue dropped some of the train, the slope over all that has arrived since spans the
        // gap as well, or the round trip until it was sent again: what arrived together counts.
        if (complete || sample.is_some())
            && self.model.losses.lost() >= p.few_packets as f64
            && let Some(rate) =
                steepest.filter(|steepest| sample.is_none_or(|sample| *steepest > sample.rate))
        {
            return Some(rate.min(p.train_fastest));
        }
        match sample {
            Some(sample) => Some(sample.rate),
            None => complete.then_some(p.train_fastest),
        }
    }
}
