//! The engine's clock: the only place that reads the time.

use fobs_proto::Timestamp;
use fobs_sys::confine::{Errand, outside};
use fobs_sys::{Usage, monotonic_ns, process_usage};

/// Monotonic time since the session began, and what CPU time the process has taken since.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch_ns: u64,
    /// CPU time of the process by then, seconds.
    cpu_before: f64,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Clock {
        Clock { epoch_ns: monotonic_ns(), cpu_before: measured().cpu_seconds }
    }

    pub(crate) fn now(self) -> Timestamp {
        self.at(monotonic_ns())
    }

    /// A moment of the system's monotonic clock, ns.
    pub(crate) fn at(self, monotonic_ns: u64) -> Timestamp {
        Timestamp::from_nanos(monotonic_ns.saturating_sub(self.epoch_ns))
    }

    /// Seconds since it began.
    pub fn seconds(self) -> f64 {
        self.now().saturating_since(Timestamp::ZERO).as_secs_f64()
    }

    /// CPU time of this process since this clock began, what other sessions of it took meanwhile with it, and
    /// the peak of its memory.
    pub fn usage(self) -> Usage {
        let usage = measured();
        Usage { cpu_seconds: (usage.cpu_seconds - self.cpu_before).max(0.0), ..usage }
    }
}

fn measured() -> Usage {
    outside(Errand::Counters, process_usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_did_before_a_session_is_not_the_session_s() {
        let begin = Clock::start();
        while begin.usage().cpu_seconds < 0.2 {
            std::hint::black_box([0_u8; 64]);
        }
        let later = Clock::start();
        let (all, since) = (begin.usage(), later.usage());
        assert!(since.cpu_seconds < all.cpu_seconds - 0.1, "{since:?} of {all:?}");
        assert!(since.max_rss_bytes > 0);
    }
}
