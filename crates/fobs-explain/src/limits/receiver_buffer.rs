//! The receiver's socket buffer overflows although its threads have the CPU that they need.

use super::facts::{CpuSupply, time_for_data};
use super::{Place, Row, Stage};
use fobs_model::words::bytes;

/// The command that has the kernel grant the buffer that is requested.
pub const LARGER: &str = "sysctl -w net.core.rmem_max=8388608";

pub(super) const ROW: Row = Row {
    stages: |facts| match facts.receiver_supply() {
        CpuSupply::Short => &[Stage::ReceiverSocket],
        CpuSupply::Enough => &[Stage::ReceiverDrain, Stage::ReceiverSocket],
    },
    place: Place::Ends,
    phrase: |facts| {
        format!("the receiver's socket buffer was the limit: it has {}", bytes(facts.buffer_bytes()))
    },
    evidence: |facts, sender| {
        let drops = facts.receiver().map_or(sender.socket_drops, |r| r.socket_drops);
        let held_ms = facts.buffer_bytes() as f64 * 8e3 / facts.path.rates.best().max(1.0);
        vec![
            format!(
                "the receiver's socket overflowed {drops} times although its threads were not short of CPU"
            ),
            format!("the buffer holds what arrives in {held_ms:.1} ms at the best rate"),
        ]
    },
    fix: |_| format!("a larger buffer: as root on the receiver, {LARGER}"),
    prediction: time_for_data,
};
