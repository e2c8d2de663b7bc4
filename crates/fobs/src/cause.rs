//! Whose losses they were, and what was done about it, as a transfer tells it.
//!
//! Both ends hear of both: the sender judges windows of losses, the receiver applies remedies, and each tells the other
//! over the control channel (protocol 2.4).

use serde::{Deserialize, Serialize};

/// Most runs of a [`LossWindow`]; of more, the first are kept.
pub const RUNS_MAX: usize = 256;

/// A window with losses, judged by the sender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossWindow {
    /// When, seconds since the sender's session began.
    pub seconds: f64,
    /// Packets of the window that the pattern was judged by.
    pub packets: u32,
    /// Packets of it that were lost: `runs` show where.
    pub lost: u32,
    /// Packets lost since the last window that slow the sender down.
    pub network_lost: u32,
    /// Packets lost since the last window that do not: the receiver's.
    pub receiver_lost: u32,
    /// Whose they were.
    pub verdict: LossVerdict,
    /// Probability, by the pattern, that the receiver lost all of them; `None` if the pattern was not asked.
    pub p_receiver: Option<f64>,
    /// Probability, by the pattern, that both lost some.
    pub p_mixed: Option<f64>,
    /// Packets that the receiver's kernel counted as dropped in the same time; `None` where nothing counts.
    pub host_drops: Option<u32>,
    /// How late the receiver read, over the time in which its buffer fills; `None` where arrivals are not stamped.
    pub lag: Option<f64>,
    /// Windows of this peer that the model of patterns was retrained with (docs/classifier.md); 0 for the shipped one.
    #[serde(default)]
    pub learned_from: u32,
    /// Pairs of packets received and packets lost after them, from the window's first; at most [`RUNS_MAX`].
    pub runs: Vec<(u32, u32)>,
}

/// Whose losses they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossVerdict {
    /// The receiver's: its kernel dropped what its thread did not take.
    Receiver,
    /// The network's.
    Network,
    /// Both, or not to be told: treated as the network's.
    Inconclusive,
}

/// Something done so that the receiver loses less.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remedy {
    /// When, seconds since the session began on the side that acted.
    pub seconds: f64,
    /// What.
    pub action: RemedyAction,
    /// What came of it.
    pub result: RemedyResult,
}

/// What can be done, in the order in which it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// The receiving thread goes before others.
    HigherPriority {
        /// Its nice value before.
        from: i32,
        /// Its nice value now.
        to: i32,
    },
    /// A thread more at the receiver, that only empties the socket into memory.
    AnotherLane,
    /// The sender keeps to what the receiver takes.
    DrainRate {
        /// Datagram bits per second.
        bits_per_second: u64,
    },
}

/// What came of a remedy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyResult {
    /// It is in force.
    Applied,
    /// It is not possible here.
    Refused {
        /// One sentence: why, and what would allow it.
        reason: String,
    },
    /// Its effect, told some time after it was applied.
    Effect {
        /// Share of the packets that the socket dropped before.
        drops_before: f64,
        /// And since.
        drops_after: f64,
    },
}
