//! A program of another make receives, and nothing at this end holds it up.

use super::facts::unknown;
use super::{Place, Row, Stage};
use crate::figures::seconds;

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::Unseen],
    place: Place::Network,
    phrase: |_| {
        "this end waited for data: the path or the sender was the limit, which cannot be told apart from here"
            .to_owned()
    },
    evidence: |_, sender| {
        vec![format!(
            "for {:.2} s data was read as it came, no thread was busy, and none was blocked in a disk",
            seconds(sender.unseen_us)
        )]
    },
    fix: |_| "watch the program at the other end: fobs explain --pid there".to_owned(),
    prediction: unknown,
};
