//! Causes of losses, and remedies against losses at the receiver.
//!
//! The sender attributes windows of losses to a cause, the receiver applies remedies, and each reports to the
//! other over the control channel (protocol 2.4).

use crate::words::{bytes, percent, rate};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most runs of a [`LossWindow`]; later ones are left out.
pub const RUNS_MAX: usize = 256;

/// A window with losses and their cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossWindow {
    /// Seconds since the sender's session began.
    pub seconds: f64,
    /// Packets of the window whose pattern was classified.
    pub packets: u32,
    /// Packets lost among them; `runs` show where.
    pub lost: u32,
    /// Packets lost since the last window that count as congestion.
    pub network_lost: u32,
    /// Packets lost since the last window that do not: lost by the receiver.
    pub receiver_lost: u32,
    /// The cause.
    pub verdict: LossVerdict,
    /// Probability, by the pattern, that the receiver lost all of them; `None` if the pattern was not
    /// classified.
    pub p_receiver: Option<f64>,
    /// Probability, by the pattern, that receiver and network lost some each.
    pub p_mixed: Option<f64>,
    /// Packets that the receiver's kernel dropped at the socket in the same time; `None` where it does not
    /// count them.
    pub host_drops: Option<u32>,
    /// Delay of the receiver's reads, relative to the time in which its buffer fills; `None` without arrival
    /// times.
    pub lag: Option<f64>,
    /// Windows of this peer that the classifier was retrained with (docs/classifier.md); 0 for the shipped
    /// model.
    #[serde(default)]
    pub learned_from: u32,
    /// Pairs of packets received and packets lost after them, from the start of the window; at most
    /// [`RUNS_MAX`].
    pub runs: Vec<(u32, u32)>,
}

/// The cause of the losses of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossVerdict {
    /// The receiver: its kernel dropped packets because its thread did not read them in time.
    Receiver,
    /// The network.
    Network,
    /// Both, or unclear: treated as the network.
    Inconclusive,
}

/// An action against losses at the receiver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remedy {
    /// Seconds since the session began at the end that acted.
    pub seconds: f64,
    /// The action.
    pub action: RemedyAction,
    /// Its result.
    pub result: RemedyResult,
}

/// The actions, in the order in which they are tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RemedyAction {
    /// A larger socket buffer at the receiver.
    LargerBuffer {
        /// Bytes that the kernel granted before.
        from_bytes: u64,
        /// Bytes that it grants now.
        to_bytes: u64,
    },
    /// The receiving thread moves to a CPU with less to do.
    QuieterCpu {
        /// The CPU it was on.
        from: u32,
        /// The CPU it is on now.
        to: u32,
    },
    /// A higher scheduling priority for the receiving thread.
    HigherPriority {
        /// Its nice value before.
        from: i32,
        /// Its nice value now.
        to: i32,
    },
    /// Another thread at the receiver that only moves datagrams from the socket to memory.
    AnotherLane,
    /// The sender limits its rate to what the receiver reads.
    DrainRate {
        /// Datagram bits per second.
        bits_per_second: u64,
    },
}

/// The result of a remedy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RemedyResult {
    /// It is in force.
    Applied,
    /// It is not possible here.
    Refused {
        /// One sentence: why, and what would allow it.
        reason: String,
    },
    /// Its effect, measured some time after it was applied.
    Effect {
        /// Share of packets dropped at the socket before.
        drops_before: f64,
        /// Share of packets dropped at the socket since.
        drops_after: f64,
    },
}

impl fmt::Display for RemedyAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            RemedyAction::LargerBuffer { from_bytes, to_bytes } => {
                write!(f, "a socket buffer of {} instead of {}", bytes(to_bytes), bytes(from_bytes))
            }
            RemedyAction::QuieterCpu { from, to } => {
                write!(f, "CPU {to} instead of CPU {from} for the receiving thread")
            }
            RemedyAction::HigherPriority { from, to } => {
                write!(f, "nice {to} instead of {from} for the receiving thread")
            }
            RemedyAction::AnotherLane => f.write_str("a thread that only empties the socket"),
            RemedyAction::DrainRate { bits_per_second } => {
                write!(f, "a sending rate of what the receiver takes, {}", rate(bits_per_second as f64))
            }
        }
    }
}

impl fmt::Display for RemedyResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemedyResult::Applied => f.write_str("done"),
            RemedyResult::Refused { reason } => write!(f, "not possible: {reason}"),
            RemedyResult::Effect { drops_before, drops_after } => {
                write!(
                    f,
                    "drops went from {} to {} of the packets",
                    percent(*drops_before),
                    percent(*drops_after)
                )
            }
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:.1} s: {}: {}", self.seconds, self.action, self.result)
    }
}
