//! Stretches in which the path had all that it carries, and what they show of others at its bottleneck.

use super::figures::{median, ratio_of, share};
use super::interval::{Interval, low_rtt};
use fobs_model::units::Wait;

/// Share of an interval for which the sender waits for the path, so that the path had what it carries.
const PATH_WAITED: f64 = 0.5;
/// A sender that stood still for more than this share of an interval sent unsteadily itself.
const STOOD: f64 = 0.02;
/// Fewest stretches with a queue that show how steady the delivery rate is.
pub(super) const QUEUED_MIN: usize = 4;
/// Packets by which a delivery rate is measured: bursts and the merging of acks are a small part of them.
pub(super) const PACKETS_MEASURED: f64 = 200.0;
/// Fewest stretches with a queue that show whether the rate follows what is in flight, and the least spread
/// of the latter (standard deviation of its logarithm).
const FOLLOWED_MIN: usize = 5;
const SPREAD_MIN: f64 = 0.08;

/// A stretch of neighbouring intervals with enough packets to measure a rate.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    took_us: f64,
    /// Bytes that left and were not lost, and that arrived.
    sent: f64,
    delivered: f64,
    pub(super) delivered_bps: f64,
    packets: f64,
    /// Smallest round trip of its last interval, microseconds.
    rtt_us: f64,
    /// Round trips of TCP streams, over its intervals, times their length; 0 without streams.
    rtt_time: f64,
    /// Whether a queue stood in all of it.
    pub(super) queued: bool,
    /// Whether it follows the one before.
    follows: bool,
}

/// The stretches in which nothing but the path held the sender back.
pub(super) fn measured(steady: &[&Interval]) -> Vec<Window> {
    let mut found = Vec::new();
    let mut open = Window { queued: true, ..Window::default() };
    let mut end_s = f64::NAN;
    let mut lost = false;
    for interval in steady {
        let sender = &interval.sender;
        // Behind a hole TCP's acks stand still, and come at once when it is filled: no rate.
        let lost_before = std::mem::replace(&mut lost, sender.packets_lost > 0);
        let lumpy = sender.streams.open > 0 && (lost || lost_before);
        let waited = sender.waits.us(Wait::Pacer).saturating_add(sender.waits.us(Wait::Window));
        let stood = share(sender.stood_us, sender.time_us) > STOOD;
        if stood || lumpy || share(waited, sender.time_us) < PATH_WAITED {
            open = Window { queued: true, ..Window::default() };
            end_s = f64::NAN;
            continue;
        }
        let bytes = ratio_of(sender.bytes_sent as f64, sender.packets_sent as f64);
        open.took_us += sender.time_us as f64;
        open.sent += sender.bytes_sent as f64 - bytes * sender.packets_lost as f64;
        open.delivered += sender.bytes_delivered() as f64;
        open.packets += ratio_of(sender.bytes_delivered() as f64, bytes);
        open.rtt_us = low_rtt(interval) as f64;
        if sender.streams.open > 0 {
            open.rtt_time += open.rtt_us * sender.time_us as f64;
        }
        open.queued &= interval.queued();
        if open.packets >= PACKETS_MEASURED {
            open.delivered_bps = open.delivered * 8e6 / open.took_us.max(1.0);
            open.follows = !end_s.is_nan();
            found.push(open);
            open = Window { queued: true, ..Window::default() };
            end_s = interval.to_s;
        }
    }
    found
}

/// How far the queue moves without this flow's packets: the median over neighbouring stretches with a
/// queue, as a part of the time. A queue of one's own moves by what was sent and not lost beyond the
/// delivery rate.
pub(super) fn drift(windows: &[Window]) -> f64 {
    let queued: Vec<f64> = windows.iter().filter(|w| w.queued).map(|w| w.delivered_bps).collect();
    let Some(carried) = median(&queued).filter(|bps| *bps > 0.0) else { return 0.0 };
    let pairs = windows.windows(2).filter(|pair| pair[1].follows && pair.iter().all(|w| w.queued));
    let moved = pairs.map(|pair| {
        let own = pair[1].sent * 8e6 / carried - pair[1].took_us;
        (pair[1].rtt_us - pair[0].rtt_us - own).abs() / pair[1].took_us.max(1.0)
    });
    let moved: Vec<f64> = moved.collect();
    if moved.len() >= QUEUED_MIN { median(&moved).unwrap_or(0.0) } else { 0.0 }
}

/// How far TCP's delivery rate follows what is in flight while a queue stands: the part of the bottleneck
/// that others have. Each flow gets its part of the packets in the queue, so with all of it the rate stays
/// whatever is in flight, and with a small part the round trip does. `None` if too little is known.
pub(super) fn follows(windows: &[Window]) -> Option<f64> {
    let queued: Vec<(f64, f64)> = windows
        .iter()
        .filter(|w| w.queued && w.delivered_bps > 0.0 && w.rtt_time > 0.0)
        .map(|w| (w.delivered_bps.ln() + (w.rtt_time / w.took_us).ln(), w.delivered_bps.ln()))
        .collect();
    if queued.len() < FOLLOWED_MIN {
        return None;
    }
    let count = queued.len() as f64;
    let (mean_in_flight, mean_rate) =
        queued.iter().fold((0.0, 0.0), |sum, w| (sum.0 + w.0 / count, sum.1 + w.1 / count));
    let both: f64 = queued.iter().map(|w| (w.0 - mean_in_flight) * (w.1 - mean_rate)).sum();
    let spread: f64 = queued.iter().map(|w| (w.0 - mean_in_flight).powi(2)).sum();
    (spread >= count * SPREAD_MIN.powi(2)).then(|| both / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stretches with a queue at a bottleneck of a byte a microsecond: own and others' bytes in it.
    fn stretches(in_flight: impl IntoIterator<Item = (f64, f64)>) -> Vec<Window> {
        let one = |(own, others): (f64, f64)| Window {
            took_us: 1e5,
            delivered_bps: 8e6 * own / (own + others),
            rtt_time: 1e5 * (own + others),
            queued: true,
            ..Window::default()
        };
        in_flight.into_iter().map(one).collect()
    }

    #[test]
    fn a_rate_follows_what_is_in_flight_by_the_part_of_others() {
        let own = || (0..10).map(|step| 1e4 * 1.15f64.powi(step));
        let alone = follows(&stretches(own().map(|own| (own, 0.0)))).expect("enough");
        assert!(alone.abs() < 0.01, "{alone}");
        let many = follows(&stretches(own().map(|own| (own, 1e6)))).expect("enough");
        assert!(many > 0.95, "{many}");
        let half = follows(&stretches(own().map(|own| (own, 2e4)))).expect("enough");
        assert!((0.3..0.7).contains(&half), "{half}");
    }

    #[test]
    fn a_steady_flow_does_not_show_what_its_rate_follows() {
        assert_eq!(follows(&stretches([(1e4, 1e4); 20])), None);
        assert_eq!(follows(&stretches((1..4).map(|step| (1e4 * f64::from(step), 0.0)))), None);
    }
}
