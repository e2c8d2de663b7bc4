//! The rate that a daemon gives its client.

use super::facts::unknown;
use super::{Place, Row, Stage};
use crate::figures::seconds;

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::RemoteLimit],
    place: Place::Ends,
    phrase: |facts| {
        let cap = facts.cap_in_words(facts.sender().map_or(0, |s| s.cap_far_bps));
        format!("the far end's limit on this client's rate{cap} was the limit")
    },
    evidence: |facts, sender| {
        let throttled = sender.reader.throttled_us.max(facts.receiver().map_or(0, |r| r.writer.throttled_us));
        vec![format!(
            "the far end's daemon gives its clients a rate, and chunks waited {:.2} s for it; {} packets were lost",
            seconds(throttled),
            sender.packets_lost
        )]
    },
    fix: |_| {
        "ask who runs the daemon to raise the key's rate, or copy when its other clients are quiet".to_owned()
    },
    prediction: unknown,
};
