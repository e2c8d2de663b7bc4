//! The engine: threads that drive the protocol's machines over real sockets, clocks and files.
//!
//! A sending session is two threads and one that reads the control channel: `reader` fills chunks, `send`
//! paces packets and takes acks. A receiving one likewise: `receive` takes packets and acknowledges them,
//! `writer` verifies and stores. They share nothing but bounded channels (`letters`) and the chunk buffers
//! that travel through them. A receiver that loses packets because it does not read its socket in time may
//! get a third, the `lane`. What is decided around the machines is the policy of [`fobs_proto::session`],
//! which the simulator drives too.

mod causes;
mod clock;
mod endurance;
mod failure;
mod host;
mod lane;
mod letters;
mod link;
mod measure;
mod meter;
mod reader;
mod receive;
mod remedy;
mod report;
mod send;
mod steering;
pub(crate) mod streams;
mod survey;
mod thread;
mod throttle;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use clock::Clock;
pub(crate) use endurance::{DeadControl, Endurance};
pub(crate) use failure::{aborted, refused, tell_abort};
pub(crate) use fobs_proto::session::CHUNKS_MAX;
#[cfg(test)]
pub(crate) use link::Incoming;
pub(crate) use link::{Link, LinkSetup, PathValidation};
pub(crate) use receive::{ReceiveJob, receive};
pub(crate) use remedy::RemedyPolicy;
pub(crate) use report::{Counted, Crawls, Reporter};
pub(crate) use send::{SendJob, send};
pub use steering::Steering;
pub(crate) use throttle::{SharedRate, Throttle};
