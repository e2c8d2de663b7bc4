//! The path's bottleneck: its queue stands, so its rate was reached.

use super::facts::{paced, path_evidence, unknown};
use super::{Place, Row};
use crate::explain::path::PathKind;
use crate::explain::words::rate;

pub(super) const ROW: Row = Row {
    waits: &[],
    stages: |facts| paced(facts, PathKind::Narrow),
    place: Place::Network,
    phrase: |facts| {
        let carried_bps = facts.path.typical_bps * facts.payload();
        format!("the network was the limit: the path carries {}", rate(carried_bps))
    },
    evidence: |facts, _| path_evidence(facts),
    fix: |_| "nothing at the two ends, except -C if the content compresses".to_owned(),
    prediction: unknown,
};
