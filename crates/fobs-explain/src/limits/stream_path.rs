//! Only streams carried data, and their congestion windows were the limit.

use super::facts::{StreamBrake, stream_evidence, streamed, unknown};
use super::{Place, Row};

pub(super) const ROW: Row = Row {
    stages: |facts| streamed(facts, StreamBrake::Path),
    place: Place::Network,
    phrase: |_| "the congestion windows of the TCP streams were the limit".to_owned(),
    evidence: |_, sender| stream_evidence(sender),
    fix: |facts| {
        facts.advice(
            "UDP, where the firewalls between allow it (--transport auto uses it then), or more streams \
             (--transport tcp:N)",
            "several copies at once, or a program that uses UDP",
        )
    },
    prediction: unknown,
};
