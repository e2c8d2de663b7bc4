//! Policy that the engine and the simulator share: what is decided around the sender and the receiver
//! machines.
//!
//! Like the machines it is sans-I/O: time and measurements come in as arguments, decisions go out as values.
//! A driver owns a machine and the policy of its side, and passes the machine to the policy's methods.
//!
//! ```text
//!   limits    time limits, retry counts and buffer counts
//!   holding   how many chunks of what size a sender holds
//!   pause     why a sending thread waits
//!   wait      the reasons, and the time spent on each
//!   silence   what a side concludes from hearing nothing, and what it does
//!   standstill  the clock of --timeout
//!   floor     the lowest rate that a user accepts
//!   send      the sending side: grants, chunks, retries, history, deadline
//!   transport by which way packets leave: datagrams, streams, or both
//!   stream_count  how many streams carry frames
//!   receive   the receiving side: verdicts, retries, drop counts, the end
//!   lanes     which lane of several sends which chunk
//!   thread_costs  what threads cost, and what hosts of other cores would carry
//!   lane_count  how many lanes the next transfer over a path should have
//!   lane_growth  when a session gets one more lane
//! ```

mod floor;
mod holding;
mod lane_count;
mod lane_growth;
mod lanes;
mod limits;
mod pause;
mod receive;
mod send;
mod silence;
mod standstill;
mod stream_count;
mod thread_costs;
mod transport;
mod wait;

pub use floor::RateFloor;
pub use holding::{Holding, first_chunk_data_max, round_trip_bytes};
pub use lane_count::{LANES_UNCHOSEN_MAX, PacketThreads};
pub use lane_growth::{GrowthRule, GrowthSeen, LaneGrowth, ThreadTimes};
pub use lanes::{
    LANES_MAX, LaneCounts, LaneSchedule, LaneSeen, LaneTask, LaneVerified, WITHDRAWN_LEN, Withdrawal,
};
pub use limits::{
    ABSENT_AFTER, ANSWER_WAIT, AVAILABLE_UNKNOWN, CHUNKS_MAX, FAREWELL_WAIT, GRANTS_MAX, HEARTBEAT,
    MEMORY_DEFAULT_MAX, MEMORY_RANGE, MISMATCHES_MAX, PACE_GRAIN, UDP_SILENCE_MAX, chunks_within,
    memory_within,
};
pub use pause::Pause;
pub use receive::{ReceivePolicy, Stored, VerdictOutcome};
pub use send::{ChunkRead, ObjectSize, Rejection, SendPolicy, SendPolicyConfig};
pub use silence::{Presence, Side, Silence};
pub use standstill::{Excuse, OwnEnd, Standstill};
pub use stream_count::{
    STREAMS_HELD, STREAMS_MAX, STREAMS_QUEUED, StreamBrake, StreamCount, StreamTarget, StreamsSeen,
};
pub use thread_costs::{CopyStage, HANDS_MAX, ThreadCosts};
pub use transport::{
    DatagramsSeen, Directive, RouteChange, RouteReason, StreamsOpen, TransportChoice, TransportConfig,
    TransportPolicy, TransportSeen,
};
pub use wait::{Wait, WaitTimes};
