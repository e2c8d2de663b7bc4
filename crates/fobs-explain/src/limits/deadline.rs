//! The user's `--deadline`: no higher rate was needed.

use super::facts::unknown;
use super::{Place, Row, Stage};

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::Deadline],
    place: Place::Ends,
    phrase: |_| "the rate was no higher than --deadline needed".to_owned(),
    evidence: |_, sender| {
        vec![format!(
            "the pacer waited at the rate that the deadline needed; {} packets were lost",
            sender.packets_lost
        )]
    },
    fix: |_| "an earlier --deadline, or none".to_owned(),
    prediction: unknown,
};
