//! Other flows at the path's bottleneck.

use super::facts::{paced, path_evidence};
use super::{Place, Row};
use crate::kind::PathKind;
use fobs_model::words::{percent, rate};

/// Best rate as a multiple of the mean one from which on it says how many flows share the bottleneck.
const FLOWS_SHOWN: f64 = 1.5;

/// How many equal flows would leave the mean rate of the best one, by rates over enough packets.
fn equal_flows(room: f64) -> Option<f64> {
    (room.is_finite() && room >= FLOWS_SHOWN).then(|| room.round())
}

pub(super) const ROW: Row = Row {
    stages: |facts| paced(facts, PathKind::Competing),
    place: Place::Network,
    phrase: |facts| {
        let left = rate(facts.carried_bps(&facts.path));
        let beside = match equal_flows(facts.path.signs.room) {
            Some(flows) => format!(", as one of about {flows:.0} equal flows would have"),
            None => String::new(),
        };
        format!("other traffic on the path was the limit: it left {left} to this copy{beside}")
    },
    evidence: |facts, _| {
        let signs = &facts.path.signs;
        let mut found = path_evidence(facts);
        found.push(format!(
            "while a queue stood the delivery rate varied by {} of its median, and the queue moved by {:.0} ms a \
             second without this copy's packets, which a queue of its own does not do",
            percent(signs.unsteady),
            1e3 * signs.drift
        ));
        if signs.competed > 0.0 {
            let time = percent(signs.competed);
            found.push(format!("the queue did not empty when this copy sent less, for {time} of the time"));
        }
        found
    },
    fix: |_| {
        "copy when the others are quiet, or see who else uses the path; --priority takes a larger share"
            .to_owned()
    },
    prediction: |facts, _| Some(facts.best_bps()),
};
