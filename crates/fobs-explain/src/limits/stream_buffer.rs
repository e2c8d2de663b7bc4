//! Only streams carried data, and their send buffers were the limit.

use super::facts::{StreamBrake, stream_evidence, streamed, unknown};
use super::{Place, Row};

pub(super) const ROW: Row = Row {
    stages: |facts| streamed(facts, StreamBrake::SendBuffer),
    // What the path carries beyond that nobody has tried.
    place: Place::Network,
    phrase: |_| "the send buffers of the TCP streams were the limit".to_owned(),
    evidence: |_, sender| stream_evidence(sender),
    fix: |facts| {
        let streams = facts.advice("more streams (--transport tcp:N)", "several copies at once");
        format!(
            "larger send buffers: as root on the sender, sysctl -w net.ipv4.tcp_wmem='4096 16384 67108864'; or {streams}"
        )
    },
    prediction: unknown,
};
