//! Attribution of packet losses: to the network, or to a receiver that did not get enough CPU time.
//!
//! ```text
//!   signature   the packets lost in a window, as runs; built while losses are declared
//!   complexity  C1, the measure of the paper
//!   features    other properties of the runs, computed in one pass
//!   beat        periodic runs, as at a queue served in ticks
//!   paper       the paper's classifier, for comparison
//!   mixture     our classifier: a mixture model of known sub-causes over the features
//!   witness     combines the classifier's result with the receiver's counters and lag
//!   judge       the attribution method of a transfer, with its model
//!   report      a judged window of a live transfer, and a labelled one to train models with
//! ```
//!
//! `seeds/001` is P. Dickens, "A Lightweight, High Performance Communication Protocol for Grid Computing";
//! sections are cited as `001 3.1.5`. Measured accuracy and limits are in `docs/classifier.md`.
//!
//! Models are plain numbers here; the code that reads them from a file checks them. Deliberately absent:
//! rates, congestion windows, clocks, files.

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

/// Probability from which a cause is accepted (001 section 2.2).
pub const CONFIDENCE: f64 = 0.95;

/// Where the packets of a window were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// At the receiving host, for lack of CPU time: the only verdict that spares the sending rate.
    Receiver,
    /// In the network, at least partly.
    Network,
    /// Undecided; treated as network loss.
    Inconclusive,
}

impl Verdict {
    /// The verdict for a probability that all losses are the receiver's.
    pub fn from_probability(p_receiver: f64) -> Verdict {
        if p_receiver >= CONFIDENCE {
            Verdict::Receiver
        } else if p_receiver <= 1.0 - CONFIDENCE {
            Verdict::Network
        } else {
            Verdict::Inconclusive
        }
    }

    /// Lower-case name, as in files and output.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Receiver => "receiver",
            Verdict::Network => "network",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}
