//! Why a transfer was as slow as it was (docs/explain.md).
//!
//! ```text
//!   sample       what each end measures of itself: counters that only grow
//!   journal      the record of one transfer, bounded
//!   recorder     makes a record of a transfer's events
//!   trace        a record as a file, written and read
//!   aligned      a record with its samples in their time
//!   interval     a record as intervals, each with what held the controller's rate down
//!   silence      stretches in which nothing came back
//!   segment      stretches of time in which one thing limited
//!   path, kind   what the path showed in one, and how well that fits each kind of path
//!   windows      stretches in which the path had all that it carries: others at its bottleneck
//!   budget       where the sender's time went, by stages
//!   limits       the table of limits: which stages each accounts for, and what to say of it
//!   losses       what lost the packets
//!   remedies     what was done about losses at the receiver
//!   causes       limits with their time and probability, over all segments
//!   decide       what would decide between two limits
//!   forecast     what fobs would make of the path of another program
//!   explanation  the limit in a sentence, with evidence, fix and prediction
//! ```
//!
//! All of it but the recorder's clock is a pure function of the record: a copy and its trace give the same
//! text on every host.

#![forbid(unsafe_code)]

mod aligned;
mod budget;
mod causes;
mod decide;
mod explanation;
mod figures;
mod forecast;
mod interval;
pub mod journal;
mod kind;
mod limits;
mod losses;
mod names;
mod path;
mod recorder;
mod remedies;
mod segment;
mod silence;
pub mod trace;
mod windows;

#[cfg(test)]
mod tests;

pub use causes::{Cause, Certainty, Stretch};
pub use explanation::{Explanation, Spent, explain};
pub use fobs_model::sample::{Cpu, ReceiverSample, SenderSample, SenderWaits, StreamsSample, Work};
pub use forecast::Forecast;
pub use journal::{At, Journal, LOSSES_MAX, Measured, REMEDIES_MAX, SAMPLES_MAX};
pub use limits::{FASTER_DESTINATION, FASTER_SOURCE, LARGER_BUFFER, Limit, Stage};
pub use losses::LossCause;
pub use recorder::Recorder;
pub use trace::{End, Head, SOURCES_NAMED_MAX, Subject, TRACE_BYTES_MAX, TRACE_VERSION, Trace, TraceError};
