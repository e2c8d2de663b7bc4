//! The receiving thread and its streams: frames in, reports out.

use super::Receiving;
use super::lanes::LaneQuay;
use crate::Link;
use crate::failure::StreamsTried;
use crate::lanes::LanesSetup;
use crate::letters::{Post, ToReceiver};
use crate::streams::{Incoming, StreamSetup, out_of_range};
use fobs_model::error::Result;
use fobs_proto::Timestamp;
use fobs_proto::receiver::{Disposition, Reject};
use fobs_proto::wire::Ack;
use std::time::Duration;

/// Frames taken between two looks at the mailbox and the socket: 4 MiB, half of what may wait.
const FRAMES_PER_TURN: usize = 64;

/// Streams by which something came within this time get the acks too; and so they do where no datagram came
/// within the other: then an ack may be all that the sender waits for.
const STREAMS_RECENT: Duration = Duration::from_secs(10);
const DATAGRAMS_RECENT: Duration = Duration::from_secs(1);

/// Starts the thread of the streams, where there may be any.
pub(super) fn start(
    setup: Option<StreamSetup>,
    lanes: Option<&LanesSetup>,
    link: &Link,
    post: &Post<ToReceiver>,
) -> Result<(Option<Incoming>, StreamsTried)> {
    let Some(setup) = setup else { return Ok((None, StreamsTried::without(lanes))) };
    let alarm = post.alarm(ToReceiver::StoreFailed);
    let incoming = Incoming::start(setup, link.clock(), link.waker(), alarm)?;
    Ok((Some(incoming), StreamsTried::Yes(None)))
}

impl Receiving {
    /// Takes the frames that have come, a bounded number of them, and has them reported.
    ///
    /// # Errors
    /// `Protocol` for an authentic frame that is out of the range of the data.
    pub(super) fn take_frames(&mut self) -> Result<()> {
        let Some(streams) = &mut self.streams else { return Ok(()) };
        streams.take_failures().into_iter().for_each(|why| self.peer.stream_failed(why));
        let now = self.link.clock().now();
        for taken in 0..FRAMES_PER_TURN {
            let Some(frame) = streams.next()? else { break };
            let data = frame.data();
            for (header, range) in frame.header.packets(data.len()) {
                let len = range.len();
                let disposition = self.machine.handle_framed(now, &header, len);
                let (offset, completes) = match disposition {
                    Disposition::Store { offset, completes } => (offset, completes),
                    Disposition::Duplicate | Disposition::Reject(Reject::OldAttempt) => continue,
                    Disposition::Reject(Reject::NoRoom | Reject::Geometry) => return Err(out_of_range()),
                };
                self.arrivals.store(now, &header, offset, &data[range], completes)?;
            }
            streams.taken(frame);
            if taken + 1 == FRAMES_PER_TURN {
                // There may be more: the socket comes first, but the thread must not sleep.
                self.link.waker().wake();
            }
        }
        streams.report(None);
        if let Some(ack) = self.machine.poll_ack(now) {
            self.send_ack(&ack)?;
        }
        self.hand_over_complete()
    }

    /// Sends an ack by streams too, where data comes by them, or none comes in datagrams: else the control
    /// channel would carry every ack of a transfer over UDP.
    pub(super) fn send_ack_by_streams(&self, ack: &Ack) {
        let Some(streams) = &self.streams else { return };
        let now = self.link.clock().now();
        let within = |heard: Option<Timestamp>, span| heard.is_some_and(|at| now - at < span);
        if within(streams.heard(), STREAMS_RECENT) || !within(self.link.last_heard(), DATAGRAMS_RECENT) {
            streams.report(Some(ack.clone()));
        }
    }

    /// The peer's newest sign of life, by either way.
    pub(super) fn last_heard(&self) -> Option<Timestamp> {
        let lanes = self.lanes.as_ref().and_then(LaneQuay::last_heard);
        self.link.last_heard().max(self.streams.as_ref().and_then(Incoming::heard)).max(lanes)
    }
}
