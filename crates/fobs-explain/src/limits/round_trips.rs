//! Round trips before the first and after the last byte: most of the time of a short copy.

use super::facts::unknown;
use super::{Place, Row, Stage};

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::Control],
    place: Place::Ends,
    phrase: |_| "was spent on round trips before and after the data".to_owned(),
    evidence: |_, sender| vec![format!("a round trip takes {:.1} ms", sender.rtt_min_us as f64 / 1e3)],
    fix: |_| "copy more at once: one copy of many files instead of many copies".to_owned(),
    prediction: unknown,
};
