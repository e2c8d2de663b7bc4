//! FAST TCP (Jin, Wei, Low, "FAST TCP: Motivation, Architecture, Algorithms, Performance", INFOCOM 2004):
//! once a round trip the window moves towards the one that keeps `alpha` packets in the queue: w = min(2 w,
//! (1 - gamma) w + gamma (base_rtt / rtt w + alpha)).
//!
//! Slow start is that of RFC 9406 and ends by delay, as FAST's does. The base RTT is the least ever: a
//! standing queue of its own outlives any window in time.

use super::window::{Reaction, Window};
use super::{AckSample, Controller, EcnMark, LossEpisode};
use crate::Rate;
use std::time::Duration;

/// Within (0, 1]; the paper's algorithm with its usual step.
const GAMMA: f64 = 0.5;
/// Packets to keep queued, up to a rate. The authors set it by hand for each capacity; these are 2 ms or
/// more of the rate up to 1 Gbit/s, which is well above the noise of hosts.
const ALPHAS: &[(Rate, f64)] = &[
    (Rate::bits_per_second(30_000_000), 8.0),
    (Rate::bits_per_second(300_000_000), 50.0),
    (Rate::bits_per_second(u64::MAX), 200.0),
];

/// The controller.
#[derive(Debug)]
pub struct Fast {
    window: Window,
    base_rtt: Duration,
    /// Sum and number of the round's RTTs.
    round: (Duration, u32),
    rate: Rate,
}

impl Fast {
    /// A controller with packets of `packet_len` datagram bytes.
    pub fn new(packet_len: u16) -> Fast {
        Fast {
            window: Window::new(packet_len),
            base_rtt: Duration::MAX,
            round: (Duration::ZERO, 0),
            rate: Rate::ZERO,
        }
    }

    fn alpha(&self) -> f64 {
        ALPHAS.iter().find(|(rate, _)| self.rate <= *rate).map_or(ALPHAS[2].1, |(_, alpha)| *alpha)
    }

    fn update(&mut self) {
        let (sum, count) = std::mem::take(&mut self.round);
        let rtt = sum.checked_div(count).unwrap_or(self.base_rtt).max(Duration::from_nanos(1));
        let share = (self.base_rtt.as_secs_f64() / rtt.as_secs_f64()).min(1.0);
        let window = self.window.packets();
        let wanted = (1.0 - GAMMA) * window + GAMMA * (share * window + self.alpha());
        self.window.set(wanted.min(2.0 * window));
    }
}

impl Controller for Fast {
    fn name(&self) -> &'static str {
        "fast"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.base_rtt = self.base_rtt.min(ack.latest_rtt);
        self.round = (self.round.0.saturating_add(ack.latest_rtt), self.round.1 + 1);
        if let Some(sample) = ack.rate {
            self.rate = sample.rate;
        }
        let acked = self.window.on_ack(ack);
        if ack.round_start {
            if acked > 0.0 {
                self.update();
            } else {
                self.round = (Duration::ZERO, 0);
            }
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        let half = self.window.packets() / 2.0;
        match self.window.on_loss(loss) {
            Reaction::None => {}
            Reaction::Reduce => self.window.reduce(half),
            Reaction::Collapse => self.window.collapse(half),
        }
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        if self.window.on_ecn(mark) {
            self.window.reduce(self.window.packets() / 2.0);
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

    /// Rounds over a link of this rate, whose queue is what the window holds beyond the path; packets
    /// queued at the end.
    fn queued(link: Rate, start: f64, rounds: u32) -> f64 {
        let base = Duration::from_millis(50);
        let (mut fast, mut acks) = (Fast::new(PACKET), Acks::new(base));
        let path = link.bytes_in(base) as f64 / f64::from(PACKET);
        fast.on_ack(&acks.round(0));
        fast.window.reduce(start * path);
        for _ in 0..rounds {
            let window = fast.congestion_window();
            acks.rtt = base.max(link.time_for(window));
            fast.on_ack(&acks.round(window));
        }
        fast.window.packets() - path
    }

    #[test]
    fn alpha_packets_are_queued_in_equilibrium() {
        for (mbit, alpha) in [(10, 8.0), (100, 50.0), (1000, 200.0)] {
            let link = Rate::bits_per_second(mbit * 1_000_000);
            for start in [0.5, 1.0, 3.0] {
                let got = queued(link, start, 300);
                assert!((got - alpha).abs() < 1.0, "{got} packets at {mbit} Mbit/s from {start}");
            }
        }
    }

    #[test]
    fn a_window_far_below_doubles_at_most() {
        let mut fast = Fast::new(PACKET);
        let mut acks = Acks::new(Duration::from_millis(50));
        fast.rate = Rate::bits_per_second(1_000_000_000);
        fast.window.reduce(10.0);
        fast.round = (Duration::from_millis(50), 1);
        fast.base_rtt = Duration::from_millis(50);
        fast.update();
        assert_eq!(fast.window.packets(), 20.0);
        acks.round(0);
        fast.on_loss(&acks.loss());
        assert_eq!(fast.window.packets(), 10.0);
    }
}
