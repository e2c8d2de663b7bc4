//! How fast the receiver gets packets: the delivery rate, and which samples the application limited.

use super::opening::Opening;
use crate::recovery::{Acked, DeliveryRate, RateSample, SentKind};
use crate::wire::Ack;
use crate::{PacketNumber, Rate, Timestamp};
use std::time::Duration;

/// Window of the delivery rate: a quarter of a round trip, within bounds that are steady against batches and
/// stamps (about 0.1 ms) on short paths and quick on long ones; and not shorter than the packets of one ack
/// take.
const RATE_WINDOW: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(50));
const RATE_WINDOW_MAX: Duration = Duration::from_millis(200);

/// Samples of the delivery rate.
#[derive(Debug, Default)]
pub(super) struct RateSampler {
    delivery: DeliveryRate,
    opening: Opening,
    /// The newest sample.
    newest: Option<Rate>,
    /// Packets below this number were sent while data or credit was short.
    app_limited_until: PacketNumber,
    /// Those below this number are of a measurement that is over: from their arrival to that of the first one
    /// sent since, nothing was in flight.
    begins_at: PacketNumber,
}

impl RateSampler {
    /// A data packet leaves.
    pub(super) fn on_data(&mut self, number: PacketNumber, now: Timestamp) {
        self.opening.on_data(number, now, &mut self.delivery);
    }

    /// Packets below `end` do not show what the path carries.
    pub(super) fn limit_by_app(&mut self, end: PacketNumber) {
        self.app_limited_until = end;
    }

    /// Whether the application limited the sample that this packet ends.
    pub(super) fn is_app_limited(&self, newest: &Acked) -> bool {
        newest.number < self.app_limited_until || newest.sent.kind == SentKind::Probe
    }

    /// Takes an ack whose newest packet is `newest`. The window is not shorter than `least`, such as the time
    /// of the packets that one ack covers.
    pub(super) fn on_ack(
        &mut self,
        ack: &Ack,
        newest: &Acked,
        min_rtt: Duration,
        least: Duration,
    ) -> Option<RateSample> {
        if newest.number < self.begins_at {
            return None;
        }
        let window = (min_rtt / 4).clamp(RATE_WINDOW.0, RATE_WINDOW.1).max(least).min(RATE_WINDOW_MAX);
        let time_us = ack.receive_time_us.saturating_add(self.opening.wait_after(newest));
        let sample = self.delivery.on_ack(time_us, ack.received_bytes, ack.received_packets, window);
        self.newest = sample.map(|sample| sample.rate).or(self.newest);
        sample
    }

    /// The newest sample, datagram bytes per second.
    pub(super) fn newest(&self) -> Option<Rate> {
        self.newest
    }

    /// Everything below `next_number` was given up or was a silence's: measurement starts anew.
    pub(super) fn start_over(&mut self, next_number: PacketNumber) {
        self.delivery = DeliveryRate::default();
        self.begins_at = next_number;
        self.app_limited_until = next_number;
    }
}
