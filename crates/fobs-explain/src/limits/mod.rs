//! What can limit a transfer: one row for each limit, in a file of its own.
//!
//! To add a limit:
//!
//! 1. Write `limits/<name>.rs` with its [`Row`]; `deadline.rs` is the shortest example.
//! 2. Add its line to the table of `names.rs`, which makes `Limit::<Name>`, its JSON name and its stages.
//!
//! The compiler and the tests name what is missing: a `mod` line, a stage that no row accounts for, a
//! sentence, a line of docs/explain.md. A limit with a wait of its own adds that to
//! [`Wait`](fobs_model::units::Wait), and `budget.rs` does not compile until it says which stage the wait is.

mod facts;

mod channel_window;
mod competing_traffic;
mod deadline;
mod destination;
mod far_side;
mod local_queue;
mod narrow_path;
mod outage;
mod pipe;
mod policer;
mod random_loss;
mod rate_cap;
mod receiver_buffer;
mod receiver_cpu;
mod receiver_paused;
mod remote_limit;
mod reordering;
mod return_path;
mod round_trips;
mod route_change;
mod sender_cpu;
mod sender_paused;
mod source;
mod start_up;
mod stream_buffer;
mod stream_path;
mod stream_window;

#[cfg(test)]
mod tests;

use fobs_model::sample::SenderSample;

use super::names::each_limit;
pub use super::names::{Limit, Stage};
use super::rates::Prediction;
pub use destination::FASTER_DESTINATION;
pub(super) use facts::{Facts, goodput_bps, spare};
pub use receiver_buffer::LARGER as LARGER_BUFFER;
pub use source::FASTER_SOURCE;

/// What one limit is made of. Texts are parts of sentences: no capital at the start, no full stop.
pub(super) struct Row {
    /// The stages whose time this limit accounts for. In every transfer each stage has exactly one limit.
    pub(super) stages: fn(&Facts) -> &'static [Stage],
    /// Where it lies.
    pub(super) place: Place,
    /// Continues "95% of the time ".
    pub(super) phrase: fn(&Facts) -> String,
    /// Measurements that support it, given the sender's last sample.
    pub(super) evidence: fn(&Facts, &SenderSample) -> Vec<String>,
    /// Continues "What would help: ".
    pub(super) fix: fn(&Facts) -> String,
    /// The rate with the fix, file bits per second, given the limit's share of the time (0 to 1); `None` if
    /// unknown.
    pub(super) prediction: fn(&Facts, f64) -> Option<Prediction>,
}

/// Where a limit lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At an end, or in what the user asked for: the network may have rate to spare.
    Ends,
    /// In the network, or in what keeps it from being used.
    Network,
}

macro_rules! rows {
    ($($file:ident: $limit:ident, $what:literal, [$($stage:ident = $stage_name:literal),*];)+) => {
        impl Limit {
            pub(super) fn row(self) -> &'static Row {
                match self { $(Limit::$limit => &$file::ROW,)+ }
            }
        }
    };
}
each_limit!(rows);
