//! BBR, version 1 (Cardwell and others 2016, draft-cardwell-iccrg-bbr-congestion-control-00): what Linux has
//! under that name.

use super::window::{AckReport, Window};
use super::{INITIAL_WINDOW, PACKET};
use crate::time::{MS, Nanos, SEC, seconds};
use std::collections::VecDeque;

/// 2 / ln 2.
const STARTUP_GAIN: f64 = 2.885;
/// Gains of a cycle, a round trip each.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Round trips for which a bandwidth counts.
const BANDWIDTH_ROUNDS: u64 = 10;
/// Time for which a minimal RTT counts, and how long it is looked for.
const MIN_RTT_FOR: Nanos = 10 * SEC;
const PROBE_RTT_FOR: Nanos = 200 * MS;
const PROBE_RTT_WINDOW: f64 = 4.0;
/// The pipe is full when three rounds have not brought a quarter more.
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: f64 = 1.25;
/// Window over the bandwidth-delay product.
const WINDOW_GAIN: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bbr1State {
    Startup,
    Drain,
    /// Phase of the cycle, and when it began.
    ProbeBandwidth(usize, Nanos),
    /// Until when.
    ProbeRtt(Option<Nanos>),
}

#[derive(Debug)]
pub(super) struct Bbr {
    state: Bbr1State,
    /// Rates in packets per second, with their rounds, falling.
    bandwidths: VecDeque<(u64, f64)>,
    min_rtt: Nanos,
    min_rtt_at: Nanos,
    full: f64,
    full_round: u64,
    full_rounds: u32,
    filled: bool,
    window: f64,
    /// After a timeout the window opens again packet by packet.
    recovering: bool,
}

impl Default for Bbr {
    fn default() -> Self {
        Bbr {
            state: Bbr1State::Startup,
            bandwidths: VecDeque::new(),
            min_rtt: Nanos::MAX,
            min_rtt_at: 0,
            full: 0.0,
            full_round: 0,
            full_rounds: 0,
            filled: false,
            window: INITIAL_WINDOW,
            recovering: false,
        }
    }
}

impl Bbr {
    fn bandwidth(&self) -> f64 {
        self.bandwidths.front().map_or(0.0, |(_, rate)| *rate)
    }

    /// Packets that fill the path.
    fn path(&self) -> f64 {
        if self.min_rtt == Nanos::MAX { INITIAL_WINDOW } else { self.bandwidth() * seconds(self.min_rtt) }
    }

    fn take_bandwidth(&mut self, round: u64, rate: f64) {
        while self.bandwidths.back().is_some_and(|(_, other)| *other <= rate) {
            self.bandwidths.pop_back();
        }
        self.bandwidths.push_back((round, rate));
        while self.bandwidths.front().is_some_and(|(of, _)| of + BANDWIDTH_ROUNDS < round) {
            self.bandwidths.pop_front();
        }
    }

    fn look_whether_full(&mut self, round: u64) {
        if self.filled || round == self.full_round {
            return;
        }
        self.full_round = round;
        if self.bandwidth() >= self.full * FULL_GROWTH {
            self.full = self.bandwidth();
            self.full_rounds = 0;
        } else {
            self.full_rounds += 1;
            self.filled = self.full_rounds >= FULL_ROUNDS;
        }
    }

    fn advance(&mut self, report: &AckReport) {
        let path = self.path();
        let in_flight = report.in_flight as f64;
        match self.state {
            Bbr1State::Startup if self.filled => self.state = Bbr1State::Drain,
            Bbr1State::Drain if in_flight <= path => self.state = Bbr1State::ProbeBandwidth(2, report.now),
            Bbr1State::ProbeBandwidth(phase, since) => {
                let elapsed = report.now - since >= self.min_rtt;
                let over = match CYCLE[phase] {
                    gain if gain > 1.0 => elapsed && (report.lost > 0 || in_flight >= gain * path),
                    gain if gain < 1.0 => elapsed || in_flight <= path,
                    _ => elapsed,
                };
                if over {
                    self.state = Bbr1State::ProbeBandwidth((phase + 1) % CYCLE.len(), report.now);
                }
            }
            Bbr1State::ProbeRtt(None) if in_flight <= PROBE_RTT_WINDOW => {
                self.state = Bbr1State::ProbeRtt(Some(report.now + PROBE_RTT_FOR));
            }
            Bbr1State::ProbeRtt(Some(until)) if report.now >= until => {
                self.min_rtt_at = report.now;
                self.state =
                    if self.filled { Bbr1State::ProbeBandwidth(2, report.now) } else { Bbr1State::Startup };
            }
            _ => {}
        }
        let expired = report.now - self.min_rtt_at >= MIN_RTT_FOR;
        if expired && !matches!(self.state, Bbr1State::ProbeRtt(_)) {
            self.state = Bbr1State::ProbeRtt(None);
            self.min_rtt = Nanos::MAX;
        }
    }

    fn gain(&self) -> f64 {
        match self.state {
            Bbr1State::Startup => STARTUP_GAIN,
            Bbr1State::Drain => 1.0 / STARTUP_GAIN,
            Bbr1State::ProbeBandwidth(phase, _) => CYCLE[phase],
            Bbr1State::ProbeRtt(_) => 1.0,
        }
    }
}

impl Window for Bbr {
    fn on_ack(&mut self, report: &AckReport) {
        if let Some(rate) = report.rate {
            self.take_bandwidth(report.round, rate);
        }
        if report.rtt > 0 && report.rtt <= self.min_rtt {
            self.min_rtt = report.rtt;
            self.min_rtt_at = report.now;
        }
        self.look_whether_full(report.round);
        self.advance(report);
        let gain = if self.state == Bbr1State::Startup { STARTUP_GAIN } else { WINDOW_GAIN };
        // Three packets more for acks that come late and together.
        let target = (gain * self.path() + 3.0).max(PROBE_RTT_WINDOW);
        let acked = report.acked as f64;
        self.window = if self.filled || self.recovering {
            (self.window + acked).min(target)
        } else {
            self.window.max((self.window + acked).min(target.max(INITIAL_WINDOW)))
        };
        self.recovering &= self.window < target;
    }

    fn on_loss(&mut self, _report: &AckReport) {}

    fn on_timeout(&mut self, _report: &AckReport) {
        self.window = 1.0;
        self.recovering = true;
    }

    fn packets(&self) -> f64 {
        match self.state {
            Bbr1State::ProbeRtt(_) => self.window.min(PROBE_RTT_WINDOW),
            _ => self.window,
        }
    }

    fn pacing(&self) -> Option<u64> {
        // Before the first sample: the window in a millisecond, as Linux does.
        let rate = if self.bandwidths.is_empty() { self.window * 1000.0 } else { self.bandwidth() };
        Some((self.gain() * rate * f64::from(PACKET) * 8.0) as u64)
    }
}
