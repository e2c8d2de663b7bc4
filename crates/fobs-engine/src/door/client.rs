//! The client's door: the lane in the control channel at once, and what the dialer brings.

use fobs_sys::Waker;

use super::Dialer;
use crate::streams::{Door, DoorEvent, NewStream, StreamIo};
use fobs_channel::control::{ChannelLane, ControlWriter, DoorMailbox};
use fobs_model::message::Message;

/// The door of a session at the client.
pub struct ClientDoor {
    /// The stream inside the control channel, until it is taken; `None` where it is not used.
    pub lane: Option<ChannelLane>,
    /// `None` where only the lane is to be used.
    pub dialer: Option<Dialer>,
    /// What the server says of streams.
    pub mailbox: DoorMailbox,
    /// Where it is told what came of it.
    pub writer: ControlWriter,
    /// Whether the server asks for streams, because it sends the data; then it wants to know what fails.
    pub server_asks: bool,
}

impl Door for ClientDoor {
    fn attach(&mut self, waker: Waker) {
        if let Some(dialer) = &self.dialer {
            dialer.attach(waker.clone());
        }
        self.mailbox.attach(waker);
    }

    fn want(&mut self, open_at_once: u32) {
        if let Some(dialer) = &self.dialer {
            dialer.want(open_at_once);
        }
    }

    fn closed(&mut self, index: u16) {
        if let Some(dialer) = &self.dialer {
            dialer.closed(index);
        }
    }

    fn poll(&mut self) -> Option<DoorEvent> {
        if let Some(lane) = self.lane.take() {
            return Some(DoorEvent::Opened(NewStream { index: 0, io: StreamIo::Channel(lane) }));
        }
        if let Some(count) = self.mailbox.take().wanted
            && self.server_asks
        {
            self.want(count);
        }
        let event = self.dialer.as_ref()?.poll()?;
        if let DoorEvent::Failed(error) = &event
            && self.server_asks
        {
            // For its messages only; if it is lost, the next one says the same.
            self.writer.offer(&Message::StreamsFailed { reason: error.message.clone() });
        }
        Some(event)
    }
}
