//! What is said of a window of a live transfer: for whoever watches, or trains models.

use super::witness::Evidence;
use super::{Signature, Verdict};
use crate::{PacketNumber, Timestamp};

/// A window with losses, judged.
#[derive(Debug, Clone, PartialEq)]
pub struct LossReport {
    /// When it was judged, sender's clock.
    pub at: Timestamp,
    /// Its first packet.
    pub first: PacketNumber,
    /// Packets declared lost that the controller answers for.
    pub network_lost: u32,
    /// Packets declared lost that were the receiver's and spare the rate.
    pub receiver_lost: u32,
    /// Whose they were.
    pub verdict: Verdict,
    /// Why.
    pub evidence: Evidence,
    /// Which packets: over the window and as many before it as the pattern was judged by.
    pub signature: Signature,
}

/// A window whose cause the receiver's counters told, whatever the pattern says. No packet is in two of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// Which packets were lost.
    pub signature: Signature,
    /// [`Verdict::Receiver`] if its counters cover the losses, [`Verdict::Network`] if they have none of them.
    pub cause: Verdict,
    /// Packets that the receiver counted.
    pub host_drops: u32,
}
