//! The loss-event history of RFC 5348 section 5: losses within a round trip are one event, and the rate of
//! events is one over the weighted mean of the last intervals between them.

use super::{FoundLosses, LossEpisode};
use crate::Timestamp;
use std::time::Duration;

/// Intervals that count, and their weights, newest first (RFC 5348 section 5.4, n = 8).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// The history.
#[derive(Debug, Clone, Default)]
pub struct LossHistory {
    /// Packets between events, newest first; the first is open.
    intervals: Vec<f64>,
    /// When the packet that began the last event was sent.
    event_began: Option<Timestamp>,
    /// Losses of the last event that have not arrived after all, and the event before.
    undo: Option<(u64, Option<Timestamp>)>,
}

impl LossHistory {
    /// Packets arrived or were lost: the open interval grows.
    pub fn on_packets(&mut self, packets: u64) {
        if let Some(open) = self.intervals.first_mut() {
            *open += packets as f64;
        }
    }

    /// Takes a loss; true if it begins an event.
    pub fn on_loss(&mut self, loss: &LossEpisode, rtt: Duration) -> bool {
        let (_, last) = loss.sent;
        let news = self.event_began.is_none_or(|at| last > at + rtt);
        if news {
            // What lies within the round trip of the last event still belongs to it.
            let after = self.event_began.map_or(Timestamp::ZERO, |at| at + rtt);
            self.undo = Some((0, self.event_began));
            self.event_began = Some(loss.sent.0.max(after));
            self.intervals.insert(0, 0.0);
            self.intervals.truncate(WEIGHTS.len() + 1);
        }
        if let Some((lost, _)) = &mut self.undo {
            *lost = lost.saturating_add(loss.packets);
        }
        news
    }

    /// Packets declared lost have arrived: an event none of whose losses remain was none.
    pub fn on_found(&mut self, found: &FoundLosses) {
        let Some((lost, event_before)) = &mut self.undo else { return };
        *lost = lost.saturating_sub(found.packets);
        if *lost > 0 || self.intervals.len() < 2 {
            return;
        }
        self.event_began = *event_before;
        let open = self.intervals.remove(0);
        self.intervals[0] += open;
        self.undo = None;
    }

    /// Sets the interval before the first event (RFC 5348 section 6.3.1): what stands for the time without
    /// a history.
    pub fn set_first_interval(&mut self, packets: f64) {
        if self.intervals.len() == 1 {
            self.intervals.push(packets.max(1.0));
        }
    }

    /// The mean interval, packets; `None` before the first event. The open interval counts only where it
    /// makes the mean larger (RFC 5348 section 5.4).
    pub fn mean_interval(&self) -> Option<f64> {
        let closed = self.intervals.get(1..).filter(|closed| !closed.is_empty())?;
        let all = &self.intervals[..self.intervals.len().min(WEIGHTS.len())];
        Some(weighted_mean(all).max(weighted_mean(&closed[..closed.len().min(WEIGHTS.len())])).max(1.0))
    }

    /// Rate of loss events, a share of packets; 0 before the first event.
    pub fn event_rate(&self) -> f64 {
        self.mean_interval().map_or(0.0, |mean| 1.0 / mean)
    }
}

fn weighted_mean(intervals: &[f64]) -> f64 {
    let sum: f64 = intervals.iter().zip(WEIGHTS).map(|(interval, weight)| interval * weight).sum();
    sum / WEIGHTS[..intervals.len()].iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::super::testing::Acks;
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// A history with these intervals, oldest first, and the last one open.
    fn history(intervals: &[u64]) -> LossHistory {
        let mut history = LossHistory::default();
        let mut acks = Acks::new(2 * RTT);
        for (i, packets) in intervals.iter().enumerate() {
            assert!(history.on_loss(&acks.loss(), RTT));
            if i == 0 {
                history.set_first_interval(100.0);
            }
            history.on_packets(*packets);
            acks.round(0);
        }
        history
    }

    #[test]
    fn the_weights_are_those_of_rfc_5348() {
        assert_eq!(LossHistory::default().event_rate(), 0.0);
        // Eight closed intervals: 1 to 8 hundred packets, newest 800; the open one is empty and does not
        // count.
        let mean = history(&[100, 200, 300, 400, 500, 600, 700, 800, 0]).mean_interval().expect("events");
        let expected = (800. + 700. + 600. + 500. + 0.8 * 400. + 0.6 * 300. + 0.4 * 200. + 0.2 * 100.) / 6.0;
        assert!((mean - expected).abs() < 1e-9, "{mean} for {expected}");
    }

    #[test]
    fn a_long_open_interval_counts_and_a_short_one_does_not() {
        let steady = history(&[100; 9]);
        assert!((steady.event_rate() - 0.01).abs() < 1e-9);
        let mut quiet = history(&[100, 100, 100, 100, 100, 100, 100, 100, 0]);
        assert!((quiet.event_rate() - 0.01).abs() < 1e-9, "an event just now changes nothing yet");
        quiet.on_packets(700);
        assert!((quiet.mean_interval().expect("events") - 200.0).abs() < 1e-9, "(700 + 5 * 100) / 6");
    }

    #[test]
    fn an_event_whose_losses_arrive_is_none() {
        let mut history = history(&[100; 9]);
        let mut acks = Acks::new(2 * RTT);
        (0..20).for_each(|_| _ = acks.round(0));
        let before = history.mean_interval();
        assert!(history.on_loss(&acks.losses(4), RTT));
        let found = FoundLosses { now: acks.now(), packets: 4 };
        history.on_found(&found);
        assert_eq!(history.mean_interval(), before);
        history.on_found(&found);
        assert_eq!(history.mean_interval(), before, "once");
    }

    #[test]
    fn losses_within_a_round_trip_are_one_event() {
        let mut history = LossHistory::default();
        let mut acks = Acks::new(RTT / 2);
        assert!(history.on_loss(&acks.loss(), RTT));
        for _ in 0..2 {
            acks.round(0);
            assert!(!history.on_loss(&acks.loss(), RTT));
        }
        acks.round(0);
        assert!(history.on_loss(&acks.loss(), RTT));
    }
}
