//! AIMD (RFC 5681): a packet more in each round trip, half of the window at a loss.

use super::window::{Reaction, Window};
use super::{AckSample, Controller, LossEpisode};
use crate::Rate;

/// The controller.
#[derive(Debug)]
pub struct Aimd {
    window: Window,
}

impl Aimd {
    /// A controller with packets of `packet_len` datagram bytes.
    pub fn new(packet_len: u16) -> Aimd {
        Aimd { window: Window::new(packet_len) }
    }
}

impl Controller for Aimd {
    fn name(&self) -> &'static str {
        "aimd"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let acked = self.window.on_ack(ack);
        let packets = self.window.packets();
        self.window.set(packets + acked / packets);
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        let half = self.window.packets() / 2.0;
        match self.window.on_loss(loss) {
            Reaction::None => {}
            Reaction::Reduce => self.window.reduce(half),
            Reaction::Collapse => self.window.collapse(half),
        }
    }

    fn congestion_window(&self) -> u64 {
        self.window.bytes()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.window.pacing_rate())
    }

    fn state(&self) -> &'static str {
        self.window.state()
    }
}
