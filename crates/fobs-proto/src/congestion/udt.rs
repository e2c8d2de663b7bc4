//! UDT's rate control, AIMD with decreasing increases (Gu, Grossman, "UDT: UDP-based data transfer for
//! high-speed wide area networks", Computer Networks 51(7), 2007; draft-gg-udt-03, "UDT's native control
//! algorithm"): every 10 ms the rate grows by a step that depends on the bandwidth left, and a loss event
//! takes a ninth.
//!
//! Differs in two things. The capacity comes from the dispersion of the first flight and from the fastest
//! delivery since, where UDT times packet pairs all along: acks here carry no stamp of each packet. And
//! slow start is paced.

use super::rate::{RATE_MAX, bounded};
use super::{AckSample, Controller, EcnMark, LossEpisode, LossEvidence};
use crate::math;
use crate::recovery::RateSample;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// SYN: the time between steps, whatever the round trip.
const SYN: Duration = Duration::from_millis(10);
/// draft-gg-udt-03: packets per SYN for each bit per second, per byte of a packet.
const BETA: f64 = 1.5e-6;
/// draft-gg-udt-03: factor of the time between packets at a decrease.
const DECREASE: f64 = 1.125;
/// draft-gg-udt-03: decreases in one congestion period at most; 0.889 to the fifth power is a half.
const DECREASES_MAX: u32 = 5;
/// The flow window beyond what arrives in a round trip and a SYN (same place).
const WINDOW_SLACK: u64 = 16;
/// The first flight, packets. UDT has 16; 64 are what dispersion can be measured on (see `auto`).
const FIRST_FLIGHT: u64 = crate::recovery::FIRST_TRAIN_PACKETS;
const FIRST_FLIGHT_MIN: u64 = 48;
/// Or fewer that took so long that 0.1 ms of jitter is a few percent.
const SLOW: (u64, Duration) = (4, Duration::from_millis(4));
/// Most steps made up for after a silence.
const STEPS_MAX: u32 = 10;

/// The controller.
#[derive(Debug)]
pub struct Udt {
    packet_len: u64,
    slow_start: bool,
    /// Slow start's window.
    window: u64,
    rate: Rate,
    smoothed_rtt: Duration,
    /// Estimates of the link's capacity and of the receive rate.
    capacity: Rate,
    arriving: Rate,
    measured: bool,
    stepped: Timestamp,
    /// A loss came since the last step: no increase.
    lost: bool,
    decreased: Option<Timestamp>,
    rate_before: Rate,
    decreases: u32,
    /// Loss reports in this congestion period, their mean, and after how many of them the rate falls again.
    reports: u32,
    reports_mean: f64,
    every: u32,
}

/// Packets that the rate grows by per SYN, with `left_bits` bit/s left (draft-gg-udt-03).
fn increase(left_bits: f64, packet_len: f64) -> f64 {
    let least = 1.0 / packet_len;
    if left_bits <= 0.0 {
        return least;
    }
    (math::powf(10.0, math::log10(left_bits).ceil()) * BETA / packet_len).max(least)
}

/// UDT draws from [0, 1) so that flows do not fall in step; the time of a loss serves as the seed, so that
/// a replay is the same.
fn draw(at: Timestamp) -> f64 {
    let mixed = at.as_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

impl Udt {
    /// A controller with packets of `packet_len` datagram bytes.
    pub fn new(packet_len: u16) -> Udt {
        let packet_len = u64::from(packet_len.max(1200));
        Udt {
            packet_len,
            slow_start: true,
            window: FIRST_FLIGHT * packet_len,
            rate: RATE_MAX,
            smoothed_rtt: Duration::ZERO,
            capacity: Rate::ZERO,
            arriving: Rate::ZERO,
            measured: false,
            stepped: Timestamp::ZERO,
            lost: false,
            decreased: None,
            rate_before: Rate::ZERO,
            decreases: 0,
            reports: 0,
            reports_mean: 0.0,
            every: 1,
        }
    }

    fn measure(&mut self, sample: RateSample, complete: bool) {
        if !self.measured {
            let slow = sample.packets >= SLOW.0 && sample.span >= SLOW.1;
            if sample.packets < FIRST_FLIGHT_MIN && !slow && !complete {
                return;
            }
            self.measured = true;
            (self.capacity, self.arriving) = (sample.rate, sample.rate);
            return;
        }
        // Both are averages with a weight of 1/8 for the new.
        let mean = |old: Rate| {
            Rate::bytes_per_second(
                (old.as_bytes() / 8).saturating_mul(7).saturating_add(sample.rate.as_bytes() / 8),
            )
        };
        self.arriving = mean(self.arriving);
        self.capacity = self.capacity.max(mean(self.capacity));
    }

    fn end_slow_start(&mut self) {
        self.slow_start = false;
        let by_window = Rate::of(self.window, self.smoothed_rtt + SYN).unwrap_or(self.rate);
        let rate = if self.measured { self.arriving } else { by_window };
        self.rate = bounded(rate.as_bytes() as f64);
    }

    fn step(&mut self) {
        if std::mem::take(&mut self.lost) {
            return;
        }
        let (rate, capacity) = (self.rate.as_bytes() as f64, self.capacity.as_bytes() as f64);
        // draft-gg-udt-03: below the rate of the last decrease a ninth of the capacity is left at most.
        let left = capacity - rate;
        let left = if self.rate < self.rate_before { left.min(capacity / 9.0) } else { left };
        let packets = increase(left * 8.0, self.packet_len as f64);
        self.rate = bounded(rate + packets * self.packet_len as f64 / SYN.as_secs_f64());
    }

    fn decrease(&mut self) {
        self.rate = bounded(self.rate.as_bytes() as f64 / DECREASE);
    }
}

impl Controller for Udt {
    fn name(&self) -> &'static str {
        "udt"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.packet_len = u64::from(ack.packet_len.max(1200));
        self.smoothed_rtt = ack.smoothed_rtt;
        if let Some(sample) = ack.rate {
            self.measure(sample, ack.bytes_in_flight == 0);
        }
        if self.slow_start {
            if self.measured {
                self.window = self.window.saturating_add(ack.acked_bytes).min(1 << 40);
                let doubling = Rate::of(self.window.saturating_mul(2), self.smoothed_rtt);
                self.rate = doubling.map_or(RATE_MAX, |rate| bounded(rate.as_bytes() as f64));
            }
            self.stepped = ack.now;
            return;
        }
        let mut steps = 0;
        while ack.now - self.stepped >= SYN && steps < STEPS_MAX {
            self.stepped = self.stepped + SYN;
            steps += 1;
            if !ack.app_limited {
                self.step();
            }
        }
        if steps == STEPS_MAX {
            self.stepped = ack.now;
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        if loss.cause.spares_rate() {
            return;
        }
        if self.slow_start {
            self.end_slow_start();
            self.decreased = Some(loss.now);
            self.rate_before = self.rate;
            return;
        }
        self.lost = true;
        let news = self.decreased.is_none_or(|at| loss.sent.0 > at) || loss.evidence == LossEvidence::Silence;
        if news {
            self.rate_before = self.rate;
            self.decrease();
            self.reports_mean = (0.875 * self.reports_mean + 0.125 * f64::from(self.reports)).ceil();
            (self.reports, self.decreases) = (1, 1);
            self.every = ((self.reports_mean * draw(loss.now)).ceil() as u32).max(1);
            self.decreased = Some(loss.now);
        } else {
            self.reports = self.reports.saturating_add(1);
            if self.decreases < DECREASES_MAX && self.reports.is_multiple_of(self.every) {
                self.decreases += 1;
                self.decrease();
                self.decreased = Some(loss.now);
            }
        }
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        self.on_loss(&mark.as_loss());
    }

    fn congestion_window(&self) -> u64 {
        if self.slow_start {
            return self.window;
        }
        self.arriving.bytes_in(self.smoothed_rtt + SYN).saturating_add(WINDOW_SLACK * self.packet_len)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn state(&self) -> &'static str {
        if self.slow_start { "slow start" } else { "daimd" }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Acks;
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    /// A link of 1 Gbit/s, found, and a loss.
    fn found() -> (Udt, Acks) {
        let link = Rate::bits_per_second(1_000_000_000);
        let (mut udt, mut acks) = (Udt::new(1500), Acks::new(RTT));
        for _ in 0..100 {
            udt.on_ack(&acks.next(RTT / 10, link));
        }
        udt.on_loss(&acks.loss());
        (udt, acks)
    }

    #[test]
    fn the_increase_is_that_of_the_published_table() {
        // The table of Gu and Grossman 2007: bandwidth left in Mbit/s, packets of 1500 bytes per SYN.
        let table = [
            (9_000.0, 10.0),
            (5_000.0, 10.0),
            (1_000.0, 1.0),
            (500.0, 1.0),
            (50.0, 0.1),
            (5.0, 0.01),
            (0.5, 0.001),
            (0.05, 1.0 / 1500.0),
            (-3.0, 1.0 / 1500.0),
        ];
        for (mbit, packets) in table {
            let got = increase(mbit * 1e6, 1500.0);
            assert!((got / packets - 1.0).abs() < 1e-9, "{got} for {packets} at {mbit} Mbit/s");
        }
    }

    #[test]
    fn slow_start_ends_at_the_rate_that_arrives() {
        let (udt, _) = found();
        assert_eq!(udt.state(), "daimd");
        let rate = udt.rate.as_bytes() as f64;
        assert!((rate / 125e6 - 1.0).abs() < 0.01, "{}", udt.rate);
        let window = udt.congestion_window() as f64;
        assert!((window / (125e6 * 0.060 + 16.0 * 1472.0) - 1.0).abs() < 0.01, "{window}");
    }

    #[test]
    fn a_loss_event_takes_a_ninth_once_and_at_most_half() {
        let (mut udt, mut acks) = found();
        let before = udt.rate.as_bytes() as f64;
        acks.round(0);
        udt.on_loss(&acks.loss());
        assert!((udt.rate.as_bytes() as f64 * DECREASE / before - 1.0).abs() < 1e-6);
        // Many reports about packets sent before that.
        let storm = LossEpisode { sent: (Timestamp::ZERO, acks.now()), ..acks.losses(10) };
        for _ in 0..100 {
            udt.on_loss(&storm);
        }
        let left = udt.rate.as_bytes() as f64 / before;
        assert!(left > 0.55 && left < 0.9, "{left}");
    }

    #[test]
    fn the_rate_comes_back_by_the_table_s_steps() {
        let (mut udt, mut acks) = found();
        acks.round(0);
        udt.on_loss(&acks.loss());
        let low = udt.rate.as_bytes();
        let link = Rate::bits_per_second(1_000_000_000);
        // The first SYN after a loss has no increase; then a packet each, as 1 Gbit/s less 8/9 of it is 111
        // Mbit/s.
        for _ in 0..11 {
            udt.on_ack(&acks.next(SYN, link));
        }
        let steps = (udt.rate.as_bytes() - low) as f64 / (1472.0 / SYN.as_secs_f64());
        assert!(steps > 9.0 && steps < 17.0, "{steps} packets per SYN");
    }
}
