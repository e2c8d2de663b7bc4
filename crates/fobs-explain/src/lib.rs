//! Why a transfer was as slow as it was (docs/explain.md).
//!
//! A [`Journal`] is the record of one transfer, which a [`Recorder`] makes of its events and a [`Trace`]
//! keeps as a file. [`explain()`] makes an [`Explanation`] of it: the [`Limit`] in a sentence, with evidence,
//! fix and prediction.
//!
//! On the way a sample of one end becomes an interval of both, intervals of one kind a segment, its waits a
//! budget of the sender's time, and the budget limits with a time and a probability each.
//!
//! ```text
//!   journal      the record of one transfer, bounded
//!   recorder     makes a record of a transfer's events
//!   trace        a record as a file, written and read
//!   aligned      a record with its samples in their time
//!   interval     a record as intervals, each with what held the controller's rate down
//!   silence      stretches in which nothing came back
//!   segment      stretches of time in which one thing limited
//!   path, kind   what the path showed in one, and how well that fits each kind of path
//!   rates        what a path delivered: no figure is less than that
//!   windows      stretches in which the path had all that it carries: others at its bottleneck
//!   budget       where the sender's time went, by stages
//!   names        the table of limits and stages by name
//!   limits       which stages each limit accounts for, and what to say of it
//!   losses       what lost the packets
//!   remedies     what was done about losses at the receiver
//!   causes       limits with their time and probability, over all segments
//!   decide       what would decide between two limits
//!   forecast     what fobs would make of the path of another program
//!   figures      shares, medians and ratios
//!   explanation  the limit in a sentence, with evidence, fix and prediction
//! ```
//!
//! All of it but the recorder's clock is a pure function of the record: a copy and its trace give the same
//! text on every host. It must not know files, sockets or how a sample is taken.

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
mod meaning;
mod names;
mod path;
mod rates;
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
pub use rates::Bound;
pub use recorder::Recorder;
pub use trace::{End, Head, SOURCES_NAMED_MAX, Subject, TRACE_BYTES_MAX, TRACE_VERSION, Trace, TraceError};
