//! The limits and the stages of a time budget, by name: one line each makes both enumerations.

use serde::Serialize;

// File: variant, description, [the stages that it brings along]. Stages stand in the order in which a byte
// passes them. Those of `narrow_path` are shared: the kind of path says which of eight limits has their time.
macro_rules! each_limit {
    ($then:ident) => {
        $then! {
            source: Source, "the sender's disk, or the program that writes into a stream", [Reading = "reading"];
            sender_cpu: SenderCpu, "the sender's CPU: too little of it, or all of it busy",
                [Hashing = "hashing", Sealing = "sealing and sending", SenderCpu = "waiting for a CPU (sender)"];
            sender_paused: SenderPaused, "the sending process or its host: it stood still",
                [SenderPaused = "sender paused"];
            rate_cap: RateCap, "the rate that `--rate` sets, or to which another program keeps itself", [RateCap = "rate cap"];
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
            pipe: Pipe, "the pipe to the program at the other end", [];
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
    };
}
pub(super) use each_limit;

/// Makes the enumerations from the table.
macro_rules! enumerations {
    ($($file:ident: $limit:ident, $what:literal, [$($stage:ident = $stage_name:literal),*];)+) => {
        /// What limits a transfer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
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
        }

        /// A part of a time budget: what the time of a transfer goes to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
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

each_limit!(enumerations);
