//! A rate at a time.

use serde::{Deserialize, Serialize};

/// What an attempt moved at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RatePoint {
    /// Time since the attempt began, ms.
    pub at_ms: u64,
    /// Bits per second.
    pub bps: u64,
}
