//! How BBR probes for bandwidth (draft-ietf-ccwg-bbr section 5.3.3): down, to drain what the last probe
//! queued; cruise, for a few seconds; refill, a round trip that fills the pipe; up, until the bandwidth
//! grows no more or too much is lost.

use super::FullBw;
use super::model::{BETA, Model};
use crate::Timestamp;
use crate::congestion::AckSample;
use std::time::Duration;

/// Section 5.3.3: the time between probes, two seconds and up to one more.
const PROBE_WAIT: Duration = Duration::from_secs(2);
const PROBE_WAIT_MORE_MS: u64 = 1000;
/// Section 5.3.3: or as many round trips as Reno takes to grow back, but not more than these.
const PROBE_ROUNDS_MAX: u64 = 63;
/// Doublings of the slope at which the long-term bound is raised (section 5.3.3).
const SLOPE_MAX: u32 = 30;

/// A phase of the cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    #[default]
    Down,
    Cruise,
    Refill,
    Up,
}

impl Phase {
    /// Section 5.1.
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            Phase::Down => 0.90,
            Phase::Cruise | Phase::Refill => 1.0,
            Phase::Up => 1.25,
        }
    }

    pub(super) fn window_gain(self) -> f64 {
        if self == Phase::Up { 2.25 } else { 2.0 }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Down => "probe down",
            Phase::Cruise => "cruise",
            Phase::Refill => "refill",
            Phase::Up => "probe up",
        }
    }
}

/// What acks are about, a round trip behind what is sent (section 5.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Acks {
    #[default]
    Other,
    /// The first round trip after a probe: its samples are the probe's.
    Stopping,
}

/// The cycle's state.
#[derive(Debug, Default)]
pub(super) struct Cycle {
    phase: Phase,
    began: Timestamp,
    wait: Duration,
    /// The model's round when the last probe ended.
    probed_round: u64,
    acks: Acks,
    /// Losses now are of this probe, and end it.
    probing: bool,
    /// Growth of the long-term bound: bytes acknowledged per packet of it, those acknowledged so far, and
    /// the slope.
    up_every: u64,
    up_acked: u64,
    up_rounds: u32,
}

impl Cycle {
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// A probe, or startup, is over.
    pub(super) fn start_down(&mut self, now: Timestamp, model: &mut Model) {
        *self = Cycle { phase: Phase::Down, began: now, acks: Acks::Stopping, ..Cycle::default() };
        // Flows that probe at once learn nothing: the time serves as the seed, so that a replay is the same.
        let mixed = now.as_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.wait = PROBE_WAIT + Duration::from_millis(mixed % PROBE_WAIT_MORE_MS);
        self.probed_round = model.rounds.saturating_sub(mixed & 1);
        model.start_round(now);
    }

    pub(super) fn start_cruise(&mut self) {
        self.phase = Phase::Cruise;
    }

    fn start_refill(&mut self, now: Timestamp, model: &mut Model) {
        model.reset_lower_bounds();
        (self.up_rounds, self.up_acked) = (0, 0);
        self.phase = Phase::Refill;
        self.acks = Acks::Other;
        model.start_round(now);
    }

    fn start_up(&mut self, now: Timestamp, model: &mut Model, full_bw: &mut FullBw, window: u64) {
        self.phase = Phase::Up;
        self.began = now;
        self.probing = true;
        *full_bw = FullBw { bw: model.round.bw_latest, ..FullBw::default() };
        model.start_round(now);
        self.raise_slope(model, window);
    }

    pub(super) fn on_ack(&mut self, ack: &AckSample, model: &mut Model, full_bw: &mut FullBw, window: u64) {
        if self.acks == Acks::Stopping && model.round_start {
            self.acks = Acks::Other;
            if !ack.app_limited {
                model.advance_bw_filter();
            }
        }
        // No further packet fitted: a window of five packets and a half is full with five.
        let flying = ack.bytes_in_flight.saturating_add(ack.acked_bytes);
        let limited = flying.saturating_add(model.packet_len) > window;
        match self.phase {
            Phase::Down if self.is_time_to_probe(ack.now, model) => self.start_refill(ack.now, model),
            Phase::Down if is_time_to_cruise(ack, model) => self.start_cruise(),
            Phase::Cruise if self.is_time_to_probe(ack.now, model) => self.start_refill(ack.now, model),
            Phase::Refill if model.round_start => self.start_up(ack.now, model, full_bw, window),
            Phase::Up => {
                self.raise_bound(ack, model, window, limited);
                let at_bound = limited && model.inflight_longterm.is_some_and(|bound| window >= bound);
                if at_bound {
                    // The bound keeps the bandwidth from growing, not the path.
                    *full_bw = FullBw { bw: model.round.bw_latest, ..FullBw::default() };
                } else if full_bw.now {
                    self.start_down(ack.now, model);
                }
            }
            Phase::Down | Phase::Cruise | Phase::Refill => {}
        }
    }

    /// Section 5.5.10: too much was lost in a probe: the bytes in flight then are the bound.
    pub(super) fn on_loss(&mut self, now: Timestamp, model: &mut Model, full_bw: &mut FullBw, window: u64) {
        if !self.probing || !model.is_inflight_too_high() {
            return;
        }
        self.probing = false;
        let target = model.bdp(model.bw(), 1.0).min(window);
        let then = model.in_flight_then();
        model.inflight_longterm = Some(then.max((target as f64 * BETA) as u64));
        if self.phase == Phase::Up {
            *full_bw = FullBw::default();
            self.start_down(now, model);
        }
    }

    fn is_time_to_probe(&self, now: Timestamp, model: &Model) -> bool {
        let target = model.bdp(model.bw(), 1.0) / model.packet_len;
        let reno = target.clamp(1, PROBE_ROUNDS_MAX);
        now - self.began > self.wait || model.rounds - self.probed_round.min(model.rounds) >= reno
    }

    /// Section 5.3.3: the long-term bound grows where it is what limits, faster with each round.
    fn raise_bound(&mut self, ack: &AckSample, model: &mut Model, window: u64, limited: bool) {
        let Some(bound) = model.inflight_longterm else { return };
        if limited && window >= bound {
            self.up_acked = self.up_acked.saturating_add(ack.acked_bytes);
            let packets = self.up_acked / self.up_every.max(1);
            self.up_acked -= packets * self.up_every.max(1);
            model.inflight_longterm = Some(bound.saturating_add(packets.saturating_mul(model.packet_len)));
        }
        if model.round_start {
            self.raise_slope(model, window);
        }
    }

    fn raise_slope(&mut self, model: &Model, window: u64) {
        let packets_this_round = 1u64 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(SLOPE_MAX);
        self.up_every = (window / packets_this_round).max(model.packet_len);
    }
}

/// Section 5.3.3: the queue of the last probe is drained, and there is room for others.
fn is_time_to_cruise(ack: &AckSample, model: &Model) -> bool {
    let room = model.inflight_with_headroom().is_none_or(|bound| ack.bytes_in_flight <= bound);
    room && ack.bytes_in_flight <= model.bdp(model.max_bw(), 1.0)
}
