//! The sending process, or its whole host, stood still.

use super::facts::time_for_data;
use super::{Place, Row, Stage};
use crate::figures::{seconds, share};
use fobs_model::words::percent;

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::SenderPaused],
    place: Place::Ends,
    phrase: |_| "the sender stood still: it was the limit".to_owned(),
    evidence: |_, sender| {
        vec![format!(
            "the sending thread neither ran nor was ready to run, and had not asked to wait, for {:.2} s ({} of the \
             time)",
            seconds(sender.stood_us),
            percent(share(sender.stood_us, sender.time_us))
        )]
    },
    fix: |_| {
        "find out what stops the sender: a stopped or swapped-out process, a virtual machine that is not \
         scheduled, a laptop that sleeps"
            .to_owned()
    },
    prediction: time_for_data,
};
