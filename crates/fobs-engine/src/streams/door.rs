//! Where streams come from: the seam between the engine and those who connect and accept.

use super::Allotment;
use fobs_channel::control::ChannelLane;
use fobs_channel::secure::stream_keys::StreamKeys;
use fobs_model::error::Error;
use fobs_model::options::TcpTuning;
use fobs_proto::session::{StreamTarget, TransportChoice};
use fobs_sys::Waker;
use std::net::TcpStream;

/// Streams open at once, at most.
pub const STREAMS_MAX: u32 = 64;

/// What carries a stream.
pub enum StreamIo {
    /// A connection, behind its first bytes
    /// ([`STREAM_HELLO_LEN`](fobs_channel::secure::stream::STREAM_HELLO_LEN)), which are sent or checked.
    Tcp(TcpStream),
    /// The control channel.
    Channel(ChannelLane),
}

/// A stream that has just been opened.
pub struct NewStream {
    /// Its place among all streams of the session, which both ends know: never used twice.
    pub(crate) index: u16,
    pub(crate) io: StreamIo,
}

/// What came of an attempt.
pub enum DoorEvent {
    /// A stream is there.
    Opened(NewStream),
    /// A stream could not be had; the sentence says why.
    Failed(Error),
}

/// Makes streams: the client's dials, the server's asks the client and accepts. It works in threads of its
/// own; no method blocks.
pub trait Door: Send {
    /// Wakes this from now on when [`poll`](Self::poll) has something new. (It is also polled a few times a
    /// second.)
    fn attach(&mut self, waker: Waker);

    /// Sets how many streams are to be open at once, at most [`STREAMS_MAX`]. The door makes what is missing,
    /// with pauses that grow where it fails; the engine closes those in excess. A receiver takes what comes
    /// and does not call this.
    fn want(&mut self, open_at_once: u32);

    /// A stream that the door made is closed.
    fn closed(&mut self, index: u16);

    /// What came of the attempts since the last call.
    fn poll(&mut self) -> Option<DoorEvent>;
}

/// What a session needs for streams. Without it, the peer does not know them.
pub struct StreamSetup {
    /// What the user chose; the sender decides.
    pub choice: TransportChoice,
    /// How many connections, where the user does not say: for the sender.
    pub target: StreamTarget,
    /// Where streams come from.
    pub door: Box<dyn Door>,
    /// Their keys.
    pub keys: StreamKeys,
    /// How frames are given to streams.
    pub allotment: Allotment,
    /// How connections are set up.
    pub tuning: TcpTuning,
}
