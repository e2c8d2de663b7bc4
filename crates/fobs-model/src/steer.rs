//! What a user wants of a transfer that runs, as it travels.

use fobs_proto::congestion::Priority;
use serde::{Deserialize, Serialize};

/// What is wanted of a running transfer beside what it was started with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wanted {
    /// The highest rate, bits per second; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bps: Option<u64>,
    /// How `auto` shares the path; names that are unknown change nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// Nothing is sent for now.
    pub paused: bool,
}

impl Wanted {
    /// The priority, if it is one that this program knows.
    pub fn known_priority(&self) -> Option<Priority> {
        self.priority.as_deref()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_may_want_what_this_program_does_not_know() {
        let wanted: Wanted = serde_json::from_str(r#"{"priority": "sleepy", "limit_bps": 7, "colour": 1}"#)
            .expect("an object");
        assert_eq!((wanted.known_priority(), wanted.limit_bps, wanted.paused), (None, Some(7), false));
        let known = Wanted { priority: Some("scavenger".to_owned()), ..Wanted::default() };
        assert_eq!(known.known_priority(), Some(Priority::Scavenger));
    }
}
