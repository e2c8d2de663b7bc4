//! Streams: TCP connections, or the control channel, that carry data beside the datagrams or in their place.
//!
//! ```text
//!   door      where streams come from: the seam to client, server and daemon
//! ```

#![allow(dead_code, reason = "the sessions do not make streams yet")]

mod allotment;
mod door;

#[allow(unused_imports, reason = "as above")]
pub(crate) use allotment::Allotment;
#[allow(unused_imports, reason = "as above")]
pub(crate) use door::{Door, DoorEvent, NewStream, STREAMS_MAX, StreamIo, StreamSetup, TransportChoice};

/// Longest record on a stream behind its length, bytes: 64 KiB of data, header and tag.
pub(crate) const RECORD_LEN_MAX: usize = 66_000;
