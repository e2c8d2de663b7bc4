//! What a test does in each confined thread as it starts.

use std::sync::OnceLock;

static DRILL: OnceLock<fn()> = OnceLock::new();

/// From now on each thread in a domain calls this as it starts.
pub fn set(drill: fn()) {
    DRILL.get_or_init(|| drill);
}

pub(super) fn at_start() {
    if let Some(drill) = DRILL.get() {
        drill();
    }
}
