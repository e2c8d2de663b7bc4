//! The clock for all pacing and measurement.

use std::num::NonZeroU64;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Time of `CLOCK_MONOTONIC`, nanoseconds since an unspecified moment before the process began; never
/// decreases. A vDSO call, not a system call.
pub fn monotonic_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::Monotonic))
}

/// Time of `CLOCK_REALTIME`, nanoseconds since 1970. Only for converting kernel timestamps to
/// [`monotonic_ns`].
pub(crate) fn realtime_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::Realtime))
}

/// Sets the timer slack of the calling thread, nanoseconds: how late the kernel may end its sleeps
/// (`PR_SET_TIMERSLACK`; the default of Linux is 50,000). 0 sets the minimum of 1. If the kernel refuses,
/// sleeps stay less exact; no error is returned.
pub fn set_timer_slack_ns(slack_ns: u64) {
    // 0 would reset the slack to the default (prctl(2)).
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
    fn monotonic_time_never_decreases() {
        let mut last = monotonic_ns();
        for _ in 0..10_000 {
            let now = monotonic_ns();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
        assert!(last > 0);
    }

    #[test]
    fn timer_slack_is_per_thread() {
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
