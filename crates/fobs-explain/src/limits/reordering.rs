//! The path delivers packets out of order.

use super::facts::paced;
use super::{Place, Row};
use crate::kind::PathKind;
use fobs_model::words::percent;

pub(super) const ROW: Row = Row {
    stages: |facts| paced(facts, PathKind::Reordering),
    place: Place::Network,
    phrase: |facts| {
        format!(
            "reordering was the limit: the path delivers packets up to {:.1} ms behind later ones",
            facts.path.signs.behind_ms
        )
    },
    evidence: |facts, sender| {
        let signs = &facts.path.signs;
        vec![
            format!("{} of the packets came behind later ones", percent(signs.reordered)),
            format!(
                "{} packets that had been declared lost arrived after all, and {} did not",
                sender.packets_late, sender.packets_lost
            ),
        ]
    },
    fix: |_| {
        "have the network's operator keep a flow on one path, or look for the radio link that delays packets"
            .to_owned()
    },
    prediction: |facts, _| Some(facts.best_bps()),
};
