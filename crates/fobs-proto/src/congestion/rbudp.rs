//! Reliable Blast UDP (He, Leigh, Yu, DeFanti, "Reliable Blast UDP: Predictable High Performance Bulk Data
//! Transfer", Cluster 2002): everything is sent at one rate, then what is missing at the same rate, until
//! nothing is. There is no congestion control: the user measures the path with another tool and states its
//! rate.
//!
//! Here `opening` is that measurement, once; `--rate` bounds it. What is missing is sent as soon as it is
//! known and not after the whole, because receivers here hold a bounded number of chunks.

use super::opening::Opening;
use super::rate::safety_window;
use super::{AckSample, Controller, LossEpisode};
use crate::Rate;
use std::time::Duration;

/// The controller.
#[derive(Debug)]
pub struct Rbudp {
    opening: Option<Opening>,
    rate: Rate,
    min_rtt: Duration,
}

impl Rbudp {
    /// A controller that knows nothing of the path; it needs no packet size.
    pub fn new(_packet_len: u16) -> Rbudp {
        let opening = Opening::new();
        Rbudp { rate: opening.rate(), opening: Some(opening), min_rtt: Duration::ZERO }
    }
}

impl Controller for Rbudp {
    fn name(&self) -> &'static str {
        "rbudp"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.min_rtt = ack.min_rtt;
        let Some(opening) = &mut self.opening else { return };
        match opening.on_ack(ack) {
            Some(found) => {
                self.opening = None;
                self.rate = found;
            }
            None => self.rate = opening.rate(),
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        if let Some(opening) = &mut self.opening {
            opening.on_loss(loss);
            self.rate = opening.rate();
        }
    }

    fn congestion_window(&self) -> u64 {
        safety_window(self.rate, self.min_rtt)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn state(&self) -> &'static str {
        if self.opening.is_some() { "measuring" } else { "blast" }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Acks;
    use super::*;

    #[test]
    fn the_measured_rate_stands_whatever_is_lost() {
        let link = Rate::bits_per_second(100_000_000);
        let (mut rbudp, mut acks) = (Rbudp::new(1472), Acks::new(Duration::from_millis(50)));
        while rbudp.opening.is_some() {
            let arrives = rbudp.rate.min(link);
            rbudp.on_ack(&acks.next(Duration::from_millis(5), arrives));
        }
        assert_eq!(rbudp.rate, link);
        for _ in 0..100 {
            acks.round(0);
            rbudp.on_loss(&acks.losses(1000));
            rbudp.on_ack(&acks.next(Duration::from_millis(5), link.scaled(0.1)));
        }
        assert_eq!((rbudp.rate, rbudp.state()), (link, "blast"));
    }
}
