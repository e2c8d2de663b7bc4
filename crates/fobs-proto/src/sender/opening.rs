//! The wait between the first ping and the first data: the ping leaves at once, the data when the first chunk
//! has been read. The receiver's counters begin with the ping, so without a correction the wait would make
//! the first train look slower.

use crate::recovery::{Acked, DeliveryRate};
use crate::{PacketNumber, Timestamp};
use std::time::Duration;

/// The first ping and the first data packet.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// The first data packet, and when it left.
    data: Option<(PacketNumber, Timestamp)>,
    /// When the newest packet left that was acknowledged before that.
    pinged: Option<Timestamp>,
}

impl Opening {
    /// A data packet leaves. Reports from before the first one are moved up to it.
    pub(super) fn on_data(&mut self, number: PacketNumber, now: Timestamp, delivery: &mut DeliveryRate) {
        if self.data.is_none() {
            self.data = Some((number, now));
            delivery.shift(self.pinged.map_or(Duration::ZERO, |pinged| now - pinged));
        }
    }

    /// How much later a report would have come if its newest packet had left with the first data,
    /// microseconds.
    pub(super) fn wait_after(&mut self, newest: &Acked) -> u64 {
        match self.data {
            Some((first, at)) if newest.number < first => (at - newest.sent.at).as_micros() as u64,
            Some(_) => 0,
            None => {
                self.pinged = Some(newest.sent.at);
                0
            }
        }
    }
}
