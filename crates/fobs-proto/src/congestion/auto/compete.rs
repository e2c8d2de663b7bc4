//! The state beside flows that hold the queue: yielding would only make room for them.

use super::super::{AckSample, ModeReason, Priority};
use super::competition::{Competition, Course};
use super::detect::CrowdDetector;
use super::findings::Bursts;
use super::model::Shortfall;
use super::state::{State, Why};
use super::{Auto, CRUISE};

impl Auto {
    pub(super) fn enter_compete(&mut self, ack: &AckSample, why: Why, reason: ModeReason) {
        let (model, priority) = (&self.model, self.claims.priority);
        let held = model.proven.max(model.held.rate());
        let rate = match priority {
            Priority::Greedy => held,
            Priority::Scavenger | Priority::Fair => {
                // With one other half is fair, and it grows meanwhile.
                let p = &model.params;
                model.newest.max(held.scaled(1.0 - p.withheld_max))
            }
        };
        let competition = Competition::new(ack, rate, model.min_rtt, priority, &model.params);
        self.note(ack.now, CRUISE, competition.name(), reason);
        self.detect.crowd = CrowdDetector::default();
        self.forget_bursts();
        self.model.shortfall = Shortfall::None;
        self.claims.settle();
        self.transition(ack.now, State::Compete(Box::new(competition)), why, 1.0);
    }

    pub(super) fn on_compete_ack(&mut self, ack: &AckSample) {
        let (queue, target, top) = (self.model.standing(), self.model.short_queue(), self.top());
        let State::Compete(competition) = &mut self.state else { return };
        let model = &mut self.model;
        // A flow that does not use the window does not grow it (RFC 9438 section 4.2).
        let unused = ack.app_limited || model.pacing >= top;
        let ack = &AckSample { app_limited: unused, ..*ack };
        let course = competition.on_ack(ack, model.newest, queue, target, &model.losses);
        let law = competition.name();
        self.window = competition.window();
        model.pacing = competition.pacing(ack.now).max(model.params.rate_min).min(top);
        model.capacity = model.newest;
        if self.bursts == Bursts::Expected {
            model.best.observe(ack.now, model.newest);
        }
        match course {
            Course::Continues => {}
            Course::QueueOurs => {
                self.note(ack.now, law, CRUISE, ModeReason::QueueGone { target });
                let yielded = self.bursts == Bursts::Expected;
                let shortfall = if yielded { Shortfall::Yielded } else { Shortfall::None };
                self.end_compete(ack, Why::QueueOurs, shortfall);
            }
            Course::PathLonger => {
                self.model.forget_base(ack.now, ack.latest_rtt);
                self.note(ack.now, law, CRUISE, ModeReason::PathLonger { rtt: ack.latest_rtt });
                self.end_compete(ack, Why::PathLonger, Shortfall::None);
            }
        }
    }

    fn end_compete(&mut self, ack: &AckSample, why: Why, shortfall: Shortfall) {
        let model = &mut self.model;
        model.proven = model.proven.max(model.newest);
        model.held.observe(ack.now, model.proven);
        model.shortfall = shortfall;
        self.enter_drain(ack.now, why);
    }
}
