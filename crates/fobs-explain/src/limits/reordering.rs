//! The path delivers packets out of order.

use super::facts::paced;
use super::{Place, Row};
use crate::figures::share;
use crate::kind::PathKind;
use fobs_model::words::{percent, rate};

/// Share of the packets sent again for nothing from which on it is said.
const FELT: f64 = 0.001;

pub(super) const ROW: Row = Row {
    stages: |facts| paced(facts, PathKind::Reordering),
    place: Place::Network,
    phrase: |facts| {
        let signs = &facts.path.signs;
        let (late, sent) = facts.sender().map_or((0, 0), |s| (s.packets_late, s.packets_sent));
        let cost = match share(late, sent) {
            again if again >= FELT => format!(", and {} were sent again for nothing", percent(again)),
            _ => String::new(),
        };
        format!(
            "reordering was the limit: {} of the packets come up to {:.1} ms behind later ones{cost}",
            percent(signs.reordered),
            signs.behind_ms
        )
    },
    evidence: |facts, sender| {
        vec![
            format!(
                "{} packets that had been declared lost arrived after all, and {} did not",
                sender.packets_late, sender.packets_lost
            ),
            format!(
                "the best of it carried {}, and all of it {}",
                rate(facts.best_bps()),
                rate(facts.goodput_bps)
            ),
        ]
    },
    fix: |_| {
        "have the network's operator keep a flow on one path, or look for the radio link that delays packets"
            .to_owned()
    },
    prediction: |facts, _| Some(facts.best_bps()),
};
