//! The path became worse in the middle of the transfer.

use super::facts::{paced, path_evidence};
use super::{Place, Row};
use crate::kind::PathKind;
use fobs_model::words::rate;

pub(super) const ROW: Row = Row {
    stages: |facts| paced(facts, PathKind::Changed),
    place: Place::Network,
    phrase: |facts| {
        let now = rate(facts.carried_bps(&facts.path));
        match &facts.before {
            Some(before) => format!(
                "the path was the limit, because it changed at {:.1} s: {} with a round trip of {:.1} ms before, {now} \
                 with {:.1} ms since",
                facts.from_s,
                rate(facts.carried_bps(before)),
                before.base_ms,
                facts.path.base_ms
            ),
            None => format!("the path was the limit, because it changed: it carried {now} since"),
        }
    },
    evidence: |facts, _| path_evidence(facts),
    fix: |_| {
        "ask the network's operator what changed at that time (a route, a backup line, a shaper)".to_owned()
    },
    prediction: |facts, _| facts.before.as_ref().map(|_| facts.seen().all()),
};
