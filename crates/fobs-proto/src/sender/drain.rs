//! What the receiver takes: a limit of the rate that losses at the receiver lower and time without them raises.
//!
//! It is apart from congestion control, which such losses do not touch (protocol 5.6). It never exceeds what was
//! being sent, so a loss that the receiver claims never lets the sender go faster.

use crate::{Rate, Timestamp};
use std::time::Duration;

/// Largest cut for one round: a round in which more was lost says that the receiver stood still, not how fast it is.
const CUT_MAX: f64 = 0.5;
/// What the limit grows by where a round trip has passed without a loss at the receiver: doubled in 1.4 s, so that the
/// end of a disturbance is found soon, and a receiver that is steadily too slow loses some 5% of one round in a few.
const GROWTH: f64 = 1.05;
/// Shortest time between two steps: on short paths a round trip says nothing about a thread that is kept from its CPU for
/// tens of milliseconds.
const GROWTH_EVERY: Duration = Duration::from_millis(100);
/// From this multiple of what the controller wants on the limit is gone.
const GONE_FROM: f64 = 2.0;
/// Lowest limit, bytes per second: a chunk in flight every few seconds still shows when the receiver is back.
const LOWEST: u64 = 125_000;

/// The limit.
#[derive(Debug, Default)]
pub(super) struct DrainLimit {
    limit: Option<Rate>,
    /// When it was last lowered: what left before says nothing about it.
    lowered: Option<Timestamp>,
    grown: Timestamp,
}

impl DrainLimit {
    pub(super) fn rate(&self) -> Option<Rate> {
        self.limit
    }

    /// The receiver lost `share` of what was sent at `rate`, the last of it at `sent`.
    pub(super) fn on_receiver_loss(&mut self, now: Timestamp, sent: Timestamp, rate: Rate, share: f64) {
        self.grown = now;
        if self.lowered.is_some_and(|at| sent <= at) {
            return;
        }
        let lower = rate.scaled(1.0 - share.clamp(0.0, CUT_MAX));
        self.limit = Some(Rate::bytes_per_second(lower.as_bytes().max(LOWEST)));
        self.lowered = Some(now);
    }

    /// A round trip passed without such a loss; `wanted` is the controller's rate.
    pub(super) fn on_quiet_round(&mut self, now: Timestamp, rtt: Duration, wanted: Option<Rate>) {
        let Some(limit) = self.limit else { return };
        if now < self.grown + GROWTH_EVERY.max(rtt) {
            return;
        }
        self.grown = now;
        let raised = limit.scaled(GROWTH);
        let gone = wanted.is_some_and(|wanted| raised >= wanted.scaled(GONE_FROM));
        self.limit = (!gone).then_some(raised);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 125_000;

    fn ms(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn it_falls_once_a_round_trip_and_is_forgotten_when_it_no_longer_matters() {
        let (mut drain, rate) = (DrainLimit::default(), Rate::bytes_per_second(1000 * MBIT));
        assert_eq!(drain.rate(), None);
        drain.on_receiver_loss(ms(100), ms(50), rate, 0.2);
        assert_eq!(drain.rate(), Some(Rate::bytes_per_second(800 * MBIT)));
        drain.on_receiver_loss(ms(120), ms(90), rate, 0.2);
        assert_eq!(drain.rate(), Some(Rate::bytes_per_second(800 * MBIT)), "sent before the cut");
        drain.on_receiver_loss(ms(300), ms(250), Rate::bytes_per_second(800 * MBIT), 0.9);
        assert_eq!(drain.rate(), Some(Rate::bytes_per_second(400 * MBIT)));
        let mut now = 300;
        while drain.rate().is_some() {
            now += 10;
            drain.on_quiet_round(ms(now), Duration::from_millis(10), Some(rate));
            assert!(now < 5000, "it never ends");
        }
        // ln(2000 / 400) / ln(1.05) steps of 100 ms.
        assert_eq!((now - 300) / 100, 33);
    }

    #[test]
    fn it_has_a_floor() {
        let mut drain = DrainLimit::default();
        for i in 0..100 {
            let rate = drain.rate().unwrap_or(Rate::bytes_per_second(MBIT * 100));
            drain.on_receiver_loss(ms(i * 100 + 50), ms(i * 100), rate, 1.0);
        }
        assert_eq!(drain.rate(), Some(Rate::bytes_per_second(LOWEST)));
    }
}
