//! Round-trip time (RFC 9002 section 5), with a windowed minimum.

use crate::Timestamp;
use std::time::Duration;

/// RFC 9002 section 6.2.2: assumed before the first sample.
const INITIAL_RTT: Duration = Duration::from_millis(333);
/// RFC 9002 section 6.1.2: timers cannot be finer than this.
const GRANULARITY: Duration = Duration::from_millis(1);
/// Length of a window of [`Rtt::min`], which spans the present window and the one before: long enough to
/// outlast a standing queue, short enough to follow a route change. Two windows are BBR's 10 s.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(5);

/// The estimator.
#[derive(Debug, Clone)]
pub struct Rtt {
    latest: Option<Duration>,
    smoothed: Duration,
    variation: Duration,
    min_ever: Duration,
    /// Minimum of the present window, and of the one before.
    min: Duration,
    min_before: Duration,
    window_began: Timestamp,
}

impl Default for Rtt {
    fn default() -> Self {
        Rtt {
            latest: None,
            smoothed: INITIAL_RTT,
            variation: INITIAL_RTT / 2,
            min_ever: Duration::MAX,
            min: Duration::MAX,
            min_before: Duration::MAX,
            window_began: Timestamp::ZERO,
        }
    }
}

impl Rtt {
    /// Takes a sample: the time from sending to the ack, and how long the receiver held the ack back.
    pub fn on_sample(&mut self, now: Timestamp, total: Duration, ack_delay: Duration) {
        self.min_ever = self.min_ever.min(total);
        if now - self.window_began >= MIN_RTT_WINDOW {
            // After a longer pause the window before is too old to count.
            let stale = now - self.window_began >= 2 * MIN_RTT_WINDOW;
            self.min_before = if stale { Duration::MAX } else { self.min };
            self.min = Duration::MAX;
            self.window_began = now;
        }
        self.min = self.min.min(total);
        // RFC 9002 section 5.3: the delay is taken off only where that leaves a plausible time.
        let sample = if total >= self.min_ever + ack_delay { total - ack_delay } else { total };
        if self.latest.is_none() {
            self.smoothed = sample;
            self.variation = sample / 2;
        } else {
            self.variation = (3 * self.variation + self.smoothed.abs_diff(sample)) / 4;
            self.smoothed = (7 * self.smoothed + sample) / 8;
        }
        self.latest = Some(sample);
    }

    /// The newest sample.
    pub fn latest(&self) -> Option<Duration> {
        self.latest
    }

    /// The smoothed RTT; RFC 9002's initial value before the first sample.
    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The smallest RTT of the present window and of the one before; `None` before the first sample. A window
    /// lasts until the first sample 5 s after its start: with steady acks that is the last 5 to 10 s, across
    /// a pause up to 15 s.
    pub fn min(&self) -> Option<Duration> {
        self.latest.map(|_| self.min.min(self.min_before))
    }

    /// The smallest RTT of the session.
    pub fn min_ever(&self) -> Option<Duration> {
        self.latest.map(|_| self.min_ever)
    }

    /// After this time without a later packet being acknowledged a packet is lost (RFC 9002 section 6.1.2):
    /// 9/8 RTT, or an RTT and the path's reordering window if that is longer.
    pub fn loss_delay(&self, reordering: Option<Duration>) -> Duration {
        let rtt = self.latest.map_or(self.smoothed, |latest| latest.max(self.smoothed));
        (rtt + (rtt / 8).max(reordering.unwrap_or_default())).max(GRANULARITY)
    }

    /// The probe timeout (RFC 9002 section 6.2.1), not backed off; `ack_delay_max` is the receiver's longest
    /// wait.
    pub fn probe_timeout(&self, ack_delay_max: Duration) -> Duration {
        self.smoothed + (4 * self.variation).max(GRANULARITY) + ack_delay_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn samples_follow_rfc_9002() {
        let mut rtt = Rtt::default();
        assert_eq!((rtt.smoothed(), rtt.min()), (INITIAL_RTT, None));
        rtt.on_sample(Timestamp::ZERO, 100 * MS, Duration::ZERO);
        assert_eq!((rtt.smoothed(), rtt.variation), (100 * MS, 50 * MS));
        rtt.on_sample(Timestamp::ZERO, 190 * MS, 10 * MS);
        assert_eq!(rtt.latest(), Some(180 * MS));
        assert_eq!(rtt.smoothed(), 110 * MS);
        assert_eq!(rtt.variation, Duration::from_micros(57_500));
        rtt.on_sample(Timestamp::ZERO, 105 * MS, 10 * MS);
        assert_eq!(rtt.latest(), Some(105 * MS), "a delay that would push below the minimum is ignored");
        assert_eq!(rtt.min(), Some(100 * MS));
    }

    #[test]
    fn the_minimum_expires() {
        let mut rtt = Rtt::default();
        rtt.on_sample(Timestamp::ZERO, 10 * MS, Duration::ZERO);
        rtt.on_sample(Timestamp::ZERO + 9_000 * MS, 50 * MS, Duration::ZERO);
        assert_eq!(rtt.min(), Some(10 * MS));
        rtt.on_sample(Timestamp::ZERO + 14_500 * MS, 50 * MS, Duration::ZERO);
        assert_eq!((rtt.min(), rtt.min_ever()), (Some(50 * MS), Some(10 * MS)));
    }
}
