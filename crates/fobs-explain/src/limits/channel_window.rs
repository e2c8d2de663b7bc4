//! Only the ssh channel carried data, and its window was the limit.

use super::facts::{StreamBrake, streamed, unknown};
use super::{Place, Row};
use fobs_model::words::rate;

pub(super) const ROW: Row = Row {
    stages: |facts| streamed(facts, StreamBrake::ChannelWindow),
    place: Place::Network,
    phrase: |_| "the window of the ssh channel was the limit: it lets 2 MiB a round trip pass".to_owned(),
    evidence: |facts, _| {
        vec![format!(
            "the channel carried {} over a round trip of {:.1} ms, and that is its window",
            rate(facts.channel_bps()),
            facts.channel_rtt_ms()
        )]
    },
    fix: |facts| {
        facts.advice(
            "UDP or TCP ports, where the firewalls between allow them (--transport auto uses them then)",
            "several copies at once, or a program that does not send its data through ssh",
        )
    },
    prediction: unknown,
};
