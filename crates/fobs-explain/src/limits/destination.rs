//! The destination cannot take more: the receiver's disk, or the program at the other end of a stream.

use super::facts::time_for_data;
use super::{Place, Row, Stage};
use crate::figures::seconds;

/// What helps against a slow destination.
pub const FASTER_DESTINATION: &str = "write to a faster disk, or end what else uses it";

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::Writing, Stage::Syncing],
    place: Place::Ends,
    phrase: |_| "the receiver's disk (or what reads from the stream) was the limit".to_owned(),
    evidence: |facts, _| {
        let Some(writer) = facts.receiver().map(|r| &r.writer) else { return Vec::new() };
        // Of another program's far end only what its TCP says is known.
        let spent_us = facts.sender().map_or(0.0, |s| s.time_us as f64) * facts.budget.share(Stage::Writing);
        if facts.is_of_another() && ((writer.blocked_us() + writer.cpu.run_us) as f64) < spent_us / 2.0 {
            let held = "the program here had data ready or nothing to do, and waited for the far end";
            return vec![held.to_owned()];
        }
        let mut found = vec![format!(
            "the writing thread was blocked for {:.2} s and had the CPU for {:.2} s",
            seconds(writer.blocked_us()),
            seconds(writer.cpu.run_us)
        )];
        if writer.syncing_us > 0 {
            let waited_s = seconds(writer.syncing_us);
            found.push(format!("--fsync made it wait for the disk for {waited_s:.2} s"));
        }
        found
    },
    fix: |facts| {
        if facts.budget.share(Stage::Syncing) > facts.budget.share(Stage::Writing) {
            "leave out --fsync, or write to a faster disk".to_owned()
        } else {
            FASTER_DESTINATION.to_owned()
        }
    },
    prediction: time_for_data,
};
