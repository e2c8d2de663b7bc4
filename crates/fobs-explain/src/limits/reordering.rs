//! The path delivers packets out of order.

use super::facts::{paced, path_evidence};
use super::{Place, Row};
use crate::figures::share;
use crate::kind::PathKind;
use fobs_model::words::{percent, rate};

/// Share of the packets sent again for nothing from which on it is said.
const FELT: f64 = 0.001;
/// Best rate over that of the whole copy from which on the difference is said.
const GAIN_FELT: f64 = 1.02;

pub(super) const ROW: Row = Row {
    stages: |facts| paced(facts, PathKind::Reordering),
    place: Place::Network,
    phrase: |facts| {
        let signs = &facts.path.signs;
        let (late, sent) = facts.sender().map_or((0, 0), |s| (s.packets_late, s.packets_sent));
        let mut cost = match share(late, sent) {
            again if again >= FELT => format!(", {} were sent again for nothing", percent(again)),
            _ => String::new(),
        };
        let (had, best) = (facts.goodput_bps, facts.best_bps());
        if best > GAIN_FELT * had {
            cost += &format!(
                ", and the copy had {} of the {} that the path carried at its best",
                rate(had),
                rate(best)
            );
        }
        format!(
            "reordering was the limit: {} of the packets come up to {:.1} ms behind later ones{cost}",
            percent(signs.reordered),
            signs.behind_ms
        )
    },
    evidence: |facts, sender| {
        let mut found = vec![format!(
            "{} packets that had been declared lost arrived after all, and {} did not",
            sender.packets_late, sender.packets_lost
        )];
        found.extend(path_evidence(facts));
        found
    },
    fix: |_| {
        "have the network's operator keep a flow on one path, or look for the radio link that delays packets"
            .to_owned()
    },
    prediction: |facts, _| Some(facts.seen().all()),
};
