//! Bounds that all rate-based controllers share.

use crate::Rate;
use std::time::Duration;

/// Never slower: a few packets a second keep the feedback alive.
pub(super) const RATE_MIN: Rate = Rate::bytes_per_second(10_000);
/// Never faster: far above any host, far below any overflow.
pub(super) const RATE_MAX: Rate = Rate::bits_per_second(400_000_000_000);
/// Bytes in flight allowed beyond two round trips, as time at the rate: a queue of a quarter second, and a
/// bound on what floods a dead path.
const SLACK: Duration = Duration::from_millis(250);

/// The rate within its bounds; not-a-number becomes the least.
pub(super) fn bounded(bytes_per_second: f64) -> Rate {
    Rate::bytes_per_second(bytes_per_second as u64).max(RATE_MIN).min(RATE_MAX)
}

/// The window of a rate-based controller: bounds what is sent without feedback.
pub(super) fn safety_window(rate: Rate, min_rtt: Duration) -> u64 {
    // At least four of the largest packets.
    rate.bytes_in(min_rtt.saturating_mul(2).saturating_add(SLACK)).max(36_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_figure_leaves_the_bounds() {
        for figure in [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0, 1e9, f64::INFINITY] {
            assert!((RATE_MIN..=RATE_MAX).contains(&bounded(figure)), "{figure}");
        }
        assert_eq!(safety_window(RATE_MIN, Duration::MAX) as u128 >> 64, 0);
    }
}
