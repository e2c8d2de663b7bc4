//! What the ends of a transfer measure, judge and do.

use serde::{Deserialize, Serialize};

use crate::cause::{LossWindow, Remedy};
use crate::mode::ModeChange;
use crate::route::WayChange;
use crate::sample::{ReceiverSample, SenderSample};

/// Something that an end measured, judged or did.
#[expect(clippy::large_enum_variant, reason = "events hold it in a box, and journals by kind")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Measured {
    /// The sending end's counters.
    Sender(SenderSample),
    /// The receiving end's counters.
    Receiver(ReceiverSample),
    /// A window of losses was judged.
    Loss(LossWindow),
    /// A remedy for them was applied or refused.
    Remedy(Remedy),
    /// The controller changed its mode.
    Mode(ModeChange),
    /// Data takes another way.
    Way(WayChange),
}
