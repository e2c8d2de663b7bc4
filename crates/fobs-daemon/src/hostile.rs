//! Hostile clients: good sessions played again with each member of each message replaced by what a member of
//! its kind should not be, under each right and over both carriers. No part of the public API.
//!
//! After every case nothing outside of what the right allows has changed or was told, the server lives and
//! serves the next client, its memory is within the promise, and what it said was a sentence. `cargo test`
//! plays a sample; the example `hostile`, which `fobs-lab hostile` runs, plays as many as are asked for.
//!
//! ```text
//!   session, recorder    good sessions, and where they come from
//!   leaves, values       the places of a message, and what is put there
//!   records              rows of listings and records of chunks, which are packed in messages
//!   cases                all of that: every case by its name
//!   named                attacks that are in every sample
//!   right, world         what the client may do, and the file system around the server
//!   program, link, lane  the server's process, a channel below its messages, data inside it
//!   play, arena          a session, and the checks around it
//!   judge, manifest      the rules that every case must keep
//!   fuzzed               requests made of any bytes, against a server in this process
//!   baseline, run        good sessions as they are, and many cases beside each other
//! ```

mod arena;
mod baseline;
mod cases;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzed;
mod judge;
mod lane;
mod leaves;
mod link;
mod manifest;
mod named;
mod play;
mod program;
pub mod recorder;
mod records;
pub mod right;
mod run;
mod session;
pub(crate) mod values;
pub mod world;

pub use baseline::good_sessions;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use fuzzed::fuzzed;
pub use judge::{Breach, Rule};
pub use program::Program;
pub use run::{Finding, Plan, Tally, names, run};

#[cfg(test)]
mod tests;
