//! TCP-friendly rate control (RFC 5348): the rate that TCP would have at this rate of loss events, without
//! its sawtooth.
//!
//! Left out: history discounting (section 5.5) and oscillation prevention (section 4.5), both optional; a
//! loss event counts at the sender, which knows the order of its packets.

use super::equation::Equation;
use super::rate::safety_window;
use super::response::tfrc_window;
use super::{AckSample, Controller, EcnMark, FoundLosses, LossEpisode};
use crate::Rate;
use std::time::Duration;

/// The controller.
#[derive(Debug)]
pub struct Tfrc {
    equation: Equation,
    min_rtt: Duration,
}

impl Tfrc {
    /// A controller with packets of `packet_len` datagram bytes.
    pub fn new(packet_len: u16) -> Tfrc {
        Tfrc { equation: Equation::new(packet_len, |_, loss| tfrc_window(loss)), min_rtt: Duration::ZERO }
    }
}

impl Controller for Tfrc {
    fn name(&self) -> &'static str {
        "tfrc"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.min_rtt = ack.min_rtt;
        self.equation.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        self.equation.on_loss(loss);
    }

    fn on_found(&mut self, found: &FoundLosses) {
        self.equation.on_found(found);
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        // RFC 5348 section 3: a mark is a loss that kept its packet.
        self.equation.on_loss(&mark.as_loss());
    }

    fn congestion_window(&self) -> u64 {
        safety_window(self.equation.rate(), self.min_rtt)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.equation.rate())
    }

    fn state(&self) -> &'static str {
        self.equation.state()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Acks, PACKET};
    use super::*;

    #[test]
    fn the_rate_is_the_throughput_equation_s() {
        let rtt = Duration::from_millis(100);
        let (mut tfrc, mut acks) = (Tfrc::new(PACKET), Acks::new(rtt));
        for _ in 0..60 {
            tfrc.on_loss(&acks.loss());
            for _ in 0..10 {
                tfrc.on_ack(&acks.round(100 * u64::from(PACKET)));
            }
        }
        // RFC 5348 section 3.1 with s, R, p, t_RTO = 4 R, b = 1.
        let (s, r, p) = (f64::from(PACKET), 0.1, 1.0 / 1001.0f64);
        let t_rto = 4.0 * r;
        let x = s
            / (r * (2.0 * p / 3.0).sqrt() + t_rto * 3.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p));
        let got = tfrc.pacing_rate().expect("it paces").as_bytes() as f64;
        assert!((got / x - 1.0).abs() < 0.01, "{got} for {x}");
    }
}
