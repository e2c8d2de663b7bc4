//! The clock everything is paced and measured by.

use std::num::NonZeroU64;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`: since some moment before the process began, never going back. One vDSO
/// call, no system call.
pub fn monotonic_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds of `CLOCK_REALTIME` since 1970. Only for turning kernel stamps into [`monotonic_ns`].
pub(crate) fn realtime_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::Realtime))
}

/// Lets the kernel delay sleeps of the calling thread by at most this many nanoseconds (`PR_SET_TIMERSLACK`;
/// Linux starts threads with 50,000). Zero asks for the least there is, one nanosecond. A hint: where the
/// kernel refuses, sleeps are merely less exact.
pub fn set_timer_slack_ns(slack_ns: u64) {
    // For prctl zero would mean "back to the default".
    let slack = NonZeroU64::new(slack_ns).unwrap_or(NonZeroU64::MIN);
    let _ = rustix::thread::set_current_timer_slack(Some(slack));
}

fn timespec_ns(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_goes_back() {
        let mut last = monotonic_ns();
        for _ in 0..10_000 {
            let now = monotonic_ns();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
        assert!(last > 0);
    }

    #[test]
    fn timer_slack_is_of_the_thread() {
        let outside = rustix::thread::current_timer_slack().unwrap();
        std::thread::spawn(|| {
            set_timer_slack_ns(1234);
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1234);
            set_timer_slack_ns(0);
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
        })
        .join()
        .unwrap();
        assert_eq!(rustix::thread::current_timer_slack().unwrap(), outside);
    }
}
