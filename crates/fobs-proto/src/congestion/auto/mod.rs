//! `auto`, the default controller: it models the path instead of reacting to single losses.
//!
//! Each ack goes through three steps: the model takes it in (`model`), detectors return findings
//! (`detect`, `findings`), and the present state decides what follows from them. A change of state goes
//! through [`Auto::transition`] and stands in one table (`state`). docs/controllers.md explains the control
//! law; `params` has all numbers.
//!
//! ```text
//!   state                         the three states, their phases with their data, the table of transitions
//!   train ramp cruise drain compete     what each phase decides
//!   silence                       what follows when nothing comes back
//!   findings                      what detectors find
//!   memory                        what earlier transfers left, and the jump that rests on it
//!   competition                   how it sends beside flows that fill queues, as CUBIC or BBR
//! ```

mod claims;
mod compete;
mod competition;
mod cruise;
mod detect;
mod drain;
mod findings;
mod memory;
mod model;
mod params;
mod ramp;
mod silence;
mod state;
#[cfg(test)]
mod tests;
mod train;

pub use params::{ParamError, Params};

use super::mode::ModeLog;
use super::{
    AckSample, Adaptive, BurstSent, Claim, Controller, EcnMark, FoundLosses, LossEpisode, LossEvidence,
    LossResponse, ModeChange, ModeReason, PathHistory, Priority,
};
use crate::{Rate, Timestamp};
use claims::Claims;
use detect::{BurstPath, Detectors};
use drain::Cycle;
use findings::{Bursts, QueueEvent};
use memory::Memory;
use model::{Disturbed, Model, Quiet};
use state::{Cruise, Kind, Progress, Stage, Start, State, Train, Why, is_legal};
use std::time::Duration;

/// Modes as changes name them: while it looks for the path's rate, and while it models the path; the laws
/// of a competition have their own names.
const START: &str = "start";
const CRUISE: &str = "cruise";

/// The default controller.
#[derive(Debug)]
pub struct Auto {
    model: Model,
    detect: Detectors,
    state: State,
    /// The newest finding of the burst detector.
    bursts: Bursts,
    claims: Claims,
    cycle: Cycle,
    memory: Memory,
    /// The path's rate when the ramp first ended; `None` until then.
    first: Option<Rate>,
    /// Bytes sent since the present state began.
    sent: u64,
    /// Packets that were declared lost and came: the path shuffles them.
    shuffled: u64,
    /// The capacity before a silence that has not ended.
    silenced: Option<Rate>,
    log: ModeLog,
    window: u64,
    /// The largest rate of each lane.
    rate_max_each: Rate,
}

impl Auto {
    /// A controller that knows nothing of the path, with packets of `packet_len` datagram bytes, and shares.
    pub fn new(packet_len: u16) -> Auto {
        Auto::with_priority(packet_len, Priority::Fair)
    }

    /// The same with another claim.
    pub fn with_priority(packet_len: u16, priority: Priority) -> Auto {
        Auto::with_params(packet_len, priority, Params::default())
    }

    /// The same with other numbers, for experiments.
    pub fn with_params(packet_len: u16, priority: Priority, params: Params) -> Auto {
        let model = Model::new(packet_len, params);
        Auto {
            detect: Detectors::new(),
            state: State::Start(Start::Train(Train::default())),
            bursts: Bursts::Absent,
            claims: Claims::new(priority, params.rate_max),
            cycle: Cycle::default(),
            memory: Memory::default(),
            first: None,
            sent: 0,
            shuffled: 0,
            silenced: None,
            log: ModeLog::default(),
            window: params.train_packets * model.packet_len,
            rate_max_each: params.rate_max,
            model,
        }
    }

    /// One that has measured nothing yet, with the numbers of this model.
    fn anew(model: &Model) -> Auto {
        let packet_len = u16::try_from(model.packet_len).unwrap_or(u16::MAX);
        Auto::with_params(packet_len, Priority::Fair, model.params)
    }

    /// The only place where the state changes. The new phase is paced at `gain` times the capacity.
    fn transition(&mut self, now: Timestamp, to: State, why: Why, gain: f64) {
        if self.first.is_none() && to.kind() != Kind::Start {
            self.end_start(now);
        }
        // There is nothing to look for above the ceiling.
        let tops = self.first.is_some() && self.model.capacity >= self.claims.ceiling;
        let (to, why) = match to {
            State::Start(Start::Ramp(_)) if tops => (State::cruise(now, 1), Why::Ceiling),
            to => (to, why),
        };
        self.check(to.kind(), why);
        self.model.previous = self.model.pacing;
        self.state = to;
        self.sent = 0;
        self.set_rate(gain);
    }

    /// An illegal transition is an error of this code; a release goes on with it.
    fn check(&self, to: Kind, why: Why) {
        let from = self.state.kind();
        debug_assert!(is_legal(from, to, why), "{from:?} to {to:?}, {why:?}");
        #[cfg(test)]
        tests::saw(from, to, why);
    }

    /// The ramp ends for the first time.
    fn end_start(&mut self, now: Timestamp) {
        self.cycle.restart(now, self.model.min_rtt);
        self.first = Some(self.model.proven);
        self.model.held.observe(now, self.model.proven);
        self.note(now, START, CRUISE, ModeReason::PathFound);
    }

    /// Paces at `gain` times the capacity.
    fn set_rate(&mut self, gain: f64) {
        let top = self.top();
        let (rate_min, loss) = (self.model.params.rate_min, self.model.loss_share());
        // A drain compensates no loss: it must stay below the path's rate to show whose the losses are.
        let arrives = if matches!(self.state, State::Cruise(Cruise::Drain(_))) { 1.0 } else { 1.0 - loss };
        self.model.capacity = self.model.capacity.max(rate_min).min(top);
        self.model.pacing = self.model.capacity.scaled(gain / arrives).max(rate_min).min(top);
        let p = &self.model.params;
        let gain = match self.bursts {
            Bursts::Absent => p.ramp_gain,
            Bursts::Standing | Bursts::Expected => p.probe_gain(),
        };
        let path = self.model.unqueued_rtt() + self.model.noise_bound();
        let path = self.model.pacing.bytes_in(path) as f64 * gain;
        // Each end may hold a short queue.
        let ends = self.model.pacing.bytes_in(2 * p.queue_min);
        let few = 2 * u64::from(p.queue_packets) * self.model.packet_len;
        self.window = path as u64 + ends + few;
    }

    /// Never faster than this.
    fn top(&self) -> Rate {
        if self.first.is_some() { self.claims.ceiling } else { self.model.params.rate_max }
    }

    /// Logs a change of mode.
    fn note(&mut self, at: Timestamp, from: &'static str, to: &'static str, reason: ModeReason) {
        let (queue, delivered) = (self.model.standing(), self.model.newest);
        self.log.note(ModeChange { at, from, to, reason, queue, delivered });
    }

    /// Whether the flow adds nothing to the queue: in drains, and at first below what the train has found.
    fn quiet(&self) -> Quiet {
        match self.state {
            State::Cruise(Cruise::Drain(_)) => Quiet::Yes,
            State::Start(Start::Ramp(ramp)) if self.first.is_none() && ramp.step == 0 => Quiet::Yes,
            _ => Quiet::No,
        }
    }

    /// What the standing queue says whatever the state.
    fn watch_queue(&mut self, now: Timestamp) {
        if self.detect.queue.on_level(self.model.level()) == QueueEvent::Drained {
            self.cycle.drained = now;
        }
        if self.model.queue_is_gone() {
            self.detect.crowd.on_gone(now);
        }
    }

    /// The only call of the burst detector for its finding.
    fn find_bursts(&mut self) {
        // In the queues of others nothing overtakes; where something does, steep delays are the path's.
        if self.is_shuffled() {
            (self.bursts, self.model.disturbed) = (Bursts::Absent, Disturbed::ByPath);
        } else {
            self.bursts = self.detect.bursts.finding(&self.model.params);
            self.model.disturbed = Disturbed::ByQueues;
        }
    }

    /// Whether packets overtook each other on this path.
    fn is_shuffled(&self) -> bool {
        self.shuffled >= self.model.params.few_packets
    }

    fn forget_bursts(&mut self) {
        self.detect.bursts.forget_trend();
        self.find_bursts();
    }

    /// An ack in a state that follows the model.
    fn steer(&mut self, ack: &AckSample) {
        if self.first.is_some() {
            let (model, bursts) = (&self.model, &mut self.detect.bursts);
            let noise = model.noise.of(model.params.noise_deviations);
            let path = BurstPath { min_rtt: model.min_rtt, capacity: model.capacity, noise };
            bursts.on_ack(ack, &path, &model.params);
            self.find_bursts();
        }
        if self.collapses(ack) {
            self.model.capacity = self.model.newest;
            self.enter_drain(ack.now, Why::Collapse);
        }
        let progress = self.advance(ack.now);
        match self.state {
            State::Start(Start::Ramp(ramp)) => self.on_ramp_ack(ack, ramp, progress),
            State::Cruise(_) => self.on_cruise_ack(ack, progress),
            State::Start(Start::Train(_)) | State::Compete(_) => {}
        }
    }

    /// Whether losses collapse the delivery rate, which only a change of the path explains.
    fn collapses(&mut self, ack: &AckSample) -> bool {
        let model = &mut self.model;
        let round = model.latest_rtt.max(model.params.measure_min);
        model.losses.collapse(ack.now, round, &model.params)
            && model.newest < model.pacing.scaled(1.0 - model.params.collapse_share)
    }

    /// Moves the phase on.
    fn advance(&mut self, now: Timestamp) -> Progress {
        let len = match self.state {
            State::Start(Start::Ramp(_)) => self.model.ramp_phase(),
            _ => self.model.phase(),
        };
        let Some(phase) = self.state.phase_mut() else { return Progress::Goes };
        if phase.stage == Stage::Waits && now - phase.since >= len.wait {
            phase.stage = Stage::Measures;
            self.model.losses.begin_phase();
            self.model.noise.begin_phase();
        }
        let progress = phase.progress(now, len);
        if progress == Progress::Over {
            let quiet = self.quiet();
            self.model.noise.end_phase(quiet, self.model.params.sigmas);
        }
        progress
    }
}

impl Controller for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn on_sent(&mut self, sent: &BurstSent) {
        self.sent = self.sent.saturating_add(sent.bytes);
        match &mut self.state {
            State::Start(Start::Train(_)) => self.on_train_sent(sent),
            State::Compete(competition) => competition.on_sent(sent),
            State::Start(Start::Ramp(_)) | State::Cruise(_) => {}
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.model.update(ack);
        self.watch_queue(ack.now);
        self.end_silence(ack);
        match self.state {
            State::Start(Start::Train(_)) => self.on_train_ack(ack),
            State::Compete(_) => self.on_compete_ack(ack),
            State::Start(Start::Ramp(_)) | State::Cruise(_) => self.steer(ack),
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        if loss.cause.spares_rate() {
            return;
        }
        if loss.evidence == LossEvidence::Silence && !matches!(self.state, State::Start(Start::Train(_))) {
            return self.on_silence();
        }
        self.model.losses.on_lost(loss.packets as f64);
        self.retreat();
        if let State::Compete(competition) = &mut self.state {
            competition.on_loss(loss);
        }
    }

    fn begin_again(&mut self) {
        let Auto { claims, memory, log, .. } = std::mem::replace(self, Auto::anew(&self.model));
        (self.claims, self.memory, self.log) = (claims, memory, log);
    }

    fn on_found(&mut self, found: &FoundLosses) {
        self.model.losses.on_found(found.packets as f64);
        self.shuffled = self.shuffled.saturating_add(found.packets);
        if let State::Compete(competition) = &mut self.state {
            competition.on_found(found.packets as f64);
        }
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        self.retreat();
        // The queue marks before it drops: yield at once, once a round trip, and do not creep back before
        // the next drain.
        let waits = matches!(
            self.state,
            State::Start(Start::Train(_)) | State::Cruise(Cruise::Drain(_)) | State::Compete(_)
        );
        let round = self.model.latest_rtt.max(self.model.params.measure_min);
        if !waits && mark.now - self.cycle.drained >= round {
            self.model.capacity = self.model.capacity.min(self.model.newest);
            self.enter_drain(mark.now, Why::Marked);
            self.cycle.hold(mark.now, &self.model);
        }
    }

    fn recall(&mut self, history: &PathHistory) {
        self.memory = Memory::of(history);
    }

    fn remember(&self, history: &mut PathHistory) {
        let best = self.model.best.rate();
        if best > self.model.params.rate_min {
            history.link_rate = Some(best.as_bytes());
            history.round_trip = Some(self.model.min_rtt);
        }
    }

    fn congestion_window(&self) -> u64 {
        self.window.max(self.model.params.few_packets * self.model.packet_len)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.model.pacing)
    }

    fn rate_window(&self) -> Duration {
        self.model.noise_window()
    }

    fn loss_response(&self) -> LossResponse {
        LossResponse::Models
    }

    fn as_adaptive(&mut self) -> Option<&mut dyn Adaptive> {
        Some(self)
    }

    fn state(&self) -> &'static str {
        self.state.name()
    }

    fn carried_by(&mut self, lanes: u32) {
        // What one thread can send is no bound of several.
        let before = self.model.params.rate_max;
        let most = self.rate_max_each.as_bytes().saturating_mul(u64::from(lanes.max(1)));
        let most = Rate::bytes_per_second(most);
        self.model.params.rate_max = most;
        let (ceiling, model) = (&mut self.claims.ceiling, &mut self.model);
        for rate in [ceiling, &mut model.pacing, &mut model.previous] {
            if *rate == before {
                *rate = most;
            }
        }
    }
}

impl Adaptive for Auto {
    fn claim(&mut self, now: Timestamp, claim: Claim) {
        let p = &self.model.params;
        self.claims.ceiling = claim.ceiling.unwrap_or(p.rate_max).max(p.rate_min).min(p.rate_max);
        if claim.priority == self.claims.priority {
            return;
        }
        self.claims.change(claim.priority);
        if self.claims.is_raised() {
            // What the flow had while it yielded to all says nothing of what its part is.
            self.model.proven = self.model.proven.max(self.first.unwrap_or(p.rate_min));
        }
        if let State::Compete(competition) = &self.state {
            // Whether others hold the queue is decided anew under the new claim.
            let from = competition.name();
            self.note(now, from, CRUISE, ModeReason::ClaimChanged { to: claim.priority });
            self.enter_drain(now, Why::ClaimChanged);
        }
    }

    fn priority(&self) -> Priority {
        self.claims.priority
    }

    fn poll_mode_change(&mut self) -> Option<ModeChange> {
        self.log.poll()
    }
}
