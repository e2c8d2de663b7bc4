//! Cruising: sends what the path delivers, a little more while the queue is below its target and less while
//! it is above. A drain is part of it and looks for the same things.

use super::super::{AckSample, ModeReason, Priority};
use super::Auto;
use super::detect::{CrowdSample, LongerSample};
use super::findings::{Crowd, Joined, Longer, Overload};
use super::model::{QueueLevel, Shortfall};
use super::state::{Cruise, Progress, State, Why};
use crate::Rate;
use std::time::Duration;

/// What an ack comes to while cruising or draining; the first in this order counts.
#[derive(Debug)]
enum Finding {
    /// The queue that the flow yielded to is gone; the rate to resume at.
    QueuePassed(Rate),
    /// Others hold the queue.
    Crowded(Crowd),
    /// The flow need not yield to all any more, and a queue stands.
    ClaimRaised,
    /// The base delay fell.
    BaseFell,
    /// A cycle is over.
    DrainDue,
    /// The phase is over.
    PhaseOver,
    /// None of these.
    Steady,
}

impl Auto {
    pub(super) fn on_cruise_ack(&mut self, ack: &AckSample, progress: Progress) {
        self.cycle.resume(ack.now);
        self.model.estimate(ack, self.detect.policer.finding(&self.model.params), self.bursts);
        let finding = self.find(ack, progress);
        self.decide(ack, finding);
    }

    fn find(&mut self, ack: &AckSample, progress: Progress) -> Finding {
        if let Some(rate) = self.queue_passed(ack) {
            return Finding::QueuePassed(rate);
        }
        let crowd = self.find_crowd(ack);
        let raised = self.claims.is_raised() && self.model.level() == QueueLevel::Busy;
        if self.claims.priority != Priority::Scavenger {
            match crowd {
                Some(crowd) => return Finding::Crowded(crowd),
                None if raised => return Finding::ClaimRaised,
                None => {}
            }
        }
        match self.state {
            State::Cruise(Cruise::Level(_)) if self.base_fell() => Finding::BaseFell,
            State::Cruise(Cruise::Level(_)) if self.drain_is_due(ack.now) => Finding::DrainDue,
            _ if progress == Progress::Over => Finding::PhaseOver,
            _ => Finding::Steady,
        }
    }

    fn decide(&mut self, ack: &AckSample, finding: Finding) {
        match finding {
            Finding::QueuePassed(rate) => {
                self.model.shortfall = Shortfall::None;
                self.model.capacity = rate;
                self.transition(ack.now, State::resumed(ack.now), Why::QueuePassed, 1.0);
            }
            Finding::Crowded(Crowd { target, yielded }) => {
                self.enter_compete(ack, Why::Crowded, ModeReason::QueueStays { target, yielded });
            }
            Finding::ClaimRaised => {
                let reason = ModeReason::ClaimRaised { to: self.claims.priority };
                self.enter_compete(ack, Why::ClaimRaised, reason);
            }
            Finding::BaseFell => self.enter_drain(ack.now, Why::BaseFell),
            Finding::DrainDue => self.enter_drain(ack.now, Why::DrainDue),
            Finding::PhaseOver => match self.state {
                State::Cruise(Cruise::Level(level)) => self.end_cruise_phase(ack, level.index),
                State::Cruise(Cruise::Drain(drain)) => self.end_drain(ack.now, drain),
                _ => {}
            },
            Finding::Steady => match self.state {
                State::Cruise(Cruise::Drain(drain)) => self.set_rate(drain.gain),
                _ => self.set_rate(self.cruise_gain()),
            },
        }
    }

    /// The rate to resume at, if the queue that the flow yielded to is gone.
    fn queue_passed(&self, ack: &AckSample) -> Option<Rate> {
        let best = self.model.best.rate().scaled(self.model.params.resume_share);
        let passed = self.model.shortfall == Shortfall::Yielded
            && !ack.app_limited
            && self.model.level() == QueueLevel::Empty
            && self.model.capacity < best;
        passed.then_some(best)
    }

    fn find_crowd(&mut self, ack: &AckSample) -> Option<Crowd> {
        let (model, p) = (&self.model, &self.model.params);
        let target = self.longest_own_queue();
        // A flow at its least rate has nothing left to yield.
        let sends = model.pacing.as_bytes() as f64 / model.newest.as_bytes().max(1) as f64;
        let yields = if model.pacing > p.rate_min { 1.0 - sends } else { 1.0 };
        let patience = model.cycle_len().mul_f64(p.margin).max(p.patience_rounds * model.min_rtt);
        let sample = CrowdSample { queue: model.standing(), target, yields, patience };
        self.detect.crowd.on_ack(ack, &sample, p)
    }

    /// The queue that this flow would leave standing. Not the target at the rate that the flow has fallen to:
    /// on a slow share a few packets are a long delay.
    fn longest_own_queue(&self) -> Duration {
        let (model, p) = (&self.model, &self.model.params);
        model.short_queue().max(model.scaled_target().div_f64(p.crowd_margin))
    }

    fn end_cruise_phase(&mut self, ack: &AckSample, index: u32) {
        let (params, losses) = (self.model.params, &mut self.model.losses);
        let unexplained = losses.beyond_chance(&params) | losses.accumulate(&params);
        let overload = self.detect.policer.on_phase(unexplained, &self.model.params);
        if unexplained {
            self.cycle.hold(ack.now, &self.model);
        }
        let level = self.model.level();
        if level != QueueLevel::Busy {
            self.model.proven = self.model.capacity;
            self.model.held.observe(ack.now, self.model.proven);
        }
        let share = self.model.share();
        let joined = self.detect.joiner.on_phase(index, share, level, self.bursts, &self.model.params);
        let creeps = self.cycle.creeps() && index > 1;
        let yielding = self.yielding();
        let longer = self.detect.longer.on_phase(yielding, &self.model.params);
        if longer == Some(Longer) && !ack.app_limited {
            self.take_longer_path(ack.now);
        } else if overload == Overload::Persistent {
            self.enter_drain(ack.now, Why::Overloaded);
        } else if joined == Some(Joined) && !ack.app_limited {
            self.yield_to_joiner(ack);
        } else if creeps && self.model.level() == QueueLevel::Empty && !ack.app_limited {
            // A whole phase of creeping left the queue empty and lost nothing: a ramp begins. How much room
            // there is nobody knows.
            let gain = self.model.params.ramp_gain(0);
            self.transition(ack.now, State::ramp(ack.now, 1), Why::StillRoom, gain);
        } else {
            let next = State::cruise(ack.now, index + 1);
            self.transition(ack.now, next, Why::NextPhase, self.cruise_gain());
        }
    }

    /// What the phase that is over says about the path's delay, if it yielded to a queue that is too long.
    fn yielding(&self) -> Option<LongerSample> {
        let (model, p) = (&self.model, &self.model.params);
        let queue = model.standing();
        let yields = self.cruise_gain() < 1.0 && queue > p.queue_step * self.longest_own_queue();
        (yields && !model.loses()).then_some(LongerSample {
            queue,
            arrived: model.newest,
            pacing: model.pacing,
        })
    }

    /// What the flow had is the newcomer's now.
    fn yield_to_joiner(&mut self, ack: &AckSample) {
        self.model.shortfall = Shortfall::None;
        self.model.forget_best();
        self.enter_drain(ack.now, Why::Joined);
        self.detect.joiner.settle(self.model.share());
    }

    /// Rate over capacity, by the distance of the standing queue from its target (FAST's loop, on the rate).
    pub(super) fn cruise_gain(&self) -> f64 {
        let (model, p) = (&self.model, &self.model.params);
        let path = model.latest_rtt.max(model.span).max(p.measure_min).as_secs_f64();
        let short_of = model.queue_target().as_secs_f64() - model.standing().as_secs_f64();
        let creep = if self.cycle.creeps() { p.creep_max } else { 0.0 };
        1.0 + (p.queue_gain * short_of / path).clamp(-p.withheld_max, creep)
    }
}
