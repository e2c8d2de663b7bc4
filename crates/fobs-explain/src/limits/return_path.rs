//! The way back delays or loses the acks, and the last answers behind them.

use super::facts::unknown;
use super::{Place, Row, Stage};
use crate::kind::PathKind;
use fobs_model::words::percent;

/// Share of the acks that counts as none lost.
const LOST_FELT: f64 = 0.01;

pub(super) const ROW: Row = Row {
    stages: |facts| match facts.path.kind {
        PathKind::ReturnPath => &[Stage::Pacing, Stage::CongestionWindow, Stage::LateAnswers],
        _ => &[Stage::LateAnswers],
    },
    place: Place::Network,
    phrase: |_| "the way back was the limit: acks were late or lost on it".to_owned(),
    evidence: |facts, sender| {
        let signs = &facts.path.signs;
        let seconds = (sender.time_us as f64 / 1e6).max(1e-3);
        let asked = facts.receiver().map_or(0, |r| r.acks) as f64 / seconds;
        let came = sender.acks as f64 / seconds;
        // The receiver's last count is older than the sender's.
        let acks = if signs.acks_lost < LOST_FELT || asked <= came {
            format!("{came:.0} acks a second came, and none were lost")
        } else {
            let lost = percent(signs.acks_lost);
            format!("{lost} of the acks were lost: {came:.0} a second came of {asked:.0} that were sent")
        };
        vec![
            acks,
            format!("{} of the growth of the round trip arose on the way back", percent(signs.way_back)),
        ]
    },
    fix: |_| {
        "free the way from the receiver to the sender: end what else is sent that way, or have its rate raised".to_owned()
    },
    prediction: unknown,
};
