//! Packet loss that does not depend on the rate, and a controller that slows down for it.

use super::facts::{paced, path_evidence, unknown};
use super::{Place, Row};
use crate::kind::PathKind;
use fobs_model::options::CongestionControl;
use fobs_model::words::percent;

pub(super) const ROW: Row = Row {
    stages: |facts| paced(facts, PathKind::Lossy),
    place: Place::Network,
    phrase: |facts| {
        format!(
            "packet loss was the limit: the network loses {} at any rate, and the congestion control ({}) slows \
             down for it",
            percent(facts.path.loss),
            facts.controller_name()
        )
    },
    evidence: |facts, _| path_evidence(facts),
    fix: |facts| match facts.controller {
        Some(CongestionControl::Auto) => "look for the faulty line or radio link on the path".to_owned(),
        _ => "--cc auto, which does not take such loss for congestion".to_owned(),
    },
    // The controller kept it below what the path carries, so that was never tried.
    prediction: unknown,
};
