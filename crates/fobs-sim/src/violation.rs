//! A breach of a rule, as it ends a run.

use crate::time::{Nanos, seconds};
use std::fmt;

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Nanos,
    /// Which rule.
    pub rule: &'static str,
    /// What was seen instead.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:.6} s: {} ({})", seconds(self.at), self.rule, self.detail)
    }
}

impl std::error::Error for Violation {}
