//! Window algorithms that react to loss: Reno, CUBIC, HighSpeed.

use super::INITIAL_WINDOW;
use crate::time::{MS, Nanos, seconds};
use std::fmt;

/// State of the sender after an acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct AckReport {
    pub(super) now: Nanos,
    /// Packets newly acknowledged, and newly lost.
    pub(super) acked: u64,
    pub(super) lost: u64,
    pub(super) in_flight: u64,
    pub(super) rtt: Nanos,
    pub(super) min_rtt: Nanos,
    /// Round trips so far.
    pub(super) round: u64,
    /// Delivery rate, packets per second.
    pub(super) rate: Option<f64>,
    /// Losses of the present window were answered already.
    pub(super) in_recovery: bool,
}

/// Decides how many packets may be in flight.
pub(super) trait Window: fmt::Debug {
    /// An acknowledgement came.
    fn on_ack(&mut self, report: &AckReport);
    /// The first loss of a window.
    fn on_loss(&mut self, report: &AckReport);
    /// The retransmission timer expired.
    fn on_timeout(&mut self, report: &AckReport);
    /// Packets that may be in flight.
    fn packets(&self) -> f64;
    /// Bits per second of departures; `None` for as acknowledgements come.
    fn pacing(&self) -> Option<u64> {
        None
    }
}

/// Window and threshold that all three have in common.
#[derive(Debug)]
struct Common {
    window: f64,
    threshold: f64,
}

impl Default for Common {
    fn default() -> Self {
        Common { window: INITIAL_WINDOW, threshold: f64::INFINITY }
    }
}

impl Common {
    /// RFC 5681's floor.
    const MIN: f64 = 2.0;

    /// Whether this acknowledgement is slow start's business: one packet more for each acknowledged.
    fn slow_start(&mut self, report: &AckReport) -> bool {
        let slow = self.window < self.threshold;
        if slow && !report.in_recovery {
            self.window = (self.window + report.acked as f64).min(self.threshold.max(Common::MIN));
        }
        slow
    }

    fn reduce(&mut self, factor: f64) {
        self.threshold = (self.window * factor).max(Common::MIN);
        self.window = self.threshold;
    }

    fn collapse(&mut self, factor: f64) {
        self.threshold = (self.window * factor).max(Common::MIN);
        self.window = 1.0;
    }
}

/// RFC 5681.
#[derive(Debug, Default)]
pub(super) struct Reno(Common);

impl Window for Reno {
    fn on_ack(&mut self, report: &AckReport) {
        if !self.0.slow_start(report) && !report.in_recovery {
            self.0.window += report.acked as f64 / self.0.window;
        }
    }

    fn on_loss(&mut self, _report: &AckReport) {
        self.0.reduce(0.5);
    }

    fn on_timeout(&mut self, _report: &AckReport) {
        self.0.collapse(0.5);
    }

    fn packets(&self) -> f64 {
        self.0.window
    }
}

/// RFC 3649: below `Low_Window` as Reno, above it more by each round trip and less by each loss.
#[derive(Debug, Default)]
pub(super) struct HighSpeed(Common);

/// RFC 3649 section 5: the response function goes through (38, 10^-3) and (83000, 10^-7), with a decrease of
/// 0.1 there.
const LOW_WINDOW: f64 = 38.0;
const HIGH_WINDOW: f64 = 83_000.0;
const HIGH_DECREASE: f64 = 0.1;

/// RFC 3649's decrease b(w).
fn decrease(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 0.5;
    }
    let share =
        (libm::log(window) - libm::log(LOW_WINDOW)) / (libm::log(HIGH_WINDOW) - libm::log(LOW_WINDOW));
    (HIGH_DECREASE - 0.5) * share + 0.5
}

/// RFC 3649's increase a(w), packets per round trip.
fn increase(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 1.0;
    }
    let loss = 0.078 / libm::pow(window, 1.2);
    let decrease = decrease(window);
    (window * window * loss * 2.0 * decrease / (2.0 - decrease)).max(1.0)
}

impl Window for HighSpeed {
    fn on_ack(&mut self, report: &AckReport) {
        if !self.0.slow_start(report) && !report.in_recovery {
            self.0.window += increase(self.0.window) * report.acked as f64 / self.0.window;
        }
    }

    fn on_loss(&mut self, _report: &AckReport) {
        self.0.reduce(1.0 - decrease(self.0.window));
    }

    fn on_timeout(&mut self, _report: &AckReport) {
        self.0.collapse(0.5);
    }

    fn packets(&self) -> f64 {
        self.0.window
    }
}

/// RFC 9438.
#[derive(Debug, Default)]
pub(super) struct Cubic {
    common: Common,
    epoch: Option<Nanos>,
    window_max: f64,
    /// Seconds from the epoch's begin to the plateau.
    plateau: f64,
    /// What Reno would have.
    friendly: f64,
    exit: SlowStartExit,
}

/// RFC 9438 section 4: C in packets per cubic second, and the decrease.
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;

impl Cubic {
    fn begin_epoch(&mut self, now: Nanos) {
        self.epoch = Some(now);
        self.friendly = self.common.window;
        self.plateau = libm::cbrt(((self.window_max - self.common.window) / CUBIC_C).max(0.0));
        self.window_max = self.window_max.max(self.common.window);
    }

    fn target(&self, report: &AckReport) -> f64 {
        let since = seconds(report.now - self.epoch.unwrap_or(report.now) + report.min_rtt);
        let t = since - self.plateau;
        CUBIC_C * t * t * t + self.window_max
    }
}

impl Window for Cubic {
    fn on_ack(&mut self, report: &AckReport) {
        if self.common.slow_start(report) {
            if self.exit.queue_grows(report) {
                self.common.threshold = self.common.window;
            }
            return;
        }
        if report.in_recovery {
            return;
        }
        if self.epoch.is_none() {
            self.begin_epoch(report.now);
        }
        let (window, acked) = (self.common.window, report.acked as f64);
        // RFC 9438 section 4.3: as fast as Reno would be, with this decrease.
        let alpha =
            if self.friendly < self.window_max { 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA) } else { 1.0 };
        self.friendly += alpha * acked / window;
        let target = self.target(report).clamp(window, 1.5 * window);
        self.common.window = (window + (target - window) * acked / window).max(self.friendly);
    }

    fn on_loss(&mut self, _report: &AckReport) {
        self.epoch = None;
        let window = self.common.window;
        // RFC 9438 section 4.7: fast convergence.
        self.window_max = if window < self.window_max { window * (1.0 + CUBIC_BETA) / 2.0 } else { window };
        self.common.reduce(CUBIC_BETA);
    }

    fn on_timeout(&mut self, report: &AckReport) {
        self.on_loss(report);
        self.common.window = 1.0;
    }

    fn packets(&self) -> f64 {
        self.common.window
    }
}

/// Leaves slow start when a round's smallest RTT exceeds that of the round before (RFC 9406 section 4.2,
/// without its intermediate phase).
#[derive(Debug, Default)]
struct SlowStartExit {
    round: u64,
    samples: u32,
    min: Nanos,
    min_before: Nanos,
}

impl SlowStartExit {
    /// RFC 9406 section 4.3: samples a round, and the bounds of the increase that counts.
    const SAMPLES: u32 = 8;
    const INCREASE: (Nanos, Nanos) = (4 * MS, 16 * MS);

    fn queue_grows(&mut self, report: &AckReport) -> bool {
        if report.round != self.round {
            self.round = report.round;
            self.min_before = self.min;
            self.min = Nanos::MAX;
            self.samples = 0;
        }
        self.min = self.min.min(report.rtt);
        self.samples += 1;
        let known = self.min_before > 0 && self.min_before < Nanos::MAX && self.samples >= Self::SAMPLES;
        let increase = (self.min_before / 8).clamp(Self::INCREASE.0, Self::INCREASE.1);
        known && self.min >= self.min_before.saturating_add(increase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(now: Nanos, acked: u64) -> AckReport {
        AckReport {
            now,
            acked,
            lost: 0,
            in_flight: 0,
            rtt: 100 * MS,
            min_rtt: 100 * MS,
            round: 0,
            rate: None,
            in_recovery: false,
        }
    }

    #[test]
    fn high_speed_has_the_table_of_rfc_3649() {
        // RFC 3649 appendix B: window, a(w), b(w).
        for (window, a, b) in
            [(38.0, 1.0, 0.5), (1058.0, 8.0, 0.33), (10661.0, 30.0, 0.21), (83981.0, 72.0, 0.1)]
        {
            assert!((increase(window) - a).abs() <= 0.05 * a + 0.7, "a({window}) is {}", increase(window));
            assert!((decrease(window) - b).abs() < 0.011, "b({window}) is {}", decrease(window));
        }
    }

    #[test]
    fn cubic_returns_to_its_maximum_when_the_formula_says() {
        let mut cubic = Cubic { common: Common { window: 1000.0, threshold: 1000.0 }, ..Cubic::default() };
        cubic.on_loss(&report(0, 0));
        assert!((cubic.packets() - 700.0).abs() < 1e-9);
        // K = cbrt(300 / 0.4) = 9.09 s.
        let mut back = None;
        for tick in 0..200u64 {
            let now = tick * 100 * MS;
            for _ in 0..10 {
                cubic.on_ack(&report(now, cubic.packets() as u64 / 10));
            }
            if back.is_none() && cubic.packets() >= 995.0 {
                back = Some(seconds(now));
            }
        }
        let back = back.expect("it comes back");
        assert!((6.5..9.5).contains(&back), "after {back} s");
        assert!(cubic.packets() > 1100.0, "and goes on: {}", cubic.packets());
    }

    #[test]
    fn reno_grows_by_one_a_round_and_halves() {
        let mut reno = Reno(Common { window: 100.0, threshold: 50.0 });
        reno.on_ack(&report(0, 100));
        assert!((reno.packets() - 101.0).abs() < 1e-9);
        reno.on_loss(&report(0, 0));
        assert!((reno.packets() - 50.5).abs() < 1e-9);
        reno.on_timeout(&report(0, 0));
        assert!((reno.packets() - 1.0).abs() < 1e-9);
        reno.on_ack(&report(0, 4));
        assert!((reno.packets() - 5.0).abs() < 1e-9, "slow start again");
    }
}
