//! `fobs-proto` in virtual time: the very machines that run in production, on modelled networks and hosts.
//!
//! ```text
//!   time      nanoseconds since the world began
//!   agenda    the next event of each actor: one slot each, so it cannot grow
//!   packet    what travels
//!   log       what FOBS flows send and store, for tests of order
//!   object    what a FOBS flow sends: lengths of chunks; session: what several lanes share
//!   net       carries packets along routes and keeps the time
//!   link/     rate, delay, queues (drop-tail, RED, CoDel), policer, faults
//!   host/     CPU shared with others, socket buffers, disks
//!   topology  hosts, links, shortest routes
//!   flow/     FOBS (real sender and receiver), TCP models, sources
//!   check     the rules that no run may break; violation: a breach of one
//!   signatures/ windows of network loss, for training the classifier
//!   world     the event loop, and its figures
//!   scene     flows through one bottleneck, in a few lines
//!   report, plot   table, JSON, SVG
//!   scenario/ TOML to a world; every bound is checked here
//!   swarm     seeds to worlds: safety, then liveness
//! ```
//!
//! Nothing here reads a clock, a file or the operating system's randomness, and no payload byte exists: a
//! world is its configuration and its seed, and the same two give the same bytes of report. What is
//! deliberately absent: the engine's threads (their timing is modelled in `flow/fobs`), encryption (a damaged
//! packet is simply dropped, and so is one of an earlier attempt).

#![forbid(unsafe_code)]

mod agenda;
mod check;
pub mod flow;
pub mod gauntlet;
pub mod host;
pub mod link;
pub mod log;
mod net;
mod object;
mod packet;
pub mod plot;
pub mod report;
pub mod scenario;
pub mod scene;
mod session;
pub mod signatures;
pub mod swarm;
pub mod time;
pub mod topology;
mod violation;
pub mod world;

pub use fobs_rng as rng;
pub use report::SimReport;
pub use scenario::{Scenario, ScenarioError};
pub use scene::Scene;
pub use violation::Violation;
pub use world::{Config, World};
