//! BBR version 3 (draft-ietf-ccwg-bbr): sends at the measured bandwidth, keeps about a bandwidth-delay
//! product in flight, and takes loss as a bound on both. `model` has the estimates, `cycle` the bandwidth
//! probes; here are the states, rate and window.
//!
//! Delivery is measured over a round trip of acks and losses by the round trip, where the draft notes both
//! with each packet. Spurious losses are not undone (section 5.5.10), and ECN has no part beyond ending a
//! probe.

mod cycle;
mod model;
#[cfg(test)]
mod tests;

use super::rate::{RATE_MAX, bounded};
use super::{AckSample, BurstSent, Controller, EcnMark, LossEpisode, LossEvidence};
use crate::pacing::Pacer;
use crate::{Rate, Timestamp};
use cycle::{Cycle, Phase};
use model::Model;
use std::time::Duration;

/// StartupPacingGain, DrainPacingGain, DefaultCwndGain and ProbeRTTCwndGain. 4 ln 2 doubles the rate each
/// round trip.
const STARTUP_PACING_GAIN: f64 = 2.77;
const DRAIN_PACING_GAIN: f64 = 0.35;
const WINDOW_GAIN: f64 = 2.0;
const PROBE_RTT_WINDOW_GAIN: f64 = 0.5;
/// PacingMarginPercent: sent slower than the bandwidth by this, so that no queue builds up.
const PACING_MARGIN: f64 = 0.01;
/// Section 5.6.2: the first window and the round trip that is assumed for it.
const INITIAL_PACKETS: u64 = 10;
const INITIAL_RTT: Duration = Duration::from_millis(1);
/// Section 5.3.1: the pipe is full after this many rounds without [`FULL_BW_GROWTH`].
const FULL_BW_ROUNDS: u32 = 3;
const FULL_BW_GROWTH: f64 = 1.25;
/// Section 5.3.1: or after a round with this many reports of loss, and more loss than is tolerated.
const FULL_LOSS_REPORTS: u32 = 6;
/// ProbeRTTDuration.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BbrState {
    Startup,
    Drain,
    ProbeBw,
    /// When it may end, once the window has been reached; and the round that must have begun by then.
    ProbeRtt(Option<(Timestamp, u64)>),
}

/// Whether the bandwidth still grows (section 5.3.1); also used while probing.
#[derive(Debug, Default)]
struct FullBw {
    bw: Rate,
    rounds: u32,
    now: bool,
}

impl FullBw {
    fn on_ack(&mut self, ack: &AckSample, round_start: bool, rate: Rate) {
        if self.now || !round_start || ack.app_limited || rate == Rate::ZERO {
            return;
        }
        if rate >= self.bw.scaled(FULL_BW_GROWTH) {
            *self = FullBw { bw: rate, ..FullBw::default() };
            return;
        }
        self.rounds += 1;
        self.now = self.rounds >= FULL_BW_ROUNDS;
    }
}

/// The controller.
#[derive(Debug)]
pub struct Bbr {
    state: BbrState,
    model: Model,
    cycle: Cycle,
    full_bw: FullBw,
    /// The pipe was full once: startup is over for good.
    filled: bool,
    pacing: Rate,
    /// The highest sending rate of this and the last round.
    sent_rates: [Rate; 2],
    window: u64,
    /// Before a probe of the round trip.
    window_before: u64,
}

impl Bbr {
    /// A controller that knows nothing of the path, with packets of `packet_len` datagram bytes.
    pub fn new(packet_len: u16) -> Bbr {
        let model = Model::new(packet_len);
        let window = INITIAL_PACKETS * model.packet_len;
        let first = Rate::of(window, INITIAL_RTT).unwrap_or(RATE_MAX).scaled(STARTUP_PACING_GAIN);
        Bbr {
            state: BbrState::Startup,
            model,
            cycle: Cycle::default(),
            full_bw: FullBw::default(),
            filled: false,
            pacing: first,
            sent_rates: [first; 2],
            window,
            window_before: 0,
        }
    }

    /// One that knows the path, by the newest ack: it cruises at `rate`, which counts until its second probe,
    /// with the least round trip `min_rtt`.
    pub(super) fn at(ack: &AckSample, rate: Rate, min_rtt: Duration) -> Bbr {
        let mut model = Model::new(ack.packet_len);
        model.believe(ack.now, rate, min_rtt);
        let mut cycle = Cycle::default();
        cycle.start_down(ack.now, &mut model);
        cycle.start_cruise();
        Bbr {
            state: BbrState::ProbeBw,
            cycle,
            full_bw: FullBw::default(),
            filled: true,
            pacing: rate,
            sent_rates: [rate; 2],
            window: model.bdp(rate, WINDOW_GAIN).max(model.min_pipe()),
            window_before: 0,
            model,
        }
    }

    /// Whether almost nothing is in flight, so that the base delay shows.
    pub(super) fn probes_rtt(&self) -> bool {
        matches!(self.state, BbrState::ProbeRtt(_))
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            BbrState::Startup => STARTUP_PACING_GAIN,
            BbrState::Drain => DRAIN_PACING_GAIN,
            BbrState::ProbeBw => self.cycle.phase().pacing_gain(),
            BbrState::ProbeRtt(_) => 1.0,
        }
    }

    fn window_gain(&self) -> f64 {
        match self.state {
            BbrState::Startup | BbrState::Drain => WINDOW_GAIN,
            BbrState::ProbeBw => self.cycle.phase().window_gain(),
            BbrState::ProbeRtt(_) => PROBE_RTT_WINDOW_GAIN,
        }
    }

    /// Whether bandwidth is being probed: losses then end the probe and do not set the lower bounds.
    fn is_probing(&self) -> bool {
        match self.state {
            BbrState::Startup => true,
            BbrState::ProbeBw => matches!(self.cycle.phase(), Phase::Refill | Phase::Up),
            BbrState::Drain | BbrState::ProbeRtt(_) => false,
        }
    }

    /// Section 5.3.1: startup ends when the pipe is full.
    fn check_startup(&mut self) {
        if self.state != BbrState::Startup {
            return;
        }
        let round = self.model.round;
        if round.loss_reports >= FULL_LOSS_REPORTS && self.model.is_inflight_too_high() {
            self.full_bw.now = true;
            let bdp = self.model.bdp(self.model.max_bw(), 1.0);
            self.model.inflight_longterm = Some(bdp.max(round.inflight_latest));
        }
        if self.full_bw.now {
            self.filled = true;
            self.state = BbrState::Drain;
        }
    }

    /// Section 5.3.2: draining ends when the bytes in flight fit the bandwidth-delay product.
    fn check_drain(&mut self, ack: &AckSample) {
        if self.state == BbrState::Drain && ack.bytes_in_flight <= self.model.bdp(self.model.bw(), 1.0) {
            self.enter_down(ack.now);
        }
    }

    fn enter_down(&mut self, now: Timestamp) {
        self.state = BbrState::ProbeBw;
        self.full_bw = FullBw::default();
        self.cycle.start_down(now, &mut self.model);
    }

    /// Section 5.3.4: from time to time almost nothing is in flight, so that the base delay shows.
    fn check_probe_rtt(&mut self, ack: &AckSample, due: bool) {
        if due && !self.probes_rtt() {
            self.window_before = self.window;
            self.state = BbrState::ProbeRtt(None);
            self.model.start_round(ack.now);
        }
        let BbrState::ProbeRtt(done) = self.state else { return };
        match done {
            None if ack.bytes_in_flight <= self.probe_rtt_window() => {
                self.state = BbrState::ProbeRtt(Some((ack.now + PROBE_RTT_DURATION, self.model.rounds + 1)));
                self.model.start_round(ack.now);
            }
            Some((at, round)) if ack.now >= at && self.model.rounds >= round => {
                self.model.probe_rtt_min_at = ack.now;
                self.window = self.window.max(self.window_before);
                self.model.reset_lower_bounds();
                if self.filled {
                    self.enter_down(ack.now);
                    self.cycle.start_cruise();
                } else {
                    self.state = BbrState::Startup;
                }
            }
            _ => {}
        }
    }

    fn probe_rtt_window(&self) -> u64 {
        self.model.bdp(self.model.bw(), PROBE_RTT_WINDOW_GAIN).max(self.model.min_pipe())
    }

    /// Section 5.6.2.
    fn set_pacing_rate(&mut self) {
        let bw = self.model.bw().as_bytes() as f64;
        let rate = bounded(self.pacing_gain() * bw * (1.0 - PACING_MARGIN));
        // In startup only upwards: samples of a first flight are too low.
        if self.filled || rate > self.pacing {
            self.pacing = rate;
        }
        self.sent_rates[0] = self.sent_rates[0].max(self.pacing);
    }

    /// Section 5.6.4.
    fn set_window(&mut self, ack: &AckSample) {
        let model = &self.model;
        let wanted = model.bdp(model.bw(), self.window_gain()).saturating_add(model.extra_acked());
        // Three bursts must fit (section 5.6.4).
        let most = wanted.max(3 * Pacer::quantum(self.pacing)).max(model.min_pipe());
        let grown = self.window.saturating_add(ack.acked_bytes);
        if self.filled {
            self.window = grown.min(most);
        } else if self.window < most {
            self.window = grown;
        }
        let mut cap = u64::MAX;
        match self.state {
            BbrState::ProbeBw if self.cycle.phase() != Phase::Cruise => {
                cap = model.inflight_longterm.unwrap_or(u64::MAX);
            }
            BbrState::ProbeBw => cap = model.inflight_with_headroom().unwrap_or(u64::MAX),
            BbrState::ProbeRtt(_) => {
                cap = model.inflight_with_headroom().unwrap_or(u64::MAX).min(self.probe_rtt_window());
            }
            BbrState::Startup | BbrState::Drain => {}
        }
        cap = cap.min(model.inflight_shortterm.unwrap_or(u64::MAX));
        self.window = self.window.min(cap).max(model.min_pipe());
    }
}

impl Controller for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn on_sent(&mut self, sent: &BurstSent) {
        self.model.on_sent(sent.bytes_in_flight);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let due = self.model.probe_rtt_is_due(ack.now);
        self.model.on_ack(ack, self.sent_rates[0].max(self.sent_rates[1]));
        let round_start = self.model.round_start;
        if round_start && !self.is_probing() {
            self.model.adapt_lower_bounds(self.window);
        }
        self.full_bw.on_ack(ack, round_start, self.model.round.bw_latest);
        self.check_startup();
        self.check_drain(ack);
        if self.state == BbrState::ProbeBw {
            self.cycle.on_ack(ack, &mut self.model, &mut self.full_bw, self.window);
        }
        self.check_probe_rtt(ack, due);
        if round_start {
            self.model.reset_round();
            self.sent_rates = [Rate::ZERO, self.sent_rates[0]];
        }
        self.set_pacing_rate();
        self.set_window(ack);
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        if loss.cause.spares_rate() {
            return;
        }
        self.model.on_loss(loss);
        if loss.evidence == LossEvidence::Silence {
            // Section 5.6.4: nothing is in flight any more; the window comes back with the acks.
            self.window = self.model.min_pipe();
        }
        if self.state == BbrState::ProbeBw {
            self.cycle.on_loss(loss.now, &mut self.model, &mut self.full_bw, self.window);
        }
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        if self.state == BbrState::ProbeBw && self.cycle.phase() == Phase::Up {
            self.enter_down(mark.now);
        }
    }

    fn congestion_window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing)
    }

    fn state(&self) -> &'static str {
        match self.state {
            BbrState::Startup => "startup",
            BbrState::Drain => "drain",
            BbrState::ProbeBw => self.cycle.phase().name(),
            BbrState::ProbeRtt(_) => "probe rtt",
        }
    }
}
