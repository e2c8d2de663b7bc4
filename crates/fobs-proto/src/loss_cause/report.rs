//! Records of attributed loss windows, for event logs and for training models.

use super::witness::Evidence;
use super::{Signature, Verdict};
use crate::{PacketNumber, Timestamp};

/// A window with losses, judged.
#[derive(Debug, Clone, PartialEq)]
pub struct LossReport {
    /// Time of the verdict, sender's clock.
    pub at: Timestamp,
    /// First packet of the window.
    pub first: PacketNumber,
    /// Packets declared lost and attributed to the network; the congestion controller reacts to these.
    pub network_lost: u32,
    /// Packets declared lost and attributed to the receiver; the sending rate is spared.
    pub receiver_lost: u32,
    /// The loss cause.
    pub verdict: Verdict,
    /// The evidence for the verdict.
    pub evidence: Evidence,
    /// Lost packets of this window and of the packets before it that the classifier used.
    pub signature: Signature,
}

/// A window with a cause known from the receiver's counters, independent of the signature. Windows are
/// disjoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// The lost packets.
    pub signature: Signature,
    /// [`Verdict::Receiver`] if the counters cover the losses, [`Verdict::Network`] if they cover none.
    pub cause: Verdict,
    /// Number of packets that the receiver's kernel counted as dropped.
    pub host_drops: u32,
}
