//! A rise of the path's rate shows only as room: the queue that the flow keeps vanishes.
//!
//! What other flows leave for a moment looks alike, and a probe measures what the path carries with nobody
//! else on it. So only a flow that is *alone* follows it, one that had about all that recent probes found;
//! and all of this only in a *calm*, when nothing but drains has changed the queue for a while.

use super::super::model::{Best, Model};
use super::super::params::Params;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// What the queue has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// It stands, is empty as before, or was drained.
    None,
    /// It vanished as fast as only a rise of the rate makes it.
    Vanished,
}

/// Watches for a rise.
#[derive(Debug)]
pub(crate) struct RiseDetector {
    /// Since when only drains have changed the queue.
    calm: Timestamp,
    /// The first ack since then that found a queue standing; on some paths none does.
    queued: Option<Timestamp>,
    /// The newest ack that found the queue standing, and how long it was.
    stood: Option<(Timestamp, Duration)>,
    /// What recent probes found.
    probed: Best,
    /// When the last probe was sent.
    probed_at: Timestamp,
    /// Packets of a probe at most: half of one that lost packets.
    most: u64,
}

impl RiseDetector {
    pub(crate) fn new(p: &Params) -> RiseDetector {
        RiseDetector {
            calm: Timestamp::ZERO,
            queued: None,
            stood: None,
            probed: Best::over(p.probed_span),
            probed_at: Timestamp::ZERO,
            most: p.probe_packets_max,
        }
    }

    /// The path has changed, or the flow has changed the queue by more than a drain: the calm begins anew.
    pub(crate) fn unsettle(&mut self, now: Timestamp) {
        self.calm = now;
        self.queued = None;
        self.stood = None;
    }

    /// Whether a probe has found anything yet.
    pub(crate) fn knows(&self) -> bool {
        self.probed.rate() > Rate::ZERO
    }

    /// Whether no other flow has a noticeable part of the path.
    pub(crate) fn is_alone(&self, capacity: Rate, p: &Params) -> bool {
        self.knows() && self.probed.rate() < capacity.scaled(p.rise_ratio)
    }

    fn is_calm(&self, now: Timestamp, round_trip: Duration, p: &Params) -> bool {
        self.queued.is_some() && now - self.calm >= p.calm_min.max(p.calm_rounds * round_trip)
    }

    /// Takes the delay in the queue.
    pub(crate) fn on_delay(&mut self, now: Timestamp, delay: Duration, target: Duration, p: &Params) -> Room {
        if delay > target / p.queue_busy {
            self.stood = Some((now, delay));
            self.queued.get_or_insert(now);
            return Room::None;
        }
        let Some((at, before)) = self.stood.take_if(|_| delay < target / p.queue_empty) else {
            return Room::None;
        };
        let slope = before.saturating_sub(delay).as_secs_f64() / (now - at).as_secs_f64();
        if slope >= p.rise_slope { Room::Vanished } else { Room::None }
    }

    /// Packets of a probe, if the path is one for it: calm, and long enough for a train that is a small
    /// part of what is in flight.
    pub(crate) fn probe_packets(&self, now: Timestamp, model: &Model) -> Option<u64> {
        let p = &model.params;
        let window = model.pacing.bytes_in(model.min_rtt) / model.packet_len;
        let packets = (window / p.probe_share).min(self.most).max(p.probe_packets_min);
        let fits = self.is_calm(now, model.min_rtt, p)
            && model.min_rtt >= p.measure_min
            && packets <= (window / p.probe_share_max).min(self.most);
        fits.then_some(packets)
    }

    /// A probe has been sent.
    pub(crate) fn on_probe(&mut self, now: Timestamp) {
        self.probed_at = now;
    }

    /// Whether the last probe is long ago.
    pub(crate) fn is_stale(&self, now: Timestamp, p: &Params) -> bool {
        now - self.probed_at >= p.probed_span
    }

    /// A probe of `packets` lost some of them: its result is void, and the next is half as long.
    pub(crate) fn on_lost_probe(&mut self, packets: u64) {
        self.most = self.most.min(packets) / 2;
    }

    /// A probe found this rate, or that the rate is as it was.
    pub(crate) fn on_probed(&mut self, now: Timestamp, rate: Rate) {
        self.probed.observe(now, rate);
    }

    /// The path's rate has risen: probes may have full length again.
    pub(crate) fn on_risen(&mut self, p: &Params) {
        self.most = p.probe_packets_max;
    }

    #[cfg(test)]
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// One that has been calm for long and whose last probe found `rate`.
    #[cfg(test)]
    pub(crate) fn calm(rate: Rate, now: Timestamp, p: &Params) -> RiseDetector {
        let mut rise = RiseDetector::new(p);
        rise.queued = Some(Timestamp::ZERO);
        rise.probed.observe(now, rate);
        rise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TARGET: Duration = Duration::from_millis(4);

    #[test]
    fn a_queue_that_vanishes_is_room_and_one_that_is_drained_is_not() {
        let p = Params::default();
        let mut rise = RiseDetector::new(&p);
        let mut vanishes = |delays: &[(u32, u32)]| {
            let seen: Vec<_> = delays
                .iter()
                .map(|(ms, delay)| {
                    rise.on_delay(Timestamp::ZERO + MS * *ms, MS * *delay, TARGET, &p) == Room::Vanished
                })
                .collect();
            seen
        };
        assert_eq!(vanishes(&[(0, 4), (5, 0), (10, 0)]), [false, true, false]);
        assert_eq!(vanishes(&[(20, 4), (27, 2), (35, 0)]), [false, false, true]);
        assert_eq!(vanishes(&[(40, 4), (60, 2), (80, 0)]), [false, false, false]);
    }
}
