//! What can limit a transfer: one row for each limit, in a file of its own.
//!
//! To add a limit:
//!
//! 1. Write `limits/<name>.rs` with its [`Row`]; `deadline.rs` is the shortest example.
//! 2. Add its line to the table below, which makes `Limit::<Name>`, its JSON name and its stages.
//!
//! The compiler and the tests name what is missing: a `mod` line, a stage that no row accounts for, a
//! sentence, a line of docs/explain.md. A limit with a wait of its own adds that to
//! [`Wait`](fobs_model::units::Wait), and its row says which stage the wait belongs to.

mod facts;

mod channel_window;
mod competing_traffic;
mod deadline;
mod destination;
mod far_side;
mod local_queue;
mod narrow_path;
mod outage;
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
use fobs_model::units::Wait;
use serde::Serialize;

pub use destination::FASTER_DESTINATION;
pub(super) use facts::{Facts, goodput_bps, spare};
pub use receiver_buffer::LARGER as LARGER_BUFFER;
pub use source::FASTER_SOURCE;

/// What one limit is made of. Texts are parts of sentences: no capital at the start, no full stop.
pub(super) struct Row {
    /// The sending thread's waits that belong to this limit whatever the ends measured, each with its stage.
    /// The budget divides the other waits by what both ends measured.
    pub(super) waits: &'static [(Wait, Stage)],
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
    pub(super) prediction: fn(&Facts, f64) -> Option<f64>,
}

/// Where a limit lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At an end, or in what the user asked for: the network may have rate to spare.
    Ends,
    /// In the network, or in what keeps it from being used.
    Network,
}

/// Makes the enumerations from the table.
macro_rules! limits {
    ($($file:ident: $limit:ident, $what:literal, [$($stage:ident = $stage_name:literal),*];)+) => {
        /// What limits a transfer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Limit {
            $(#[doc = $what] $limit,)+
        }

        impl Limit {
            /// Every limit.
            pub const ALL: &'static [Limit] = &[$(Limit::$limit),+];

            /// Its name in JSON.
            pub fn name(self) -> &'static str {
                match self { $(Limit::$limit => stringify!($file),)+ }
            }

            /// What it is, in a few words.
            pub fn description(self) -> &'static str {
                match self { $(Limit::$limit => $what,)+ }
            }

            pub(super) fn row(self) -> &'static Row {
                match self { $(Limit::$limit => &$file::ROW,)+ }
            }
        }

        /// A part of a time budget: what the time of a transfer goes to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Stage {
            $($(#[doc = $stage_name] $stage,)*)+
        }

        impl Stage {
            /// Every stage, in the order in which a byte passes them.
            pub const ALL: &'static [Stage] = &[$($(Stage::$stage,)*)+];

            /// Its name in a budget.
            pub fn name(self) -> &'static str {
                match self { $($(Stage::$stage => $stage_name,)*)+ }
            }
        }
    };
}

// File: variant, description, [the stages that it brings along]. Stages stand in the order in which a byte
// passes them. Those of `narrow_path` are shared: the kind of path says which of eight limits has their time.
limits! {
    source: Source, "the sender's disk, or the program that writes into a stream", [Reading = "reading"];
    sender_cpu: SenderCpu, "the sender's CPU: too little of it, or all of it busy",
        [Hashing = "hashing", Sealing = "sealing and sending", SenderCpu = "waiting for a CPU (sender)"];
    sender_paused: SenderPaused, "the sending process or its host: it stood still",
        [SenderPaused = "sender paused"];
    rate_cap: RateCap, "the rate that `--rate` sets", [RateCap = "rate cap"];
    deadline: Deadline, "the rate that `--deadline` needs: no more was necessary", [Deadline = "deadline"];
    remote_limit: RemoteLimit, "the rate that the far end's daemon gives this client",
        [RemoteLimit = "far end's rate limit"];
    narrow_path: NarrowPath, "the bottleneck of the path",
        [Pacing = "pacing", CongestionWindow = "congestion window"];
    competing_traffic: CompetingTraffic, "other flows at the path's bottleneck", [];
    route_change: RouteChange, "a path that became worse during the copy", [];
    policer: Policer, "a policer on the path: it drops what exceeds a rate", [];
    random_loss: RandomLoss, "packet loss that does not depend on the rate", [];
    reordering: Reordering, "a path that delivers packets out of order", [];
    return_path: ReturnPath, "the way back: acks late or lost", [LateAnswers = "late answers"];
    outage: Outage, "an outage of the path", [Outage = "outage"];
    start_up: StartUp, "ramp-up: the controller set the rate, and the path showed no bottleneck", [];
    local_queue: LocalQueue, "the sending host's own queue", [LocalSocket = "sender's socket"];
    stream_path: StreamPath, "the congestion windows of the streams: what TCP finds the path to carry",
        [Streams = "streams"];
    stream_buffer: StreamBuffer, "the send buffers of the streams", [];
    stream_window: StreamWindow, "the receiver's windows of the streams", [];
    channel_window: ChannelWindow, "the window of the ssh channel", [];
    receiver_paused: ReceiverPaused, "the receiving process or its host: it stood still",
        [ReceiverPaused = "receiver paused"];
    receiver_cpu: ReceiverCpu, "the receiver's CPU: too little of it, or all of it busy",
        [ReceiverDrain = "receiver drain", ReceiverCpu = "receiver CPU"];
    receiver_buffer: ReceiverBuffer, "the receiver's socket buffer", [ReceiverSocket = "receiver socket"];
    destination: Destination, "the receiver's disk, or the program that reads from a stream",
        [Writing = "writing", Syncing = "syncing"];
    far_side: FarSide, "the path or the sender, which cannot be told apart from here",
        [Unseen = "waiting for the far end"];
    round_trips: RoundTrips, "round trips before and after the data of a short copy", [Control = "control"];
}
