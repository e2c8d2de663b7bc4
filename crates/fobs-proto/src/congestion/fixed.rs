//! A constant rate, whatever happens: for reserved paths and for experiments.

use super::{AckSample, Controller, RateSource};
use crate::Rate;
use std::time::Duration;

/// Bytes in flight allowed beyond four round trips, as time at the rate: enough to outlast an outage, and a
/// bound on what floods a dead path.
const SLACK: Duration = Duration::from_secs(1);

/// The controller of `--cc fixed --rate R`.
#[derive(Debug)]
pub struct Fixed {
    rate: Rate,
    window: u64,
}

impl Fixed {
    /// Sends at `rate`, in datagram bytes per second, at least 10 kB/s.
    pub fn new(rate: Rate) -> Fixed {
        let rate = rate.max(Rate::bytes_per_second(10_000));
        Fixed { rate, window: rate.bytes_in(2 * SLACK) }
    }
}

impl Controller for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.window = self.rate.bytes_in(4 * ack.latest_rtt + SLACK);
    }

    fn congestion_window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn rate_source(&self) -> RateSource {
        RateSource::User
    }

    fn state(&self) -> &'static str {
        "fixed"
    }
}
