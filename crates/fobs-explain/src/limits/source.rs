//! The source cannot deliver faster: the sender's disk, or the program at the other end of a stream.

use super::facts::time_for_data;
use super::{Place, Row, Stage};
use crate::figures::seconds;

/// What helps against a slow source.
pub const FASTER_SOURCE: &str = "read from a faster disk, or end what else uses it";

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::Reading],
    place: Place::Ends,
    phrase: |_| "the sender's source (its disk, or what writes into the stream) was the limit".to_owned(),
    evidence: |_, sender| {
        vec![format!(
            "the reading thread was blocked for {:.2} s and had the CPU for {:.2} s",
            seconds(sender.reader.blocked_us()),
            seconds(sender.reader.cpu.run_us)
        )]
    },
    fix: |_| FASTER_SOURCE.to_owned(),
    prediction: time_for_data,
};
