//! Why a transfer was as slow as it was (docs/explain.md).
//!
//! ```text
//!   sample       what each end measures of itself: counters that only grow
//!   journal      the record of one transfer, bounded
//!   recorder     makes a record of a transfer's events
//!   trace        a record as a file, written and read
//!   interval     a record as intervals, each with what held the controller's rate down
//!   path         the kind of path: narrow, policed, lossy
//!   budget       where the sender's time went, by stages
//!   limits       the table of limits: which stages each accounts for, and what to say of it
//!   losses       what lost the packets
//!   remedies     what was done about losses at the receiver
//!   explanation  the limit in a sentence, with evidence, fix and prediction
//!   words        figures in sentences
//! ```
//!
//! All of it but the recorder's clock is a pure function of the record: a copy and its trace give the same
//! text on every host.

mod budget;
mod explanation;
mod interval;
mod journal;
mod limits;
mod losses;
mod path;
mod recorder;
mod remedies;
mod sample;
mod trace;
pub(crate) mod words;

#[cfg(test)]
mod tests;

pub use explanation::{Explanation, Spent, explain};
pub use journal::{At, Journal, LOSSES_MAX, Measured, REMEDIES_MAX, SAMPLES_MAX};
pub(crate) use limits::{FASTER_DESTINATION, FASTER_SOURCE, LARGER_BUFFER};
pub use limits::{Limit, Stage};
pub use losses::LossCause;
pub use recorder::Recorder;
pub use sample::{Cpu, ReceiverSample, SenderSample, SenderWaits, StreamsSample, Work};
pub use trace::{End, Head, SOURCES_NAMED_MAX, Subject, TRACE_BYTES_MAX, TRACE_VERSION, Trace, TraceError};
