//! The start of rate-based controllers whose papers let the user state the path's rate: the rate doubles
//! each round until less is delivered than sent; the delivery rate is then the path's. Loss that chance
//! explains does not stop it.

use super::rate::bounded;
use super::{AckSample, LossEpisode, LossEvidence};
use crate::{Rate, Timestamp};
use std::time::Duration;

/// The first flight, before any round trip is known: 10 Mbit/s, which even a path of 1 Mbit/s queues for a
/// round trip.
const FIRST: Rate = Rate::bits_per_second(10_000_000);
/// Packets of the first round whose length is known: what the first acks are dense for (protocol 5.3).
const FIRST_PACKETS: u64 = crate::recovery::FIRST_TRAIN_PACKETS;
/// A path that delivers less than this share of what is sent is full: between the half that twice the
/// path's rate leaves and the loss of any path worth using (5%) with the noise of one measurement.
const DELIVERED: f64 = 0.75;
/// Ack delay of up to 5 ms (protocol 5.3), and as much for the hosts. A measurement that begins earlier is
/// of the rate before.
const ACK_DELAY: Duration = Duration::from_millis(10);
/// A round waits for a round trip and measures for a quarter of one, but not less than this: a window of
/// the delivery rate.
const MEASURE_MIN: Duration = Duration::from_millis(10);

/// The search for the path's rate.
#[derive(Debug)]
pub(super) struct Opening {
    rate: Rate,
    since: Option<Timestamp>,
    /// The path is being probed for larger packets (protocol 5.6), in the first round of a path that is
    /// shorter than a measurement: of what leaves then 54 kB are such as most paths do not deliver, and 77
    /// kB are not.
    probes: bool,
    /// The highest delivery rate: one bad moment does not lower it.
    fastest: Rate,
}

impl Opening {
    pub(super) fn new() -> Opening {
        Opening { rate: FIRST, since: None, probes: false, fastest: Rate::ZERO }
    }

    /// The rate to send at meanwhile.
    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// The path's rate, once it is found.
    pub(super) fn on_ack(&mut self, ack: &AckSample) -> Option<Rate> {
        let Some(since) = self.since else {
            let round = ack.latest_rtt.max(MEASURE_MIN);
            let first = Rate::of(FIRST_PACKETS * u64::from(ack.packet_len), round);
            self.rate = first.map_or(FIRST, |rate| rate.max(FIRST));
            self.since = Some(ack.now);
            self.probes = ack.latest_rtt < MEASURE_MIN;
            return None;
        };
        let sample = ack.rate?;
        // A window can be read as faster than it was sent.
        self.fastest = self.fastest.max(sample.rate.min(self.rate));
        let measure = (ack.latest_rtt / 4).max(sample.span).max(MEASURE_MIN);
        if ack.now - since < ack.latest_rtt + ACK_DELAY + measure {
            return None;
        }
        self.since = Some(ack.now);
        if ack.app_limited {
            // Not tried: hold this rate and measure again.
            return None;
        }
        let probes = std::mem::take(&mut self.probes);
        if sample.rate < self.rate.scaled(DELIVERED) {
            if probes {
                // The shortfall may be those packets: measure the same rate without them.
                return None;
            }
            return Some(bounded(self.fastest.as_bytes() as f64));
        }
        self.rate = bounded(self.rate.as_bytes() as f64 * 2.0);
        None
    }

    /// No feedback: half the rate, and the round begins anew.
    pub(super) fn on_loss(&mut self, loss: &LossEpisode) {
        if loss.evidence == LossEvidence::Silence {
            self.rate = bounded(self.rate.as_bytes() as f64 / 2.0);
            self.since = Some(loss.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Acks;
    use super::*;

    #[test]
    fn the_path_s_rate_is_found_within_log2_rounds() {
        for link in [3_000_000u64, 100_000_000, 1_000_000_000] {
            let link = Rate::bits_per_second(link);
            let mut opening = Opening::new();
            let mut acks = Acks::new(Duration::from_millis(50));
            let found = (0..10_000).find_map(|_| {
                let sent = opening.rate();
                opening.on_ack(&acks.next(Duration::from_millis(5), sent.min(link)))
            });
            assert_eq!(found, Some(link));
            assert!(acks.now() < Timestamp::from_nanos(1_000_000_000), "{link}: {:?}", acks.now());
        }
    }

    #[test]
    fn five_percent_of_random_loss_does_not_stop_it() {
        let link = Rate::bits_per_second(500_000_000);
        let mut opening = Opening::new();
        let mut acks = Acks::new(Duration::from_millis(20));
        let found = (0..10_000).find_map(|_| {
            let arrives = opening.rate().scaled(0.95).min(link.scaled(0.95));
            opening.on_ack(&acks.next(Duration::from_millis(5), arrives))
        });
        assert_eq!(found, Some(link.scaled(0.95)));
    }

    #[test]
    fn size_probes_in_the_first_round_do_not_lower_the_rate() {
        let link = Rate::bits_per_second(1_000_000_000);
        let mut opening = Opening::new();
        let mut acks = Acks::new(Duration::from_micros(200));
        let found = (0..10_000).find_map(|_| {
            // Two sizes that do not pass, three times each, in the first 25 ms.
            let probes = if acks.now() < Timestamp::from_nanos(25_000_000) { 0.6 } else { 1.0 };
            let arrives = opening.rate().min(link).scaled(probes);
            opening.on_ack(&acks.next(Duration::from_millis(5), arrives))
        });
        assert_eq!(found, Some(link));
    }
}
