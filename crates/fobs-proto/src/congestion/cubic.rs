//! CUBIC (RFC 9438), the controller of most TCP flows. After a loss the window grows along a cubic function
//! of time with its plateau at the window of the loss; where standard TCP would be faster, it is as fast.
//!
//! Slow start is HyStart++ (RFC 9438 section 4.10). Spurious losses are undone (section 4.9).

use super::window::{Reaction, Window};
use super::{AckSample, Controller, EcnMark, FoundLosses, LossEpisode};
use crate::math;
use crate::{Rate, Timestamp};

/// RFC 9438 sections 4.6 and 5: beta_cubic, and C in packets per cubic second.
const BETA: f64 = 0.7;
const C: f64 = 0.4;
/// RFC 9438 section 4.3: the increase that makes standard TCP with this beta as fast as it is with its own.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// RFC 9438 section 4.2: the target is at most this times the window.
const TARGET_MAX: f64 = 1.5;

/// A stage of congestion avoidance: from one congestion event to the next.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    began: Timestamp,
    /// Time to the plateau, seconds.
    k: f64,
    /// The window that standard TCP would have.
    estimate: f64,
}

/// The controller.
#[derive(Debug)]
pub struct Cubic {
    window: Window,
    /// The plateau.
    w_max: f64,
    /// The window just before the last reduction.
    prior: f64,
    epoch: Option<Epoch>,
    /// Plateau, window and epoch before the last reduction.
    before: (f64, f64, Option<Epoch>),
}

/// RFC 9438 equation 1: the window `t` seconds into the epoch.
fn w_cubic(t: f64, k: f64, w_max: f64) -> f64 {
    C * math::cube(t - k) + w_max
}

/// RFC 9438 equation 2: seconds from `window` to the plateau.
fn plateau_time(w_max: f64, window: f64) -> f64 {
    math::cbrt((w_max - window).max(0.0) / C)
}

impl Cubic {
    /// A controller with packets of `packet_len` datagram bytes.
    pub fn new(packet_len: u16) -> Cubic {
        Cubic {
            window: Window::new(packet_len),
            w_max: 0.0,
            prior: 0.0,
            epoch: None,
            before: (0.0, 0.0, None),
        }
    }

    /// A controller that starts in congestion avoidance with a window of `packets`.
    pub(super) fn at(packet_len: u16, packets: f64) -> Cubic {
        let mut cubic = Cubic::new(packet_len);
        cubic.window.reduce(packets);
        cubic
    }

    fn grow(&mut self, ack: &AckSample, acked: f64) {
        let window = self.window.packets();
        // After a slow start that no loss ended, the plateau is here (section 4.10).
        self.w_max = if self.w_max == 0.0 { window } else { self.w_max };
        let (w_max, prior) = (self.w_max, self.prior);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: ack.now,
            k: plateau_time(w_max, window),
            estimate: window,
        });
        let t = (ack.now - epoch.began).as_secs_f64();
        // Section 4.3: once the prior window is reached, standard TCP grows by one packet per round trip.
        let alpha = if epoch.estimate >= prior { 1.0 } else { ALPHA };
        epoch.estimate += alpha * acked / window;
        if w_cubic(t, epoch.k, w_max) < epoch.estimate {
            self.window.set(window.max(epoch.estimate));
        } else {
            let ahead = w_cubic(t + ack.smoothed_rtt.as_secs_f64(), epoch.k, w_max);
            let target = ahead.clamp(window, TARGET_MAX * window);
            self.window.set(window + (target - window) / window * acked.min(window));
        }
    }

    /// A congestion event: what the window falls to.
    fn event(&mut self) -> f64 {
        let window = self.window.packets();
        self.before = (self.w_max, self.prior, self.epoch);
        // Section 4.7, fast convergence: a plateau lower than the last one makes room.
        self.w_max = if window < self.w_max { window * (1.0 + BETA) / 2.0 } else { window };
        self.prior = window;
        self.epoch = None;
        window * BETA
    }
}

impl Controller for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let acked = self.window.on_ack(ack);
        if acked > 0.0 {
            self.grow(ack, acked);
        } else if let (true, Some(epoch)) = (ack.app_limited, &mut self.epoch) {
            // Section 5.8: application-limited time does not count as time of the epoch.
            epoch.began = epoch.began.max(ack.now.saturating_sub(ack.smoothed_rtt));
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        match self.window.on_loss(loss) {
            Reaction::None => {}
            Reaction::Reduce => {
                let window = self.event();
                self.window.reduce(window);
            }
            Reaction::Collapse => {
                let ssthresh = self.event();
                self.window.collapse(ssthresh);
                // Section 4.8: the curve begins anew after the slow start.
                self.w_max = 0.0;
            }
        }
    }

    fn on_found(&mut self, found: &FoundLosses) {
        if self.window.on_found(found) {
            (self.w_max, self.prior, self.epoch) = self.before;
        }
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        if self.window.on_ecn(mark) {
            let window = self.event();
            self.window.reduce(window);
        }
    }

    fn congestion_window(&self) -> u64 {
        self.window.bytes()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.window.pacing_rate())
    }

    fn state(&self) -> &'static str {
        self.window.state()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Acks, PACKET};
    use super::*;
    use std::time::Duration;

    /// After a loss at `window`: the windows of each round trip until `time` has passed.
    fn after_loss(window: f64, rtt: Duration, time: Duration) -> Vec<(f64, f64)> {
        let (mut cubic, mut acks) = (Cubic::new(PACKET), Acks::new(rtt));
        cubic.window.set(window);
        cubic.on_loss(&acks.loss());
        let began = acks.now();
        let mut windows = vec![];
        while acks.now() - began < time {
            // Sixteen acks a round trip, as a real one has.
            for _ in 0..16 {
                let rate = Rate::of(cubic.congestion_window(), rtt).expect("a round trip");
                cubic.on_ack(&acks.next(rtt / 16, rate));
            }
            let epoch = cubic.epoch.map_or(0.0, |e| (acks.now() - e.began).as_secs_f64());
            windows.push((epoch, cubic.window.packets()));
        }
        windows
    }

    #[test]
    fn k_and_the_curve_are_those_of_rfc_9438() {
        // Equation 2 with a loss at 1000 packets: cbrt(300 / 0.4) s.
        let k = plateau_time(1000.0, 700.0);
        assert!((k - 9.0856).abs() < 1e-3, "{k}");
        assert!((w_cubic(0.0, k, 1000.0) - 700.0).abs() < 1e-9, "it begins where the loss left it");
        assert_eq!(w_cubic(k, k, 1000.0), 1000.0, "the plateau");
        assert!((w_cubic(2.0 * k, k, 1000.0) - 1300.0).abs() < 1e-9, "convex as it was concave");
    }

    #[test]
    fn concave_then_flat_then_convex() {
        let rtt = Duration::from_millis(100);
        let windows = after_loss(1000.0, rtt, Duration::from_secs(20));
        let k = plateau_time(1000.0, 700.0);
        for (t, window) in windows.iter().filter(|(t, _)| *t > 0.5) {
            let expected = w_cubic(*t, k, 1000.0);
            assert!((window / expected - 1.0).abs() < 0.02, "at {t} s: {window} for {expected}");
        }
        let step = |from: f64| {
            let at = windows.iter().position(|(t, _)| *t >= from).expect("it ran that long");
            windows[at + 1].1 - windows[at].1
        };
        assert!(step(1.0) > 5.0 * step(k), "steep at first, flat at the plateau");
        assert!(step(2.0 * k - 1.0) > 5.0 * step(k), "and steep again");
    }

    #[test]
    fn on_short_paths_cubic_is_as_fast_as_standard_tcp() {
        // Section 4.3: the Reno-friendly region; at 10 ms and 50 packets the cubic curve is far slower.
        let rtt = Duration::from_millis(10);
        let windows = after_loss(50.0, rtt, Duration::from_secs(1));
        let rounds = |n: usize| windows[n].1;
        let growth = (rounds(22) - rounds(2)) / 20.0;
        assert!((growth - ALPHA).abs() < 0.06, "{growth} packets a round trip");
        let late = (rounds(95) - rounds(75)) / 20.0;
        assert!((late - 1.0).abs() < 0.06, "{late} packets a round trip once it is back");
    }

    #[test]
    fn a_loss_takes_three_tenths_and_fast_convergence_more() {
        let (mut cubic, mut acks) = (Cubic::new(PACKET), Acks::new(Duration::from_millis(100)));
        cubic.window.set(1000.0);
        cubic.on_loss(&acks.loss());
        assert_eq!((cubic.window.packets(), cubic.w_max), (700.0, 1000.0));
        acks.round(0);
        cubic.on_loss(&acks.loss());
        // Section 4.7: (1 + beta) / 2 of the window, because it was below the last plateau.
        assert!((cubic.window.packets() - 490.0).abs() < 1e-9 && (cubic.w_max - 595.0).abs() < 1e-9);
    }

    #[test]
    fn the_average_window_is_the_one_of_rfc_9438_s_response() {
        // Section 5.1: 1.054 (RTT / p)^(3/4) packets for C = 0.4 and beta = 0.7; 100 ms, p = 1e-5.
        let (rtt, p) = (Duration::from_millis(100), 1e-5);
        let (mut cubic, mut acks) = (Cubic::new(PACKET), Acks::new(rtt));
        cubic.window.set(900.0);
        cubic.on_loss(&acks.loss());
        let (mut since, mut sum, mut count) = (0.0, 0.0, 0.0);
        for round in 0..40_000 {
            for _ in 0..4 {
                let rate = Rate::of(cubic.congestion_window(), rtt).expect("a round trip");
                let ack = acks.next(rtt / 4, rate);
                since += ack.acked_packets as f64;
                cubic.on_ack(&ack);
            }
            if since * p >= 1.0 {
                since = 0.0;
                cubic.on_loss(&acks.loss());
            }
            if round >= 10_000 {
                (sum, count) = (sum + cubic.window.packets(), count + 1.0);
            }
        }
        let (average, expected) = (sum / count, 1.054 * math::powf(0.1 / p, 0.75));
        // The formula knows no fast convergence, which takes some.
        assert!((average / expected - 1.0).abs() < 0.1, "{average} for {expected}");
    }
}
