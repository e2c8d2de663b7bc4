//! Ramp-up, or a controller that keeps its rate although the path shows neither queue nor loss.

use super::facts::{paced, path_evidence, unknown};
use super::{Place, Row};
use crate::explain::path::PathKind;

pub(super) const ROW: Row = Row {
    waits: &[],
    stages: |facts| paced(facts, PathKind::Untried),
    place: Place::Network,
    phrase: |_| {
        "the congestion control kept to its own rate, without a sign that the path has no more".to_owned()
    },
    evidence: |facts, _| path_evidence(facts),
    fix: |_| "copy more at once: the rate was still being looked for".to_owned(),
    prediction: unknown,
};
