//! Round trips before the first and after the last byte: most of the time of a short copy.

use super::facts::unknown;
use super::{Place, Row, Stage};

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::Control],
    place: Place::Ends,
    phrase: |facts| {
        facts.advice(
            "was spent on round trips before and after the data",
            "was spent on round trips: the program waited for answers to little data",
        )
    },
    evidence: |_, sender| vec![format!("a round trip takes {:.1} ms", sender.rtt_min_us as f64 / 1e3)],
    fix: |facts| {
        facts.advice(
            "copy more at once: one copy of many files instead of many copies",
            "copy more at once, with a program that does not wait for an answer to each file (tar through ssh, rsync)",
        )
    },
    prediction: unknown,
};
