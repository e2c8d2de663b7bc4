//! Drains: from time to time, when another flow has joined and when the base delay turns out lower, the
//! flow sends less for a phase. That shows the base delay to all flows of the path, and how much is lost
//! when the queue holds nothing of this flow.

use super::Auto;
use super::model::{Count, Model, QueueLevel};
use super::state::{Cruise, Drain, Phase, State, Why};
use crate::Timestamp;
use std::time::Duration;

/// Whether sending a little more than is delivered is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// It may find room.
    Creep,
    /// It was lost or marked: not before this moment.
    Hold(Timestamp),
}

/// The time from drain to drain.
#[derive(Debug)]
pub(crate) struct Cycle {
    /// When the flow last drained, or a standing queue was last seen to go: so flows that share a path
    /// drain in step.
    pub(crate) drained: Timestamp,
    /// The base delay as it was known at the last drain.
    base: Duration,
    growth: Growth,
    /// Phases to hold for when creeping costs something again: twice as many each time, until the path
    /// delivers a higher rate.
    holds: u32,
    /// What the phase before the drain counted, if it lost more than chance explains.
    cost: Option<Count>,
}

impl Default for Cycle {
    fn default() -> Cycle {
        Cycle { drained: Timestamp::ZERO, base: Duration::ZERO, growth: Growth::Creep, holds: 1, cost: None }
    }
}

impl Cycle {
    pub(crate) fn restart(&mut self, now: Timestamp, base: Duration) {
        self.drained = now;
        self.base = base;
    }

    /// Whether sending more may be tried.
    pub(crate) fn creeps(&self) -> bool {
        self.growth == Growth::Creep
    }

    /// More was lost or marked than the path loses by itself.
    pub(crate) fn hold(&mut self, now: Timestamp, model: &Model) {
        if self.growth == Growth::Creep {
            self.holds = self.holds.saturating_mul(2);
        }
        let time = (model.phase().total() * self.holds).min(model.cycle_len());
        self.growth = Growth::Hold(now + time);
    }

    /// A hold ends.
    pub(crate) fn resume(&mut self, now: Timestamp) {
        if matches!(self.growth, Growth::Hold(until) if now >= until) {
            self.growth = Growth::Creep;
        }
    }

    /// The path delivers a higher rate.
    pub(crate) fn grew(&mut self) {
        self.holds = 1;
    }
}

impl Auto {
    /// By how much the base delay has fallen since the last drain.
    fn base_fell_by(&self) -> Duration {
        self.cycle.base.saturating_sub(self.model.min_rtt)
    }

    /// Whether what was taken for the base delay had others' queue in it, and may still have.
    pub(super) fn base_fell(&self) -> bool {
        self.base_fell_by() > self.model.short_queue() / self.model.params.queue_step
    }

    /// Whether a cycle is over.
    pub(super) fn drain_is_due(&self, now: Timestamp) -> bool {
        now - self.cycle.drained >= self.model.cycle_len()
    }

    pub(super) fn enter_drain(&mut self, now: Timestamp, why: Why) {
        let p = self.model.params;
        let mut hidden = 0.0;
        if self.base_fell() {
            hidden = self.base_fell_by().as_secs_f64() * f64::from(p.queue_step);
        }
        self.cycle.restart(now, self.model.min_rtt);
        self.cycle.cost = self.model.loses().then(|| self.model.losses.phase());
        self.detect.policer.forget();
        let phase = self.model.phase().total().as_secs_f64();
        // The queue is shared: a flow with a share of the link must cut its rate by more to empty it.
        let queue = (self.model.standing().as_secs_f64() + hidden) / self.model.share().max(p.scale_min);
        let gain = 1.0 - (p.noise + queue / phase).min(p.withheld_max);
        let queue = self.model.standing();
        self.transition(
            now,
            State::Cruise(Cruise::Drain(Drain { phase: Phase::begin(now), gain, queue })),
            why,
            gain,
        );
    }

    /// Whether the drain shows that no queue stands: all that was sent arrived, and what was not sent made
    /// the delay no shorter. A flow's own queue shrinks by what the flow does not send, and a queue of others
    /// delivers more of a flow that sends less than it did.
    fn shows_no_queue(&self, drain: &Drain) -> bool {
        let (model, p) = (&self.model, &self.model.params);
        let withheld = model.phase().total().mul_f64((1.0 - drain.gain) * model.share());
        let fell = drain.queue.saturating_sub(model.standing());
        model.level() == QueueLevel::Busy
            && fell < drain.queue.min(withheld).mul_f64(p.test_left)
            && model.newest <= model.pacing.scaled(1.0 + p.noise)
            && !model.loses()
    }

    /// What looked like a queue is the path's delay now; its rate is to be found again.
    pub(super) fn take_longer_path(&mut self, now: Timestamp) {
        self.model.forget_base(now, self.model.min_rtt + self.model.standing());
        self.cycle.restart(now, self.model.min_rtt);
        let gain = self.model.params.ramp_gain(0);
        self.transition(now, State::ramp(now, 1), Why::PathLonger, gain);
    }

    /// A drain is over: what was lost in it is the path's own loss, unless others held the queue.
    pub(super) fn end_drain(&mut self, now: Timestamp, drain: Drain) {
        self.model.losses.end_drain();
        if self.model.level() != QueueLevel::Busy {
            self.model.losses.learn();
        }
        // A rate that lost what the drain did not lose is not tried again at once.
        if self.cycle.cost.take().is_some_and(|cost| self.model.losses.exceeds(cost, &self.model.params)) {
            self.cycle.hold(now, &self.model);
        }
        if self.base_fell() {
            return self.enter_drain(now, Why::BaseFell);
        }
        if self.shows_no_queue(&drain) {
            return self.take_longer_path(now);
        }
        self.transition(now, State::cruise(now, 1), Why::Drained, self.cruise_gain());
    }
}
