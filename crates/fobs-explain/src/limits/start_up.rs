//! Ramp-up, or a controller that keeps its rate although the path shows neither queue nor loss.

use super::facts::{paced, path_evidence, unknown};
use super::{Place, Row};
use crate::kind::PathKind;

pub(super) const ROW: Row = Row {
    stages: |facts| paced(facts, PathKind::Untried),
    place: Place::Network,
    phrase: |_| {
        "the congestion control was the limit: it kept its rate although the path showed no bottleneck"
            .to_owned()
    },
    evidence: |facts, _| path_evidence(facts),
    fix: |_| "copy more at once: the rate was still ramping up".to_owned(),
    prediction: unknown,
};
