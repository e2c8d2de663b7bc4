//! The path's bottleneck: its queue stands, so its rate was reached.

use super::facts::{paced, path_evidence, unknown};
use super::{Place, Row};
use crate::kind::PathKind;
use fobs_model::words::rate;

pub(super) const ROW: Row = Row {
    stages: |facts| paced(facts, PathKind::Narrow),
    place: Place::Network,
    phrase: |facts| {
        let carried = rate(facts.carried_bps(&facts.path));
        if facts.shows_its_rate() {
            format!("the network was the limit: the path carries {carried} for this copy")
        } else {
            format!("the network was the limit: at least {carried} was delivered")
        }
    },
    evidence: |facts, _| path_evidence(facts),
    fix: |facts| {
        facts.advice(
            "nothing at the two ends, except -C if the content compresses; if the link has more, see what else uses it",
            "nothing at the two ends, except compression (rsync -z, scp -C) if the content compresses; if the link has \
             more, see what else uses it",
        )
    },
    prediction: unknown,
};
