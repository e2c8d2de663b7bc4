//! Only streams carried data, and the receiver's windows were the limit.

use super::facts::{StreamBrake, stream_evidence, streamed, unknown};
use super::{Place, Row};

pub(super) const ROW: Row = Row {
    stages: |facts| streamed(facts, StreamBrake::PeerWindow),
    // What the path carries beyond that nobody has tried.
    place: Place::Network,
    phrase: |_| "the receiver's windows of the TCP streams were the limit".to_owned(),
    evidence: |_, sender| stream_evidence(sender),
    fix: |facts| {
        let streams = facts.advice("more streams (--transport tcp:N)", "several copies at once");
        format!(
            "larger windows: as root on the receiver, sysctl -w net.ipv4.tcp_rmem='4096 131072 67108864'; or {streams}"
        )
    },
    prediction: unknown,
};
