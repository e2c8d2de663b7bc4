//! A rate at a time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an attempt moved at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RatePoint {
    /// Time since the attempt began, ms.
    pub at_ms: u64,
    /// Bits per second.
    pub bps: u64,
}
