//! The papers' algorithm (`seeds/000` section 3.1): no congestion control at all. Between bursts of two
//! packets the sender processes acks but never waits; only the completion signal stops it. Pair it with the
//! circular schedule.

use super::{Controller, RateSource};
use crate::Rate;

/// No limit of any kind.
#[derive(Debug, Default)]
pub struct Greedy;

impl Greedy {
    /// Packets per burst, between which acks are processed: the best the papers found (`seeds/000` section
    /// 3.1.1).
    pub const BURST: u32 = 2;

    /// A greedy controller.
    pub fn new() -> Greedy {
        Greedy
    }
}

impl Controller for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn congestion_window(&self) -> u64 {
        u64::MAX
    }

    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    fn rate_source(&self) -> RateSource {
        RateSource::Host
    }

    fn state(&self) -> &'static str {
        "greedy"
    }
}
