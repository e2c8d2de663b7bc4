//! Streams: TCP connections, or the control channel, that carry data beside the datagrams or in their place
//! (protocol 10). One thread of each end, `fobs-streams`, reads and writes all of them.
//!
//! ```text
//!   door      where streams come from: the seam to client, server and daemon
//!   record    sealed records, cut out of a stream of bytes
//!   wire      a connection or the control channel, without blocking
//!   stream    a wire with its keys
//!   pool      all streams of an end: admitted, waited for, let go
//!   outgoing  the sender's thread: a free stream takes the next frame; deliveries, losses, late frames
//!   incoming  the receiver's thread: frames come out, reports go back
//!   allotment which stream takes which frame
//!   totals    what the kernel reports of all of them
//!   tuning    what is asked of the kernel for a connection
//! ```

mod allotment;
mod door;
mod incoming;
mod outgoing;
mod pool;
mod record;
mod stream;
mod totals;
mod tuning;
mod wire;

pub use allotment::Allotment;
pub use door::{Door, DoorEvent, NewStream, STREAMS_MAX, StreamIo, StreamSetup};
pub use incoming::{Incoming, out_of_range};
pub(super) use outgoing::{FrameJob, OutNews, Outgoing, StreamFigures};
pub use tuning::permitted;

use fobs_model::error::{Error, ErrorKind};
use std::time::Duration;

/// Longest sleep of the streams' thread: the door is looked at a few times a second.
const TURN_MAX: Duration = Duration::from_millis(100);
/// How often the kernel is asked about each connection, as often as the ends take samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

fn no_waker(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Internal, error.to_string())
}
