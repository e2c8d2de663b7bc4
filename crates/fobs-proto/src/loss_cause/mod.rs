//! Why packets were lost: by the network, or by a receiver that was kept from its CPU.
//!
//! ```text
//!   signature   which packets of a window were lost, as runs; built while losses are declared
//!   complexity  C1, the measure of the paper
//!   features    what else is read from the runs, in one pass
//!   beat        runs that come by a clock, as at a queue served in ticks
//!   paper       the paper's classifier, as it stands, to compare with
//!   mixture     ours: a mixture of known sub-causes over the features
//!   witness     the signature's opinion beside the receiver's counters and lag
//!   judge       the method that a transfer judges by, with its model
//!   report      a judged window of a live transfer, and one that a model can be trained with
//! ```
//!
//! `seeds/001` is P. Dickens, "A Lightweight, High Performance Communication Protocol for Grid Computing"; sections
//! are cited as `001 3.1.5`. What holds where, measured, is in `docs/classifier.md`.
//!
//! Models are plain numbers here: whoever reads them from a file checks them. What is deliberately absent: rates,
//! windows of congestion control, clocks, files.

pub mod beat;
pub mod complexity;
pub mod features;
pub mod judge;
pub mod mixture;
pub mod paper;
pub mod report;
pub mod signature;
pub mod witness;

pub use beat::Beat;
pub use features::Features;
pub use judge::{Judge, JudgeMethod};
pub use mixture::Mixture;
pub use paper::Paper;
pub use report::{Lesson, LossReport};
pub use signature::{LossRun, Signature, SignatureBuilder};

/// Probability of a cause from which on it is believed (001 section 2.2).
pub const CONFIDENCE: f64 = 0.95;

/// Where the packets of a window were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// At the receiving host, for want of CPU: the only verdict that spares the rate.
    Receiver,
    /// In the network, or there too.
    Network,
    /// Not to be told from this window; to be treated as the network's doing.
    Inconclusive,
}

impl Verdict {
    /// What follows from the probability that all losses were the receiver's.
    pub fn from_probability(p_receiver: f64) -> Verdict {
        if p_receiver >= CONFIDENCE {
            Verdict::Receiver
        } else if p_receiver <= 1.0 - CONFIDENCE {
            Verdict::Network
        } else {
            Verdict::Inconclusive
        }
    }

    /// In lower case, as in files and output.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Receiver => "receiver",
            Verdict::Network => "network",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}
