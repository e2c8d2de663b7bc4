//! What a receiving end measures of itself.

use super::Receiving;
use crate::flow::fobs::measured::{ReceiverMeasures, ThreadTime, stood};
use crate::time::Nanos;

impl Receiving {
    /// What it measures of itself.
    pub(in crate::flow::fobs) fn measures(&self, now: Nanos) -> ReceiverMeasures {
        ReceiverMeasures {
            thread: ThreadTime {
                ran: self.cpu.ran(),
                off: self.cpu.off(),
                stood: stood(&self.host.cpu, now),
            },
            writer: self.writer.worked(),
            stats: self.machine.stats(),
            socket_drops: self.socket.drops(),
            buffer: self.host.receive_buffer,
            backlog: self.machine.backlog(),
        }
    }
}
