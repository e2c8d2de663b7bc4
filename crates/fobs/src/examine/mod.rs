//! What an end finds out of itself, and what it sends and takes while the path is tried.
//!
//! ```text
//!   host      kernel, sockets, interface, walls
//!   speed     ciphers and hash on one core
//!   packets   sealed and sent, received and opened, on one core
//!   disk      a file without a name, written and read
//!   stream    data made in memory and thrown away there, for a session that tries the path
//! ```

mod disk;
mod host;
mod packets;
mod speed;
mod stream;

pub(crate) use disk::DiskProbe;
pub use host::walls_here;
pub(crate) use host::{clock_s, examine, interface, memory};
pub use stream::PROBE_MAX;
pub(crate) use stream::{Nowhere, Zeros};
