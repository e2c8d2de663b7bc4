//! A peer that changes its address (protocol 5.11): the driver validates it, with packets of its own.

use super::Sender;
use crate::{PacketNumber, Timestamp};

impl Sender {
    /// A packet of the driver's own leaves now, of this many datagram bytes; it is acknowledged as a probe
    /// is. Its number; `None` if no more packets can be outstanding.
    pub fn take_number(&mut self, now: Timestamp, datagram: u16) -> Option<PacketNumber> {
        if self.flight.is_full() {
            return None;
        }
        let packet = self.flight.send_probe(now, datagram, self.way_back.ratio());
        self.on_burst(now, &[packet]);
        Some(packet.number)
    }

    /// The peer has another address: silence so far says nothing of the path there, so packets leave at once.
    pub fn handle_moved(&mut self, now: Timestamp) {
        self.probe_timeout.on_moved(now);
        self.pace.on_return(now);
    }
}
