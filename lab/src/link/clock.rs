//! Time of the emulator, in nanoseconds since its start, and transmission times at a rate.

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};

use crate::units::Rate;

/// A moment (since the emulator's start) or a duration, nanoseconds: 64 bits are 584 years.
pub type Nanos = u64;

/// The kernel's monotonic clock, counted from the creation of this value.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Nanos,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { start: absolute() }
    }

    pub fn now(self) -> Nanos {
        absolute().saturating_sub(self.start)
    }

    /// Sleeps until `moment`; returns at once if it has passed.
    pub fn sleep_until(self, moment: Nanos) {
        let moment = timespec(self.start.saturating_add(moment));
        // Interrupted by a signal, it continues to sleep: another thread handles signals.
        while clock_nanosleep_absolute(ClockId::Monotonic, &moment) == Err(rustix::io::Errno::INTR) {}
    }
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Nanos {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

pub fn timespec(span: Nanos) -> Timespec {
    Timespec { tv_sec: (span / 1_000_000_000) as i64, tv_nsec: (span % 1_000_000_000) as i64 }
}

fn absolute() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

fn nanos(time: Timespec) -> Nanos {
    // Both clocks are never negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Transmission times at a rate, without drift: each rounding remainder is added to the next time.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    bits_per_second: u64,
    remainder: u64,
}

impl Pace {
    pub fn new(rate: Rate) -> Pace {
        Pace { bits_per_second: rate.bits_per_second(), remainder: 0 }
    }

    /// Transmission time of `bytes`.
    pub fn take(&mut self, bytes: u32) -> Nanos {
        // At most 2^32 x 8 x 10^9 + 10^12, which exceeds 64 bits.
        let amount = u128::from(bytes) * 8_000_000_000 + u128::from(self.remainder);
        let rate = u128::from(self.bits_per_second);
        self.remainder = (amount % rate) as u64;
        (amount / rate) as u64
    }

    pub fn bits_per_second(&self) -> u64 {
        self.bits_per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmission_times_do_not_drift() {
        let mut pace = Pace::new("7Mbit".parse().expect("rate"));
        let total: u64 = (0..7000).map(|_| pace.take(1500)).sum();
        assert_eq!(total, 1500 * 8 * 1_000_000_000 / 1000);
        let mut slow = Pace::new("1bit".parse().expect("rate"));
        assert_eq!(slow.take(65_535), 65_535 * 8 * 1_000_000_000);
    }
}
