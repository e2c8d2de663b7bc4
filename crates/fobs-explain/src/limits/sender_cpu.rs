//! The sender computes without a pause, or its threads wait for a CPU.

use super::facts::{CpuSupply, whole_cpu};
use super::{Place, Row, Stage};
use crate::figures::share;
use fobs_model::words::percent;

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::Hashing, Stage::Sealing, Stage::SenderCpu],
    place: Place::Ends,
    phrase: |facts| match facts.sender_supply() {
        CpuSupply::Short => {
            "the sender's CPU was the limit: its threads wanted to run and had to wait".to_owned()
        }
        CpuSupply::Enough => "the sender's CPU was the limit".to_owned(),
    },
    evidence: |facts, sender| {
        vec![format!(
            "the sending thread ran for {} of the time and waited for a CPU for {}",
            percent(share(sender.cpu.run_us, sender.time_us)),
            percent(facts.sender_delay())
        )]
    },
    fix: |facts| match facts.sender_supply() {
        CpuSupply::Short => {
            "give the sender more CPU: end what else runs there, or raise its quota or priority".to_owned()
        }
        CpuSupply::Enough => "use a sender with a faster core, or run several copies at once".to_owned(),
    },
    prediction: |facts, share| whole_cpu(facts, facts.sender().map(|s| s.cpu), share),
};
