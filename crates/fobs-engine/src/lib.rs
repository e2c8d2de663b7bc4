//! The engine: threads that drive the protocol's machines over real sockets, clocks and files.
//!
//! [`send()`] and [`receive()`] run one transfer over a [`Link`], as a [`SendJob`] or [`ReceiveJob`] says; a
//! [`Steering`] changes one that runs, a [`Reporter`] says what happens in it. [`door`] is where the TCP
//! connections of a session come from, and [`memory`] what is remembered of a path until the next one.
//!
//! A sending session is two threads and one that reads the control channel: `reader` fills chunks, `send`
//! paces packets and takes acks. A receiving one likewise: `receive` takes packets and acknowledges them,
//! `writer` verifies and stores. They share nothing but bounded channels (`letters`) and the chunk buffers
//! that travel through them. A receiver that loses packets because it does not read its socket in time may
//! get a third, the `lane`.
//!
//! A byte goes from the chunk buffer through the sealer into a burst, and at the other end from the batch
//! through the opener into its place in a chunk buffer: where, the machine says, which never sees it. Over
//! [`streams`] a frame takes the place of the packets of one chunk.
//!
//! It must not know requests, rights or keys of users: a transfer begins here when both ends agree what it
//! is. What is decided around the machines is the policy of [`fobs_proto::session`], which the simulator
//! drives too.

#![forbid(unsafe_code)]

mod causes;
mod clock;
pub mod door;
mod endurance;
mod failure;
mod host;
mod lane;
mod lanes;
mod letters;
mod link;
mod measure;
pub mod memory;
mod meter;
mod reader;
mod receive;
mod remedy;
mod report;
mod send;
mod setup;
mod steering;
pub mod streams;
mod survey;
mod thread;
mod throttle;
mod writer;

#[cfg(test)]
mod tests;

pub use clock::Clock;
pub use endurance::{DeadControl, EndsAt, Endurance};
pub use failure::{aborted, refused, tell_abort};
pub use fobs_proto::session::CHUNKS_MAX;
pub use lanes::{LaneConfig, LaneSetup, LanesSetup, LateLanes, lane_configs, lane_credit, lanes_window};
pub use link::{Incoming, Link, LinkSetup, PathValidation};
pub use receive::{ReceiveJob, receive};
pub use remedy::RemedyPolicy;
pub use report::{Counted, Crawls, Reporter};
pub use send::{SendJob, SendOutcome, send};
pub use setup::{
    choice_of, receiver_config, sender_config, stream_target, summary, tcp_tuning, transport_of, udp_options,
};
pub use steering::Steering;
pub use throttle::{SharedRate, Throttle};
