//! Quantities with a unit in their type.

use std::fmt;
use std::time::Duration;

/// A data rate, bytes per second (bits only at the command line's edge).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

const NANOS_PER_SECOND: u128 = 1_000_000_000;

impl Rate {
    /// No data at all.
    pub const ZERO: Rate = Rate(0);

    /// A rate of `n` bytes per second.
    pub const fn bytes_per_second(n: u64) -> Rate {
        Rate(n)
    }

    /// A rate of `n` bits per second, rounded down to bytes.
    pub const fn bits_per_second(n: u64) -> Rate {
        Rate(n / 8)
    }

    /// Bytes per second.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }

    /// The rate of `bytes` in `time`; `None` in no time.
    pub fn of(bytes: u64, time: Duration) -> Option<Rate> {
        let ns = time.as_nanos();
        (ns > 0).then(|| Rate(clamp(u128::from(bytes) * NANOS_PER_SECOND / ns)))
    }

    /// Bytes that flow in `time`.
    pub fn bytes_in(self, time: Duration) -> u64 {
        clamp(u128::from(self.0).saturating_mul(time.as_nanos()) / NANOS_PER_SECOND)
    }

    /// Time that `bytes` take; an hour if nothing flows.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::from_secs(3600);
        }
        Duration::from_nanos(clamp(u128::from(bytes) * NANOS_PER_SECOND / u128::from(self.0)))
    }

    /// This rate times a factor >= 0.
    pub fn scaled(self, factor: f64) -> Rate {
        Rate((self.0 as f64 * factor) as u64)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Mbit/s", self.0 as f64 * 8.0 / 1e6)
    }
}

fn clamp(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_convert_without_overflow() {
        let gigabit = Rate::bits_per_second(1_000_000_000);
        assert_eq!(gigabit.as_bytes(), 125_000_000);
        assert_eq!(gigabit.bytes_in(Duration::from_millis(65)), 8_125_000);
        assert_eq!(gigabit.time_for(1_250), Duration::from_micros(10));
        assert_eq!(Rate::of(8_125_000, Duration::from_millis(65)), Some(gigabit));
        assert_eq!(Rate::of(1, Duration::ZERO), None);
        let huge = Rate::bytes_per_second(u64::MAX);
        assert_eq!(huge.bytes_in(Duration::from_secs(10)), u64::MAX);
        assert_eq!(Rate::ZERO.time_for(1), Duration::from_secs(3600));
    }
}
