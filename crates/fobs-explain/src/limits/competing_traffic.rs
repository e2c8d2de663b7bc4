//! Other flows at the path's bottleneck.

use super::facts::{paced, path_evidence};
use super::{Facts, Place, Row};
use crate::kind::PathKind;
use fobs_model::words::{percent, rate};

/// Best rate as a multiple of the mean one from which on it says how many flows share the bottleneck.
const FLOWS_SHOWN: f64 = 1.5;

/// How many equal flows would leave what the sentence says of the best rate over enough packets.
fn equal_flows(facts: &Facts) -> Option<f64> {
    let path = &facts.path;
    let flows = path.signs.room * path.rates.mean() * facts.payload() / facts.carried_bps(path);
    (flows.is_finite() && flows >= FLOWS_SHOWN).then(|| flows.round())
}

/// Movement of the queue that is worth saying, milliseconds a second.
const MOVED_FELT_MS: f64 = 1.0;

pub(super) const ROW: Row = Row {
    stages: |facts| paced(facts, PathKind::Competing),
    place: Place::Network,
    phrase: |facts| {
        let left = rate(facts.carried_bps(&facts.path));
        let beside = match equal_flows(facts) {
            Some(flows) => format!(", as one of about {flows:.0} equal flows would have"),
            None => String::new(),
        };
        format!("other traffic on the path was the limit: it left {left} to this copy{beside}")
    },
    evidence: |facts, _| {
        let signs = &facts.path.signs;
        let mut found = path_evidence(facts);
        // After a step of the path the rate is not judged by its steadiness.
        let varied = match signs.unsteady {
            unsteady if unsteady > 0.0 => {
                format!("the delivery rate varied by {} of its median, and ", percent(unsteady))
            }
            _ => String::new(),
        };
        let moved_ms = 1e3 * signs.drift;
        if moved_ms >= MOVED_FELT_MS {
            found.push(format!(
                "while a queue stood {varied}the queue moved by {moved_ms:.0} ms a second without this copy's packets, \
                 which a queue of its own does not do"
            ));
        } else if !varied.is_empty() {
            found.push(format!("while a queue stood {}", varied.trim_end_matches(", and ")));
        }
        if signs.competed > 0.0 {
            let time = percent(signs.competed);
            found.push(format!("the queue did not empty when this copy sent less, for {time} of the time"));
        }
        found
    },
    fix: |facts| {
        facts.advice(
            "copy when the others are quiet, or see what else uses the path (a radio link that pauses looks the same); \
             --priority takes a larger share",
            "copy when the others are quiet, or see what else uses the path (a radio link that pauses looks the same)",
        )
    },
    prediction: |facts, _| Some(facts.seen().all()),
};
