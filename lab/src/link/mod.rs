//! The link emulator: a path between network namespaces that any program's TCP and UDP cross.
//!
//! ```text
//! program in a namespace -> TUN device -> super-packet -> segments -> direction -> merged -> TUN device -> program
//! ```
//!
//! - What a path is: [`spec`]. What it is made of: `host` (namespaces, devices), `kernel` (the unsafe calls), [`realtime`].
//! - One direction, without any I/O: `direction`, with `loss`, `outage`, `queue`, `cross`, `propagation`, `jitter`;
//!   random numbers come from `draw`.
//! - Packets: `packet` (cutting and merging), `store` (where they are while in flight).
//! - In motion: `emulation` (the thread), [`emulator`] (its handle), `control` (the socket), [`counters`] (what is
//!   counted, and whether a run is valid), `self_test`.

mod clock;
mod command;
mod control;
pub mod counters;
mod cross;
mod direction;
mod draw;
mod emulation;
pub mod emulator;
pub mod host;
mod jitter;
#[expect(unsafe_code, reason = "TUN devices and real-time scheduling have no safe wrapper")]
mod kernel;
mod loss;
mod outage;
mod packet;
mod propagation;
mod queue;
pub mod realtime;
mod self_test;
pub mod spec;
mod store;

pub use self::command::{Args, main};
