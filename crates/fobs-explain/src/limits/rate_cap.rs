//! The user's `--rate`.

use super::facts::unknown;
use super::{Place, Row, Stage};
use fobs_model::words::rate;

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::RateCap],
    place: Place::Ends,
    phrase: |facts| {
        let cap_bps = facts.sender().map_or(0, |s| s.cap_bps);
        format!("the rate that --rate sets, {}, was the limit", rate(cap_bps as f64))
    },
    evidence: |_, sender| {
        vec![format!("the pacer waited at the cap; {} packets were lost", sender.packets_lost)]
    },
    fix: |_| "raise --rate or leave it out; how much more the path carries was not tried".to_owned(),
    prediction: unknown,
};
