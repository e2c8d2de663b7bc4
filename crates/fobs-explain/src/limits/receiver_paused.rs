//! The receiving process, or its whole host, stood still.

use super::facts::time_for_data;
use super::{Place, Row, Stage};
use crate::figures::{seconds, share};
use fobs_model::words::percent;

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::ReceiverPaused],
    place: Place::Ends,
    phrase: |_| "the receiver stood still: it was the limit".to_owned(),
    evidence: |facts, _| {
        let stood = facts.receiver().map(|r| {
            format!(
                "the receiving thread neither ran nor was ready to run, and had not asked to wait, for {:.2} s ({} \
                 of the time)",
                seconds(r.stood_us),
                percent(share(r.stood_us, r.time_us))
            )
        });
        stood.into_iter().collect()
    },
    fix: |_| {
        "find out what stops the receiver: a stopped or swapped-out process, a virtual machine that is not \
         scheduled, a laptop that sleeps"
            .to_owned()
    },
    prediction: time_for_data,
};
