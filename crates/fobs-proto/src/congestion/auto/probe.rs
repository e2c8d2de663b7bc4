//! Probes for a rise of the path's rate. To try a little more each round takes ten round trips to come to
//! ten times the rate, so a train follows, as at the start: its dispersion is the path's rate, one round
//! trip later. The pause behind it makes up for it: where nothing has risen, the path carries no more than
//! before. One is sent when the queue vanishes faster than what is sent explains, and one after drains,
//! which leave no queue that could vanish.

use super::super::{AckSample, BurstSent};
use super::Auto;
use super::detect::Room;
use super::state::{State, Why};
use crate::recovery::RateSample;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// A probe to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbePlan {
    /// Bytes to send at once, and those of them for which no pause makes up: they refill the queue.
    train: u64,
    refill: u64,
    company: Company,
}

/// Whether the flow follows what a probe finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Company {
    /// No other flow has a noticeable part of the path.
    Alone,
    /// Others have, or it is not known: the probe only finds out whether that is so.
    Shared,
}

/// Whether the queue that the probe refilled has gone again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refill {
    Stands,
    Vanished,
}

/// A running probe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    plan: ProbePlan,
    since: Timestamp,
    sent: u64,
    /// The sending rate before and after it.
    rate: Rate,
    refill: Refill,
    /// The first report that was faster, which may have begun before the train, and all others together.
    first: Option<Slope>,
    others: Slope,
}

/// What reports say together.
#[derive(Debug, Clone, Copy, Default)]
struct Slope {
    packets: u64,
    bytes: u64,
    span: Duration,
}

/// What an ack means while a probe runs.
enum Finding {
    /// A queue stands: not the probe's, which is gone by the time that a queue is seen to stand.
    Disturbed,
    /// All has arrived, or all that will.
    Arrived(Probe),
    Travels,
}

impl Auto {
    /// Whether no other flow has a noticeable part of the path.
    pub(super) fn is_alone(&self) -> bool {
        self.detect.rise.is_alone(self.model.capacity, &self.model.params)
    }

    /// A flow that is alone leaves the queue behind that it keeps; one that is not probes seldom, to learn
    /// whether that is still so.
    pub(super) fn probe_after_drain(&self, now: Timestamp) -> Option<ProbePlan> {
        let (alone, rise) = (self.is_alone(), &self.detect.rise);
        if !alone && rise.knows() && !rise.is_stale(now, &self.model.params) {
            return None;
        }
        let refill = if alone { self.model.capacity.bytes_in(self.model.queue_target()) } else { 0 };
        self.probe_plan(now, refill)
    }

    /// A probe that leaves `refill` bytes in the queue, if one fits the path.
    pub(super) fn probe_plan(&self, now: Timestamp, refill: u64) -> Option<ProbePlan> {
        let packets = self.detect.rise.probe_packets(now, &self.model)?;
        let company = if self.is_alone() { Company::Alone } else { Company::Shared };
        let train = (packets * self.model.packet_len).max(refill);
        (self.model.capacity < self.claims.ceiling).then_some(ProbePlan { train, refill, company })
    }

    pub(super) fn enter_probe(&mut self, now: Timestamp, plan: ProbePlan, why: Why) {
        let probe = Probe::new(now, plan, self.model.pacing);
        self.transition(now, State::Probe(probe), why, 1.0);
        self.model.losses.begin_phase();
        // The train's own queue is no burst of others.
        self.forget_bursts();
        self.detect.rise.on_probe(now);
        if let State::Probe(probe) = &mut self.state {
            probe.rate = self.model.pacing;
        }
        self.model.pacing = self.model.params.rate_max.min(self.top());
    }

    /// Behind the train, nothing leaves for as long as it would have taken at the flow's rate.
    pub(super) fn on_probe_sent(&mut self, sent: &BurstSent) {
        let State::Probe(probe) = &mut self.state else { return };
        let over = probe.sent >= probe.plan.train;
        probe.sent += sent.bytes;
        if over {
            self.model.pacing = probe.rate;
        } else if probe.sent >= probe.plan.train {
            let owed = probe.sent.saturating_sub(probe.plan.refill).max(1);
            self.model.pacing = probe.rate.scaled(sent.bytes as f64 / owed as f64);
        }
    }

    pub(super) fn on_probe_ack(&mut self, ack: &AckSample) {
        match self.find_probe(ack) {
            Finding::Disturbed => {
                self.detect.rise.unsettle(ack.now);
                self.transition(ack.now, State::cruise(ack.now, 1), Why::Disturbed, 1.0);
            }
            Finding::Arrived(probe) => self.end_probe(ack.now, probe),
            Finding::Travels => {}
        }
    }

    fn find_probe(&mut self, ack: &AckSample) -> Finding {
        let (model, p) = (&self.model, &self.model.params);
        let target = model.queue_target();
        if model.queue.delay() > p.calm_queue * target {
            return Finding::Disturbed;
        }
        let room = self.detect.rise.on_delay(ack.now, model.delay(), target, p);
        let State::Probe(probe) = &mut self.state else { return Finding::Travels };
        if room == Room::Vanished && probe.plan.refill > 0 {
            probe.refill = Refill::Vanished;
        }
        let faster = model.capacity.scaled(p.rise_ratio);
        let stood = ack.now - probe.since;
        let step = ack.step.filter(|_| stood >= model.min_rtt);
        if let Some(step) = step.filter(|step| step.rate > faster) {
            probe.add(step, p.probe_later, p.probed_packets);
        }
        let slower = step.is_some_and(|step| step.rate <= faster);
        let passed = slower && probe.others.packets >= p.probed_packets;
        // The train, the pause behind it, news of its losses, and a report that waits.
        let longest = model.latest_rtt * 5 / 4 + probe.rate.time_for(probe.plan.train) + p.measure_min;
        if passed || probe.arrived() >= probe.plan.train || stood >= longest {
            Finding::Arrived(*probe)
        } else {
            Finding::Travels
        }
    }

    fn end_probe(&mut self, now: Timestamp, probe: Probe) {
        let p = self.model.params;
        if self.model.loses() {
            self.detect.rise.on_lost_probe(probe.plan.train / self.model.packet_len);
            self.detect.rise.unsettle(now);
            return self.transition(now, State::cruise(now, 1), Why::ProbeLost, self.cruise_gain());
        }
        let faster = self.model.capacity.scaled(p.rise_ratio);
        let found = probe.rate(p.probed_packets).filter(|rate| *rate > faster);
        self.detect.rise.on_probed(now, found.unwrap_or(self.model.capacity));
        let risen = found.filter(|_| probe.plan.company == Company::Alone);
        // It came too early: much of it was not faster, or all of it.
        let midway = probe.arrived() < probe.plan.train / 2;
        let early = match risen {
            Some(rate) => midway && rate > self.model.capacity.scaled(p.probe_later),
            None => probe.refill == Refill::Vanished,
        };
        if let Some(rate) = risen {
            self.detect.rise.on_risen(&p);
            self.model.capacity = rate.scaled(p.ramp_start);
            self.model.proven = self.model.capacity;
        }
        match self.probe_plan(now, 0).filter(|_| early) {
            Some(plan) => self.enter_probe(now, plan, Why::TooEarly),
            None if risen.is_some() => self.transition(now, State::ramp(now, 0), Why::Risen, 1.0),
            None => self.transition(now, State::cruise(now, 1), Why::NotRisen, self.cruise_gain()),
        }
    }
}

impl Probe {
    fn new(now: Timestamp, plan: ProbePlan, rate: Rate) -> Probe {
        let others = Slope::default();
        Probe { plan, since: now, sent: 0, rate, refill: Refill::Stands, first: None, others }
    }

    /// Adds a report that was faster than the flow. One `later` times as fast as those before means that
    /// the rate rose during the probe.
    fn add(&mut self, step: RateSample, later: f64, enough: u64) {
        let before = Rate::of(self.others.bytes, self.others.span);
        if before.is_some_and(|rate| step.rate > rate.scaled(later)) && step.packets >= enough {
            self.others = Slope::default();
        }
        let slope = Slope { packets: step.packets, bytes: step.rate.bytes_in(step.span), span: step.span };
        match self.first {
            None => self.first = Some(slope),
            Some(_) => self.others.add(slope),
        }
    }

    /// Bytes that arrived faster.
    fn arrived(&self) -> u64 {
        self.first.map_or(0, |first| first.bytes).saturating_add(self.others.bytes)
    }

    /// The rate of the train, if reports cover enough packets of it.
    fn rate(&self, enough: u64) -> Option<Rate> {
        let slopes = [Some(self.others), self.first];
        let slope = slopes.into_iter().flatten().find(|slope| slope.packets >= enough)?;
        Rate::of(slope.bytes, slope.span)
    }
}

impl Slope {
    fn add(&mut self, other: Slope) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.span = self.span.saturating_add(other.span);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::PACKET;
    use super::*;

    fn mbit(mbit: u64) -> Rate {
        Rate::bits_per_second(mbit * 1_000_000)
    }

    #[test]
    fn a_rise_midway_is_measured_by_what_came_after_it() {
        let train = 512 * u64::from(PACKET);
        let plan = ProbePlan { train, refill: 0, company: Company::Alone };
        let mut probe = Probe::new(Timestamp::ZERO, plan, mbit(100));
        let report = |probe: &mut Probe, rate, packets| {
            let span = mbit(rate).time_for(packets * u64::from(PACKET));
            probe.add(RateSample { rate: mbit(rate), span, packets }, 1.5, 24);
            probe.rate(24).map(|rate| (rate.as_bytes() as f64 * 8e-6).round())
        };
        assert_eq!(probe.rate(24), None);
        assert_eq!(report(&mut probe, 150, 12), None, "too little");
        assert_eq!(report(&mut probe, 200, 64), Some(200.0));
        assert_eq!(report(&mut probe, 800, 64), Some(800.0));
    }
}
