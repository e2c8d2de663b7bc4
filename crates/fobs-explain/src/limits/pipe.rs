//! Data went through the pipes of another program, and they were full: a copy within one host, or through
//! what `-e` names.

use super::facts::{StreamBrake, streamed, unknown};
use super::{Place, Row};
use fobs_model::words::rate;

pub(super) const ROW: Row = Row {
    stages: |facts| streamed(facts, StreamBrake::Pipe),
    place: Place::Ends,
    phrase: |_| "the pipe to the program at the other end was the limit: it was full".to_owned(),
    evidence: |facts, _| vec![format!("the pipe carried {}", rate(facts.channel_bps()))],
    fix: |_| {
        "give the program at the other end more CPU, or a faster destination; through a container or another \
         host, a copy over UDP or TCP ports, which uses no pipe"
            .to_owned()
    },
    prediction: unknown,
};
