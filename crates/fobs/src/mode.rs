//! Changes of the controller's way of sending, as a transfer tells them: the sender notices them, and both ends hear of them
//! (protocol 2.4).

use fobs_proto::Timestamp;
use fobs_proto::congestion::ModeReason;
use serde::{Deserialize, Serialize};

/// A change from one way of sending to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModeChange {
    /// When, seconds since the sender's session began.
    pub seconds: f64,
    /// What the controller did before, a word of its own.
    pub from: String,
    /// What it does now.
    pub to: String,
    /// Why, in some words.
    pub reason: String,
    /// The part of the queueing delay that stood, ms.
    pub queue_ms: f64,
    /// Bits per second that were delivered.
    pub delivered_bps: u64,
    /// How much shorter the queue would have been by then if it were the sender's own, ms; where that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yielded_ms: Option<f64>,
    /// Round trips in a row with losses; where they are the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_rounds: Option<u32>,
}

impl ModeChange {
    /// What the machine noticed in a session that began then.
    pub(crate) fn of(change: &fobs_proto::congestion::ModeChange, began: Timestamp) -> ModeChange {
        let (mut yielded_ms, mut loss_rounds) = (None, None);
        match change.reason {
            ModeReason::QueueStays { yielded, .. } => yielded_ms = Some(yielded.as_secs_f64() * 1e3),
            ModeReason::LossesStay { rounds, .. } => loss_rounds = Some(rounds),
            _ => {}
        }
        ModeChange {
            seconds: (change.at - began).as_secs_f64(),
            from: change.from.to_owned(),
            to: change.to.to_owned(),
            reason: change.reason.to_string(),
            queue_ms: change.queue.as_secs_f64() * 1e3,
            delivered_bps: change.delivered.as_bytes().saturating_mul(8),
            yielded_ms,
            loss_rounds,
        }
    }
}
