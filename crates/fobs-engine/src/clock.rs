//! The engine's clock: the only place that reads the time.

use fobs_proto::Timestamp;
use fobs_sys::monotonic_ns;

/// Monotonic time since the session began.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch_ns: u64,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Clock {
        Clock { epoch_ns: monotonic_ns() }
    }

    pub(crate) fn now(self) -> Timestamp {
        self.at(monotonic_ns())
    }

    /// A moment of the system's monotonic clock, ns.
    pub(crate) fn at(self, monotonic_ns: u64) -> Timestamp {
        Timestamp::from_nanos(monotonic_ns.saturating_sub(self.epoch_ns))
    }
}
