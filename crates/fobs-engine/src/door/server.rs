//! The server's door: only the client can connect, so it asks for that and takes what its gate admits.

use fobs_sys::Waker;

use super::Gate;
use crate::streams::{Door, DoorEvent, NewStream, StreamIo};
use fobs_channel::control::{ChannelLane, ControlWriter, DoorMailbox};
use fobs_model::error::{Error, ErrorKind};
use fobs_model::message::Message;

/// How much of a client's reason is shown, characters.
const REASON_CHARS_MAX: usize = 200;

/// The door of a session at the server.
pub struct ServerDoor {
    /// Who may open a stream.
    pub gate: Gate,
    /// The stream inside the control channel, until it is taken; `None` where it is not used.
    pub lane: Option<ChannelLane>,
    /// What the client says of streams.
    pub mailbox: DoorMailbox,
    /// Where it is asked for streams.
    pub writer: ControlWriter,
    /// What keeps the way in open: a port, or a place in the daemon's register. `None` where there is only
    /// the lane.
    pub entrance: Option<Box<dyn Send>>,
    /// What the client was last asked for.
    pub asked: u32,
}

impl Door for ServerDoor {
    fn attach(&mut self, waker: Waker) {
        self.gate.attach(waker.clone());
        self.mailbox.attach(waker);
    }

    fn want(&mut self, open_at_once: u32) {
        // A channel that is full takes the wish with a later call; one that is over ends the session.
        if open_at_once != self.asked
            && self.entrance.is_some()
            && self.writer.post(&Message::WantStreams { count: open_at_once }).is_ok()
        {
            self.asked = open_at_once;
        }
    }

    fn closed(&mut self, index: u16) {
        self.gate.closed(index);
    }

    fn poll(&mut self) -> Option<DoorEvent> {
        if let Some(lane) = self.lane.take() {
            return Some(DoorEvent::Opened(NewStream { index: 0, io: StreamIo::Channel(lane) }));
        }
        if let Some(stream) = self.gate.poll() {
            return Some(DoorEvent::Opened(stream));
        }
        let reason = self.mailbox.take().failed?;
        let reason = fobs_model::text::printable(&reason, REASON_CHARS_MAX);
        Some(DoorEvent::Failed(Error::new(ErrorKind::Connect, format!("the client says: {reason}"))))
    }
}
