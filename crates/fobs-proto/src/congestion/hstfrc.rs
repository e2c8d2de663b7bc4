//! HSTFRC (`seeds/001` section 2.1): TFRC's loss averaging with HighSpeed TCP's response from Low_Window on
//! and standard TCP's below. For well provisioned, long paths, not for the Internet at large (same place).
//!
//! Losses certainly not caused by the path do not enter the history (section 2.2); see `LossCause`.

use super::equation::Equation;
use super::rate::safety_window;
use super::response::fobs_window;
use super::{AckSample, Controller, EcnMark, FoundLosses, LossEpisode};
use crate::Rate;
use std::time::Duration;

/// How what the equation allows is sent (`seeds/001` section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HstfrcMode {
    /// A window of packets leaves at a constant rate in each round trip.
    Window,
    /// The rate stands from one congestion event to the next; only a stretch without loss that is longer
    /// than the mean interval raises it in between (RFC 5348 section 5.4).
    Rate,
}

/// The controller.
#[derive(Debug)]
pub struct Hstfrc {
    mode: HstfrcMode,
    equation: Equation,
    min_rtt: Duration,
    /// The window or rate in force, and the loss-event rate that it was made of.
    window: u64,
    rate: Rate,
    loss: f64,
}

impl Hstfrc {
    /// A controller with packets of `packet_len` datagram bytes.
    pub fn new(packet_len: u16, mode: HstfrcMode) -> Hstfrc {
        let equation = Equation::new(packet_len, fobs_window);
        let (window, rate) = (equation.window_bytes(), equation.rate());
        Hstfrc { mode, equation, min_rtt: Duration::ZERO, window, rate, loss: 0.0 }
    }

    fn settle(&mut self) {
        self.window = self.equation.window_bytes();
        self.rate = self.equation.rate();
        self.loss = self.equation.event_rate();
    }
}

impl Controller for Hstfrc {
    fn name(&self) -> &'static str {
        match self.mode {
            HstfrcMode::Window => "hstfrc",
            HstfrcMode::Rate => "hstfrc-rate",
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.min_rtt = ack.min_rtt;
        self.equation.on_ack(ack);
        let news = match self.mode {
            HstfrcMode::Window => true,
            HstfrcMode::Rate => self.loss == 0.0 || self.equation.event_rate() < self.loss,
        };
        if ack.round_start && news {
            self.settle();
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        if self.equation.on_loss(loss) {
            self.settle();
        }
    }

    fn on_found(&mut self, found: &FoundLosses) {
        self.equation.on_found(found);
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        self.on_loss(&mark.as_loss());
    }

    fn congestion_window(&self) -> u64 {
        match self.mode {
            HstfrcMode::Window => self.window.max(2 * self.equation.packet_len()),
            HstfrcMode::Rate => safety_window(self.rate, self.min_rtt),
        }
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn state(&self) -> &'static str {
        self.equation.state()
    }
}

#[cfg(test)]
mod tests {
    use super::super::response::{LOW_WINDOW, highspeed_window, standard_window};
    use super::super::testing::{Acks, PACKET};
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// A loss event in every `interval` packets for long, with `flight` packets a round trip.
    fn steady(mode: HstfrcMode, interval: u64, flight: u64) -> Hstfrc {
        let (mut hstfrc, mut acks) = (Hstfrc::new(PACKET, mode), Acks::new(RTT));
        for _ in 0..30 {
            for _ in 0..interval / flight {
                hstfrc.on_ack(&acks.round(flight * u64::from(PACKET)));
            }
            hstfrc.on_loss(&acks.loss());
        }
        hstfrc
    }

    fn packets(hstfrc: &Hstfrc) -> f64 {
        let rate = hstfrc.pacing_rate().expect("it paces").as_bytes() as f64;
        rate * RTT.as_secs_f64() / f64::from(PACKET)
    }

    #[test]
    fn both_modes_follow_the_highspeed_response_above_low_window() {
        for mode in [HstfrcMode::Window, HstfrcMode::Rate] {
            let hstfrc = steady(mode, 100_000, 2000);
            let (got, expected) = (packets(&hstfrc), highspeed_window(1.0 / 100_001.0));
            assert!(expected > 40.0 * LOW_WINDOW);
            assert!((got / expected - 1.0).abs() < 0.01, "{mode:?}: {got} for {expected}");
        }
        let window = steady(HstfrcMode::Window, 100_000, 2000).congestion_window();
        let expected = highspeed_window(1.0 / 100_001.0) * f64::from(PACKET);
        assert!((window as f64 / expected - 1.0).abs() < 0.01);
    }

    #[test]
    fn below_low_window_it_is_standard_tcp() {
        let hstfrc = steady(HstfrcMode::Window, 100, 10);
        let (got, expected) = (packets(&hstfrc), standard_window(1.0 / 101.0));
        assert!(expected < LOW_WINDOW);
        assert!((got / expected - 1.0).abs() < 0.02, "{got} for {expected}");
    }

    #[test]
    fn the_rate_stands_from_event_to_event() {
        let mut hstfrc = steady(HstfrcMode::Rate, 100_000, 2000);
        let before = hstfrc.pacing_rate();
        let mut acks = Acks::new(2 * RTT);
        acks.next(Duration::from_secs(1000), Rate::ZERO);
        for _ in 0..20 {
            hstfrc.on_ack(&acks.round(2000 * u64::from(PACKET)));
        }
        assert_eq!(hstfrc.pacing_rate(), before, "neither the round trip nor 40,000 packets are an event");
        for _ in 0..100 {
            hstfrc.on_ack(&acks.round(2000 * u64::from(PACKET)));
        }
        assert_ne!(hstfrc.pacing_rate(), before, "240,000 packets without loss are");
    }

    #[test]
    fn losses_not_caused_by_the_path_are_no_event() {
        let mut hstfrc = steady(HstfrcMode::Window, 100_000, 2000);
        let before = packets(&hstfrc);
        let mut acks = Acks::new(RTT);
        acks.next(Duration::from_secs(1000), Rate::ZERO);
        hstfrc.on_loss(&LossEpisode { cause: super::super::LossCause::LocalSend, ..acks.losses(1000) });
        assert_eq!(packets(&hstfrc), before);
    }
}
