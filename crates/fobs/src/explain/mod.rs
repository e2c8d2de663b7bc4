//! Why a transfer was as slow as it was.
//!
//! ```text
//!   sample       what each end measures of itself: counters that only grow
//!   journal      the record of one transfer, bounded
//!   recorder     makes a record out of events
//!   trace        a record as a file, and back
//!   budget       where the sender's time went
//!   path         what the network did: narrow, lossy, policed
//!   remedies     what was done about the receiver's losses
//!   explanation  which limit it was, in a sentence, with evidence, fix and gain
//!   words        figures in sentences
//! ```
//!
//! Everything here is a pure function of the record (but for the recorder's clock): the text after a transfer and the
//! text that is made of its trace are the same. No figure depends on where it is computed.

mod budget;
mod explanation;
mod journal;
mod path;
mod recorder;
mod remedies;
mod sample;
mod trace;
mod words;

#[cfg(test)]
mod tests;

pub use budget::{Budget, STAGES, Stage};
pub use explanation::{Explanation, Limit, LossCause, Spent, explain};
pub use journal::{At, Journal, LOSSES_MAX, Measured, REMEDIES_MAX, SAMPLES_MAX};
pub use path::{Path, PathKind};
pub use recorder::Recorder;
pub use sample::{Cpu, ReceiverSample, SenderSample, SenderWaits, Work};
pub use trace::{End, Head, TRACE_BYTES_MAX, TRACE_VERSION, Trace, TraceError};
