//! When the next burst may leave.

mod shared;

pub use shared::{LimitShare, SharedLimit};

use crate::{Rate, Timestamp};
use std::time::Duration;

/// How far behind its schedule a sender may be and still catch up, by sending faster. A stalled thread would
/// otherwise send a long burst: 4 ms off the CPU at 1 Gbit/s are 500 kB. Measured sleeps overrun by up to 2.6
/// ms in 0.1% of cases.
const CATCH_UP_MAX: Duration = Duration::from_millis(2);
/// Length of a burst on the wire: longer bursts hurt shallow queues (at 1 Gbit/s this is 31 kB, half of the
/// smallest switch's buffer for a port), shorter ones cost system calls and wake-ups, which are 0.1 ms late.
const QUANTUM: Duration = Duration::from_micros(250);

/// Departure times from a rate. Never switches itself off: without a rate there is no pacer.
#[derive(Debug, Clone)]
pub struct Pacer {
    next_departure: Timestamp,
    /// The first time that nothing could leave, as after a first flight.
    first_wait: FirstWait,
}

/// What follows the first flight leaves at another rate, which the wait for it says nothing of: that is not
/// made up for, or a queue that is shorter than the burst would overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstWait {
    Ahead,
    Now,
    Over,
}

impl Pacer {
    /// A pacer whose first burst may leave at once.
    pub fn new(now: Timestamp) -> Pacer {
        Pacer { next_departure: now, first_wait: FirstWait::Ahead }
    }

    /// When the next burst may leave.
    pub fn next_departure(&self) -> Timestamp {
        self.next_departure
    }

    /// The next burst may leave by now: what it waited for was another rate.
    pub fn restart(&mut self, now: Timestamp) {
        self.next_departure = self.next_departure.min(now);
    }

    /// A burst was due, and there was nothing that could leave.
    pub fn on_idle(&mut self) {
        if self.first_wait == FirstWait::Ahead {
            self.first_wait = FirstWait::Now;
        }
    }

    /// Accounts for `bytes` sent at `now`.
    pub fn on_sent(&mut self, now: Timestamp, bytes: u64, rate: Rate) {
        let mut most = CATCH_UP_MAX;
        if self.first_wait == FirstWait::Now {
            (self.first_wait, most) = (FirstWait::Over, QUANTUM);
        }
        let from = self.next_departure.max(now.saturating_sub(most));
        self.next_departure = from + rate.time_for(bytes);
    }

    /// Bytes after which a burst at `rate` ends; the packet that reaches them is its last.
    pub fn quantum(rate: Rate) -> u64 {
        rate.bytes_in(QUANTUM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_held_over_any_pattern_of_polls() {
        let rate = Rate::bits_per_second(100_000_000);
        let mut pacer = Pacer::new(Timestamp::ZERO);
        let (mut now, mut sent) = (Timestamp::ZERO, 0u64);
        let end = Timestamp::from_nanos(1_000_000_000);
        while now < end {
            while pacer.next_departure() <= now {
                pacer.on_sent(now, 1472, rate);
                sent += 1472;
            }
            now = now + Duration::from_micros(137);
        }
        let due = rate.as_bytes();
        assert!(sent >= due - 5_000 && sent <= due + 30_000, "{sent} of {due}");
    }

    #[test]
    fn a_stall_is_not_made_up_beyond_the_cap() {
        let rate = Rate::bits_per_second(1_000_000_000);
        let mut pacer = Pacer::new(Timestamp::ZERO);
        let now = Timestamp::from_nanos(50_000_000);
        let mut burst = 0u64;
        while pacer.next_departure() <= now {
            pacer.on_sent(now, 1472, rate);
            burst += 1472;
        }
        assert!(burst <= rate.bytes_in(CATCH_UP_MAX) + 2 * 1472, "{burst} bytes at once after a stall");
    }

    #[test]
    fn the_wait_after_a_first_flight_is_not_made_up_for() {
        let rate = Rate::bits_per_second(1_000_000_000);
        let mut pacer = Pacer::new(Timestamp::ZERO);
        pacer.on_sent(Timestamp::ZERO, 1472, rate);
        pacer.on_idle();
        let now = Timestamp::from_nanos(50_000_000);
        let mut burst = 0u64;
        while pacer.next_departure() <= now {
            pacer.on_sent(now, 1472, rate);
            burst += 1472;
        }
        assert!(burst <= rate.bytes_in(QUANTUM) + 2 * 1472, "{burst} bytes at once after a wait");
    }
}
