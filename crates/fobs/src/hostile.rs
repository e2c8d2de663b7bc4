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
//!   lane                 data inside the control channel
//!   world, manifest      the file system around the server, and whether it changed
//!   right                what the client may do
//! ```

mod arena;
mod cases;
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

pub use judge::{Breach, Rule};
pub use program::Program;
pub use run::{Finding, Plan, Tally, names, run};

#[cfg(test)]
mod tests;
