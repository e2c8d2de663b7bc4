//! The ramp: goes on faster each round while the path delivers what is sent and no queue grows. A wrong
//! estimate costs one round.

use super::super::AckSample;
use super::Auto;
use super::detect::ResumedPhase;
use super::findings::Relapse;
use super::model::QueueLevel;
use super::state::{Phase, Progress, Ramp, RampOrigin, Stage, Start, State, Why};
use crate::{Rate, Timestamp};

/// What an ack comes to in a phase of the ramp.
#[derive(Debug)]
enum Finding {
    /// The path delivers the jump that the train had contradicted.
    JumpArrived,
    /// All of this rate was delivered, without a queue.
    Delivered(Rate),
    /// Nothing was learnt: too little was sent. What was not delivered and is neither in a queue nor lost
    /// was not sent in time.
    NotTried,
    /// A queue grows, or packets are lost.
    NotDelivered,
    /// The phase goes on.
    Steady,
}

impl Auto {
    pub(super) fn on_ramp_ack(&mut self, ack: &AckSample, ramp: Ramp, progress: Progress) {
        let finding = self.find_ramp(ack, ramp, progress);
        if !matches!(finding, Finding::Steady) {
            self.decide_ramp(ack.now, ramp, finding);
        }
    }

    fn find_ramp(&self, ack: &AckSample, ramp: Ramp, progress: Progress) -> Finding {
        if self.jump_arrives() {
            return Finding::JumpArrived;
        }
        let (model, p) = (&self.model, &self.model.params);
        // What the train leaves in the queue passes, and how noisy the path is is not known yet.
        let first = self.first.is_none() && ramp.step == 0 && ramp.phase.stage == Stage::Waits;
        let queued = !first && model.standing() > p.queue_step * model.queue_target();
        if progress == Progress::Goes && !queued {
            return Finding::Steady;
        }
        let arrives = model.pacing.scaled(1.0 - model.loss_share());
        // A host that sends a little less than it may says nothing of the path.
        let sent = Rate::of(self.sent, ack.now - ramp.phase.since).unwrap_or(model.pacing);
        let tried = sent >= model.pacing.scaled(1.0 - p.noise);
        let expected = if tried { arrives.min(sent.scaled(1.0 - model.loss_share())) } else { arrives };
        // Phase after phase, what chance may explain once is lost to the rate. On a slow path a phase has too
        // few packets to lose some.
        let few = model.losses.lost() >= p.few_packets as f64;
        let lost = few && tried || model.losses.lately_beyond_chance(p);
        let empty = model.level() == QueueLevel::Empty;
        if model.is_idle(ack) {
            Finding::NotTried
        } else if empty && (model.delivers(expected) || self.was_tried(ack.now, ramp) && !model.loses()) {
            Finding::Delivered(arrives)
        } else if empty && !model.loses() && !(lost && ramp.holds >= p.in_a_row) {
            Finding::NotTried
        } else {
            Finding::NotDelivered
        }
    }

    fn decide_ramp(&mut self, now: Timestamp, ramp: Ramp, finding: Finding) {
        self.memory.end_jump();
        match finding {
            Finding::JumpArrived => {
                // It was the train that was distorted.
                let start = self.memory.arrived(&self.model.params);
                self.model.capacity = self.model.capacity.max(start);
                self.model.proven = self.model.capacity;
                self.transition(now, State::ramp(now, 0), Why::JumpArrived, 1.0);
            }
            Finding::Delivered(arrives) => {
                self.detect.relapse.on_success();
                self.cycle.grew();
                if let RampOrigin::Silenced(former) = ramp.origin {
                    self.model.capacity = former;
                    return self.transition(now, State::ramp(now, 0), Why::Delivered, 1.0);
                }
                self.model.capacity = arrives;
                // What the train found may be all noise.
                let step = if self.train_is_noise(ramp) {
                    self.model.params.ramp_rounds as usize
                } else {
                    ramp.step
                };
                let gain = self.model.params.ramp_gain(step);
                self.transition(now, State::ramp(now, step + 1), Why::Delivered, gain);
            }
            Finding::NotTried => self.hold(now, ramp),
            Finding::NotDelivered => {
                self.judge_resumption(ramp);
                let newest = self.model.newest;
                self.model.capacity = newest;
                // What others leave of the path at the moment may be less than it carries, but hardly less
                // than half.
                let most = newest.scaled(self.model.params.ramp_gain);
                self.model.proven = self.model.proven.min(most).max(newest);
                self.enter_drain(now, Why::NotDelivered);
            }
            Finding::Steady => {}
        }
    }

    /// Whether as much was sent as the rate of the phase allows, on a path so noisy that the newest delivery
    /// rate says little. What has neither made a queue nor been lost has arrived.
    fn was_tried(&self, now: Timestamp, ramp: Ramp) -> bool {
        let (model, p) = (&self.model, &self.model.params);
        let noisy = model.noise_window() > (model.min_rtt / 4).max(p.measure_min);
        noisy && self.sent >= model.pacing.scaled(1.0 - p.noise).bytes_in(now - ramp.phase.since)
    }

    /// Packets of the train overtook each other: its dispersion is theirs and not the path's.
    fn train_is_noise(&self, ramp: Ramp) -> bool {
        self.first.is_none() && ramp.step == 0 && self.is_shuffled()
    }

    fn jump_arrives(&self) -> bool {
        let (model, p) = (&self.model, &self.model.params);
        let Some(rate) = self.memory.jump_rate() else { return false };
        let delivered = model.newest >= rate.scaled(1.0 - p.noise) && model.span >= p.measure_min;
        delivered && model.level() == QueueLevel::Empty && !model.loses()
    }

    /// A resumed rate that brings its own queue back again and again is forgotten: no burst had passed.
    fn judge_resumption(&mut self, ramp: Ramp) {
        if ramp.origin != RampOrigin::Resumed {
            return;
        }
        let phase = match ramp.phase.stage {
            Stage::Waits => ResumedPhase::Early,
            Stage::Measures => ResumedPhase::Measured,
        };
        if self.detect.relapse.on_queue(phase, &self.model.params) == Some(Relapse) {
            self.model.forget_best();
            self.forget_bursts();
        }
    }

    /// Holds this rate to look again after another phase, unless it is more than may be claimed.
    fn hold(&mut self, now: Timestamp, ramp: Ramp) {
        if self.model.pacing >= self.claims.ceiling {
            self.transition(now, State::cruise(now, 1), Why::Ceiling, self.cruise_gain());
        } else {
            let (phase, holds) = (Phase::begin(now), ramp.holds.saturating_add(1));
            self.state = State::Start(Start::Ramp(Ramp { phase, holds, ..ramp }));
            self.sent = 0;
        }
    }
}
