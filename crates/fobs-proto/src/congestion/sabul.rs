//! SABUL, UDT's predecessor (Gu, Grossman, "SABUL: A Transport Protocol for Grid Computing", Journal of
//! Grid Computing 1, 2003; figures as in the authors' release of March 2003): a rate that is tuned every 10
//! ms. It grows while the averaged loss is below 0.1%, by a share of itself, and a loss event takes a
//! ninth.
//!
//! Left out: the pause of one SYN after a decrease (a pacing rate stands here, and it cannot be none). The
//! user states the first rate; here the start measures it (`opening`).

use super::opening::Opening;
use super::rate::{bounded, safety_window};
use super::{AckSample, Controller, EcnMark, LossEpisode};
use crate::math;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// The time between steps, whatever the round trip.
const SYN: Duration = Duration::from_millis(10);
/// Loss above which the rate does not grow.
const LOSS_LIMIT: f64 = 0.001;
/// Weight of the past in the average of the loss.
const HISTORY_WEIGHT: f64 = 0.1;
/// Factor of the time between packets at a decrease.
const DECREASE: f64 = 1.125;
/// In one congestion period the next decrease follows after two to this power of reports, then twice as
/// many, and so on.
const NEXT_DECREASE: u32 = 4;
/// Packets per SYN that it grows by, of the power of ten above its packets per SYN; and the least.
const INCREASE: f64 = 1e-3;
const INCREASE_MIN: f64 = 1.0 / 1500.0;

/// The controller.
#[derive(Debug)]
pub struct Sabul {
    opening: Option<Opening>,
    rate: Rate,
    packet_len: f64,
    min_rtt: Duration,
    stepped: Timestamp,
    /// Packets since the last step.
    acked: u64,
    lost: u64,
    loss: f64,
    decreased: Option<Timestamp>,
    reports: u32,
    next_decrease: u32,
}

/// Packets per SYN that a rate of `packets` per SYN grows by.
fn increase(packets: f64) -> f64 {
    (math::powf(10.0, math::log10(packets.max(1e-3)).ceil()) * INCREASE).max(INCREASE_MIN)
}

impl Sabul {
    /// A controller with packets of `packet_len` datagram bytes.
    pub fn new(packet_len: u16) -> Sabul {
        let opening = Opening::new();
        Sabul {
            rate: opening.rate(),
            opening: Some(opening),
            packet_len: f64::from(packet_len.max(1200)),
            min_rtt: Duration::ZERO,
            stepped: Timestamp::ZERO,
            acked: 0,
            lost: 0,
            loss: 0.0,
            decreased: None,
            reports: 0,
            next_decrease: NEXT_DECREASE,
        }
    }

    fn step(&mut self) {
        let all = self.acked + self.lost;
        let now = if all == 0 { 0.0 } else { self.lost as f64 / all as f64 };
        self.loss = self.loss * HISTORY_WEIGHT + now * (1.0 - HISTORY_WEIGHT);
        (self.acked, self.lost) = (0, 0);
        if self.loss <= LOSS_LIMIT {
            let per_syn = self.rate.as_bytes() as f64 * SYN.as_secs_f64() / self.packet_len;
            self.rate = bounded((per_syn + increase(per_syn)) * self.packet_len / SYN.as_secs_f64());
        }
    }

    fn decrease(&mut self) {
        self.rate = bounded(self.rate.as_bytes() as f64 / DECREASE);
    }
}

impl Controller for Sabul {
    fn name(&self) -> &'static str {
        "sabul"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        (self.packet_len, self.min_rtt) = (f64::from(ack.packet_len.max(1200)), ack.min_rtt);
        if let Some(opening) = &mut self.opening {
            match opening.on_ack(ack) {
                Some(found) => {
                    self.opening = None;
                    self.rate = found;
                    // What is lost now was sent during the start.
                    self.decreased = Some(ack.now);
                }
                None => self.rate = opening.rate(),
            }
            self.stepped = ack.now;
            return;
        }
        self.acked += ack.acked_packets;
        if ack.now - self.stepped >= SYN {
            self.stepped = ack.now;
            if !ack.app_limited {
                self.step();
            }
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        if loss.cause.spares_rate() {
            return;
        }
        if let Some(opening) = &mut self.opening {
            opening.on_loss(loss);
            self.rate = opening.rate();
            return;
        }
        self.lost = self.lost.saturating_add(loss.packets);
        if self.decreased.is_none_or(|at| loss.sent.0 > at) {
            self.decrease();
            self.decreased = Some(loss.now);
            (self.reports, self.next_decrease) = (1, NEXT_DECREASE);
        } else {
            self.reports = self.reports.saturating_add(1);
            if self.next_decrease < 32 && self.reports >= 1 << self.next_decrease {
                self.next_decrease += 1;
                self.decrease();
            }
        }
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        self.on_loss(&mark.as_loss());
    }

    fn congestion_window(&self) -> u64 {
        safety_window(self.rate, self.min_rtt)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn state(&self) -> &'static str {
        if self.opening.is_some() { "opening" } else { "tuning" }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Acks;
    use super::*;

    const LINK: Rate = Rate::bits_per_second(100_000_000);

    /// A link of 100 Mbit/s, found.
    fn found() -> (Sabul, Acks) {
        let (mut sabul, mut acks) = (Sabul::new(1472), Acks::new(Duration::from_millis(50)));
        while sabul.opening.is_some() {
            let arrives = sabul.rate.min(LINK);
            sabul.on_ack(&acks.next(SYN / 2, arrives));
        }
        (sabul, acks)
    }

    #[test]
    fn it_grows_by_a_thousandth_of_the_next_power_of_ten() {
        for (packets, expected) in [(0.2, 1e-3), (5.0, 1e-2), (84.0, 0.1), (100.0, 0.1), (840.0, 1.0)] {
            assert!((increase(packets) / expected - 1.0).abs() < 1e-9, "{packets} packets per SYN");
        }
        let (mut sabul, mut acks) = found();
        let before = sabul.rate.as_bytes() as f64;
        for _ in 0..10 {
            sabul.on_ack(&acks.next(SYN, LINK));
        }
        // 84.9 packets per SYN: a tenth of a packet each.
        let grown = (sabul.rate.as_bytes() as f64 - before) * SYN.as_secs_f64() / 1472.0;
        assert!((grown - 1.0).abs() < 0.01, "{grown}");
    }

    #[test]
    fn loss_above_a_thousandth_stops_the_growth() {
        let (mut sabul, mut acks) = found();
        let old = LossEpisode { sent: (Timestamp::ZERO, Timestamp::ZERO), ..acks.loss() };
        let before = sabul.rate;
        for _ in 0..5 {
            // One of 85 packets, of a congestion period that was answered already.
            sabul.on_loss(&old);
            sabul.on_ack(&acks.next(SYN, LINK));
        }
        assert_eq!(sabul.rate, before);
        for _ in 0..5 {
            sabul.on_ack(&acks.next(SYN, LINK));
        }
        assert!(sabul.rate > before, "the past weighs a tenth: it is soon forgotten");
    }

    #[test]
    fn a_period_s_decreases_get_rarer() {
        let (mut sabul, mut acks) = found();
        acks.round(0);
        let mut falls = vec![];
        let mut storm = acks.loss();
        for report in 1..=70 {
            let before = sabul.rate;
            sabul.on_loss(&storm);
            if sabul.rate < before {
                falls.push(report);
                assert!(
                    (sabul.rate.as_bytes() as f64 * DECREASE / before.as_bytes() as f64 - 1.0).abs() < 1e-6
                );
            }
            storm.sent.0 = Timestamp::ZERO;
        }
        assert_eq!(falls, [1, 16, 32, 64]);
    }
}
