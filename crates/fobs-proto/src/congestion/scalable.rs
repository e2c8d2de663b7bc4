//! Scalable TCP (Kelly, "Scalable TCP: Improving Performance in Highspeed Wide Area Networks", CCR 33(2),
//! 2003): the window grows by a hundredth of what is acknowledged and falls by an eighth, so that recovery
//! takes the same number of round trips at any rate.

use super::window::{Reaction, Window};
use super::{AckSample, Controller, EcnMark, FoundLosses, LossEpisode};
use crate::Rate;

/// The paper's a and b.
const INCREASE: f64 = 0.01;
const DECREASE: f64 = 0.125;
/// The legacy window, packets; at or below it standard TCP.
const LEGACY_WINDOW: f64 = 16.0;

/// The controller.
#[derive(Debug)]
pub struct Scalable {
    window: Window,
}

impl Scalable {
    /// A controller with packets of `packet_len` datagram bytes.
    pub fn new(packet_len: u16) -> Scalable {
        Scalable { window: Window::new(packet_len) }
    }

    fn reduced(&self) -> f64 {
        let window = self.window.packets();
        if window <= LEGACY_WINDOW { window / 2.0 } else { window * (1.0 - DECREASE) }
    }
}

impl Controller for Scalable {
    fn name(&self) -> &'static str {
        "scalable"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let acked = self.window.on_ack(ack);
        if acked > 0.0 {
            let window = self.window.packets();
            let each = if window <= LEGACY_WINDOW { 1.0 / window } else { INCREASE };
            self.window.set(window + each * acked);
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        match self.window.on_loss(loss) {
            Reaction::None => {}
            Reaction::Reduce => self.window.reduce(self.reduced()),
            Reaction::Collapse => self.window.collapse(self.reduced()),
        }
    }

    fn on_found(&mut self, found: &FoundLosses) {
        self.window.on_found(found);
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        if self.window.on_ecn(mark) {
            self.window.reduce(self.reduced());
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
    use crate::math;
    use std::time::Duration;

    /// Round trips from a loss at `window` packets until it is reached again.
    fn recovery(window: f64) -> u32 {
        let mut scalable = Scalable::new(PACKET);
        let mut acks = Acks::new(Duration::from_millis(200));
        scalable.window.set(window);
        scalable.on_loss(&acks.loss());
        acks.round(0);
        let mut rounds = 0;
        while scalable.window.packets() < window {
            // A little time, or the first round would still be of the loss.
            acks.next(Duration::from_millis(1), Rate::ZERO);
            scalable.on_ack(&acks.round(scalable.congestion_window()));
            rounds += 1;
        }
        rounds
    }

    #[test]
    fn recovery_takes_the_same_time_at_any_window() {
        // log(1 - b) / log(1 + a) round trips, 13.4: 2.7 s at 200 ms from 1 Mbit/s to 10 Gbit/s.
        let expected = (math::ln(1.0 - DECREASE) / -math::ln(1.0 + INCREASE)).ceil() as u32;
        assert_eq!(expected, 14);
        for window in [100.0, 1_000.0, 10_000.0, 100_000.0] {
            let rounds = recovery(window);
            assert!(rounds.abs_diff(expected) <= 1, "{rounds} round trips at {window}");
        }
    }

    #[test]
    fn below_the_legacy_window_it_is_standard_tcp() {
        assert!(recovery(16.0).abs_diff(8) <= 1, "half the window, a packet a round trip");
    }
}
