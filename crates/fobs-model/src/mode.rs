//! Changes of the controller's mode. The sender reports them to both ends (protocol 2.4).

use fobs_proto::Timestamp;
use fobs_proto::congestion::ModeReason;
use serde::{Deserialize, Serialize};

/// A change of the controller's mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModeChange {
    /// Seconds since the sender's session began.
    pub seconds: f64,
    /// The mode before, in the controller's own word.
    pub from: String,
    /// The mode now.
    pub to: String,
    /// The reason, a phrase.
    pub reason: String,
    /// Delay of the standing queue, ms.
    pub queue_ms: f64,
    /// Delivery rate, bits per second.
    pub delivered_bps: u64,
    /// Where a persistent queue is the reason: by how much it would have shrunk if it were self-induced, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yielded_ms: Option<f64>,
}

impl ModeChange {
    /// The machine's change, in a session that began at `began`.
    pub fn of(change: &fobs_proto::congestion::ModeChange, began: Timestamp) -> ModeChange {
        let yielded_ms = match change.reason {
            ModeReason::QueueStays { yielded, .. } => Some(yielded.as_secs_f64() * 1e3),
            _ => None,
        };
        ModeChange {
            seconds: (change.at - began).as_secs_f64(),
            from: change.from.to_owned(),
            to: change.to.to_owned(),
            reason: change.reason.to_string(),
            queue_ms: change.queue.as_secs_f64() * 1e3,
            delivered_bps: change.delivered.as_bytes().saturating_mul(8),
            yielded_ms,
        }
    }
}
