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
            "packet loss was the limit: the network loses {} at any rate, and {} slows down for it",
            percent(facts.path.loss),
            if facts.is_of_another() {
                "TCP".to_owned()
            } else {
                format!("the congestion control ({})", facts.controller_name())
            }
        )
    },
    evidence: |facts, _| path_evidence(facts),
    fix: |facts| {
        match facts.controller {
        _ if facts.is_of_another() => "look for the faulty line or radio link on the path; until then a \
                                       program that does not take such loss for congestion (fobs, or TCP with BBR)"
            .to_owned(),
        Some(CongestionControl::Auto) => "look for the faulty line or radio link on the path".to_owned(),
        _ => "--cc auto, which does not take such loss for congestion".to_owned(),
    }
    },
    // The controller kept it below what the path carries, so that was never tried.
    prediction: unknown,
};
