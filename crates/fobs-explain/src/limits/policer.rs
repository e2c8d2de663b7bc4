//! A policer on the path: it drops what exceeds a rate, without a queue.

use super::facts::{paced, path_evidence};
use super::{Place, Row};
use crate::kind::PathKind;
use fobs_model::words::{rate, word};

/// How far below a policer's rate to stay: its bucket must refill after a burst.
const BELOW_POLICER: f64 = 0.97;

pub(super) const ROW: Row = Row {
    stages: |facts| paced(facts, PathKind::Policed),
    place: Place::Network,
    phrase: |facts| {
        let policed = rate(facts.carried_wire_bps());
        format!("a policer in the network was the limit: it drops what exceeds {policed}")
    },
    evidence: |facts, _| path_evidence(facts),
    fix: |facts| {
        format!(
            "ask the network's operator for a higher rate; until then --rate {} keeps packets from being \
             dropped",
            word(facts.carried_wire_bps() * BELOW_POLICER)
        )
    },
    // What it drops is sent twice: below its rate, all of it is data.
    prediction: |facts, _| Some(facts.carried_bps(&facts.path)),
};
