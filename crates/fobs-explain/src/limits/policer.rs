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
        let policed = rate(facts.policed_bps());
        let at_first = if facts.policed_bps() * facts.payload() < facts.goodput_bps * BELOW_POLICER {
            ", and let more pass at first"
        } else {
            ""
        };
        format!("a policer in the network was the limit: it drops what exceeds {policed}{at_first}")
    },
    evidence: |facts, _| path_evidence(facts),
    fix: |facts| {
        let below = facts.policed_bps() * BELOW_POLICER;
        let keeps = if facts.is_of_another() {
            format!("a limit of {} (rsync --bwlimit, scp -l)", rate(below))
        } else {
            format!("--rate {}", word(below))
        };
        format!(
            "ask the network's operator for a higher rate; until then {keeps} keeps packets from being dropped"
        )
    },
    // What it drops is sent twice: below its rate, all of it is data.
    prediction: |facts, _| Some(facts.ceiling().all()),
};
