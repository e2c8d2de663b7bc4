//! The delivery rate, by the receiver's clock and counters.
//!
//! Every ack carries the arrival time of the newest packet and the bytes received until then (protocol 6).
//! The slope between two acks is the rate at which the path delivered, untouched by delayed, merged or lost
//! acks: that is why no per-packet send state is kept, as sender-side estimators
//! (draft-cheng-iccrg-delivery-rate) must.

use crate::Rate;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

/// Reports remembered, spread over the window.
const REPORTS_MAX: usize = 256;

/// A slope over the reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSample {
    /// Datagram bytes per second.
    pub rate: Rate,
    /// Time that the slope spans, receiver's clock.
    pub span: Duration,
    /// Packets that the slope spans.
    pub packets: u64,
}

/// The receiver's clock and totals in one ack.
#[derive(Debug, Clone, Copy)]
struct ReceiverReport {
    time_us: u64,
    bytes: u64,
    packets: u64,
}

impl ReceiverReport {
    fn slope_since(&self, old: &ReceiverReport) -> Option<RateSample> {
        let span = Duration::from_micros(self.time_us - old.time_us);
        let rate = Rate::of(self.bytes - old.bytes, span)?;
        Some(RateSample { rate, span, packets: self.packets - old.packets })
    }
}

/// The estimator.
#[derive(Debug, Default)]
pub struct DeliveryRate {
    reports: VecDeque<ReceiverReport>,
}

impl DeliveryRate {
    /// Nothing was sent for `pause` since the last report: earlier reports are moved up, so that no slope
    /// spans the pause.
    pub fn shift(&mut self, pause: Duration) {
        let pause_us = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        self.reports.iter_mut().for_each(|report| report.time_us = report.time_us.saturating_add(pause_us));
    }

    /// Takes the counters of an ack and gives the slope over about the last `window`; `None` while there is
    /// nothing to compare with, or for an ack that was overtaken. A later stamp with lower counters shows
    /// that those before were false: it starts over.
    pub fn on_ack(&mut self, time_us: u64, bytes: u64, packets: u64, window: Duration) -> Option<RateSample> {
        let new = ReceiverReport { time_us, bytes, packets };
        if let Some(last) = self.reports.back_mut()
            && (new.time_us <= last.time_us || new.bytes <= last.bytes || new.packets <= last.packets)
        {
            let grew = new.bytes > last.bytes && new.packets > last.packets;
            let fell = new.bytes < last.bytes || new.packets < last.packets;
            match new.time_us.cmp(&last.time_us) {
                // More of the batch that the last report came in the middle of: one stamp, one report.
                Ordering::Equal if grew => *last = new,
                Ordering::Greater if fell => self.reports = VecDeque::from([new]),
                _ => {}
            }
            return None;
        }
        let window_us = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
        // Drop reports older than the window, but always keep one to compare with.
        while self.reports.len() > 1 && self.reports[1].time_us.saturating_add(window_us) <= new.time_us {
            self.reports.pop_front();
        }
        let slope = self.reports.front().and_then(|first| new.slope_since(first));
        // Dense acks need not all be remembered: a window of REPORTS_MAX / 2 reports is as good.
        let step_us = window_us / (REPORTS_MAX as u64 / 2);
        let len = self.reports.len();
        if len >= 2 && self.reports[len - 1].time_us - self.reports[len - 2].time_us < step_us {
            self.reports.pop_back();
        }
        if self.reports.len() == REPORTS_MAX {
            self.reports.pop_front();
        }
        self.reports.push_back(new);
        slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_no_part_of_the_slope() {
        let mut estimator = DeliveryRate::default();
        let window = Duration::from_secs(1);
        assert_eq!(estimator.on_ack(1_000, 100, 1, window), None);
        estimator.shift(Duration::from_millis(50));
        let sample = estimator.on_ack(61_000, 10_100, 11, window).unwrap();
        assert_eq!(
            (sample.rate, sample.span),
            (Rate::bytes_per_second(1_000_000), Duration::from_millis(10))
        );
    }

    #[test]
    fn the_slope_is_the_rate_of_the_window() {
        let mut estimator = DeliveryRate::default();
        let window = Duration::from_millis(10);
        assert_eq!(estimator.on_ack(0, 1000, 1, window), None);
        let mut last = None;
        for ms in 1..=100u64 {
            // 1 MB/s for 50 ms, then 4 MB/s.
            let bytes = 1000 + if ms <= 50 { ms * 1000 } else { 50_000 + (ms - 50) * 4000 };
            last = estimator.on_ack(ms * 1000, bytes, 1 + ms, window);
            if ms == 50 {
                assert_eq!(last.unwrap().rate, Rate::bytes_per_second(1_000_000));
            }
            if ms == 51 {
                assert_eq!(last.unwrap().rate, Rate::bytes_per_second(1_300_000));
            }
        }
        let last = last.unwrap();
        assert_eq!(last.rate, Rate::bytes_per_second(4_000_000));
        assert_eq!(last.span, window);
    }

    #[test]
    fn a_batch_with_one_stamp_is_one_report() {
        let mut estimator = DeliveryRate::default();
        let window = Duration::from_millis(10);
        estimator.on_ack(1000, 1000, 1, window);
        // The rest of the batch: ten more packets that came with the first.
        assert_eq!(estimator.on_ack(1000, 11_000, 11, window), None);
        let sample = estimator.on_ack(2000, 21_000, 21, window).unwrap();
        assert_eq!((sample.rate, sample.packets), (Rate::bytes_per_second(10_000_000), 10));
    }

    #[test]
    fn dense_acks_do_not_shorten_the_window() {
        let mut estimator = DeliveryRate::default();
        let window = Duration::from_millis(10);
        let mut last = None;
        for n in 1..=20_000u64 {
            last = estimator.on_ack(n * 2, n * 1000, n, window);
        }
        let last = last.unwrap();
        assert!(last.span >= window && last.span < window * 11 / 10, "{:?}", last.span);
        assert!(estimator.reports.len() <= REPORTS_MAX);
    }

    #[test]
    fn overtaken_and_lying_acks_give_nothing() {
        let mut estimator = DeliveryRate::default();
        let window = Duration::from_millis(10);
        estimator.on_ack(1000, 5000, 5, window);
        assert_eq!(estimator.on_ack(1000, 6000, 6, window), None, "the same batch");
        assert_eq!(estimator.on_ack(2000, 4000, 4, window), None);
        assert!(estimator.on_ack(u64::MAX, u64::MAX, u64::MAX, window).is_some());
        assert_eq!(estimator.on_ack(3000, 7000, 7, window), None);
    }

    #[test]
    fn counters_that_lied_are_forgotten_and_overtaken_acks_change_nothing() {
        let mut estimator = DeliveryRate::default();
        let window = Duration::from_millis(10);
        estimator.on_ack(1000, 5000, 5, window);
        assert!(estimator.on_ack(2000, u64::MAX, u64::MAX, window).is_some());
        assert_eq!(estimator.on_ack(3000, 7000, 7, window), None, "the lie is the report before");
        assert_eq!(estimator.on_ack(900, 4000, 4, window), None, "overtaken");
        let sample = estimator.on_ack(4000, 9000, 9, window).unwrap();
        assert_eq!((sample.rate, sample.packets), (Rate::bytes_per_second(2_000_000), 2));
    }
}
