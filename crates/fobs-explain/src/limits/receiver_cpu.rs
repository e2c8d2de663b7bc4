//! The receiver computes without a pause, or its threads wait for a CPU.

use super::facts::{CpuSupply, whole_cpu};
use super::{Place, Row, Stage};
use crate::figures::{seconds, share};
use fobs_model::words::percent;

pub(super) const ROW: Row = Row {
    // A receiver with CPU to spare that drains slowly has too small a buffer.
    stages: |facts| match facts.receiver_supply() {
        CpuSupply::Short => &[Stage::ReceiverDrain, Stage::ReceiverCpu],
        CpuSupply::Enough => &[Stage::ReceiverCpu],
    },
    place: Place::Ends,
    phrase: |facts| match facts.receiver_supply() {
        CpuSupply::Short => {
            "the receiver's CPU was the limit: its threads wanted to run and had to wait".to_owned()
        }
        CpuSupply::Enough => "the receiver's CPU was the limit".to_owned(),
    },
    evidence: |facts, _| {
        let found = facts.receiver().map(|r| {
            format!(
                "the receiving thread waited for a CPU for {} of the time and the writing thread for {:.2} s",
                percent(share(r.cpu.delay_us, r.time_us)),
                seconds(r.writer.cpu.delay_us)
            )
        });
        found.into_iter().collect()
    },
    fix: |facts| match facts.receiver_supply() {
        CpuSupply::Short => {
            "give the receiver more CPU: end what else runs there, or raise its quota or priority".to_owned()
        }
        CpuSupply::Enough => "use a receiver with a faster core, or run several copies at once".to_owned(),
    },
    prediction: |facts, share| whole_cpu(facts, facts.receiver().map(|r| r.cpu), share),
};
