//! The link emulator: a network path between network namespaces, which any program's TCP and UDP can cross.
//!
//! ```text
//! program in a namespace -> TUN device -> super-packet -> segments -> direction
//!     -> merged -> TUN device -> program
//! ```
//!
//! - Description of a path: [`spec`]. Its parts: `host` (namespaces, devices), `kernel` (the unsafe calls),
//!   [`realtime`].
//! - One direction, without I/O: `direction`, with `loss`, `outage`, `queue`, `cross`, `propagation`,
//!   `jitter`; `draw` makes random numbers.
//! - Packets: `packet` (cutting and merging, memory of packets in flight).
//! - Running: `emulation` (the thread), [`emulator`] (its handle), `control` (the socket), [`counters`]
//!   (counters and the validity of a run), `self_test`.

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
#[expect(unsafe_code, reason = "TUN devices, real-time scheduling and shutdowns have no safe wrapper")]
mod kernel;
mod loss;
mod middlebox;
mod outage;
mod packet;
mod propagation;
mod queue;
pub mod realtime;
mod self_test;
pub mod spec;

pub use self::command::{Args, main};
pub use self::kernel::shut_down;
