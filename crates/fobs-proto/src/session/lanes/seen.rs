//! What a schedule needs to know of a lane's sender.

use crate::sender::Sender;
use crate::session::round_trip_bytes;
use crate::{PacketNumber, Rate};
use std::time::Duration;

/// A lane as its sender measures it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneSeen {
    /// Bytes per second that it sends; `None` before the first round trip.
    pub rate: Option<Rate>,
    /// Smoothed round trip; zero before the first.
    pub round_trip: Duration,
    /// Bytes of its chunks that were never sent.
    pub unsent: u64,
    /// Those, and bytes in flight.
    pub left: u64,
    /// The largest packet number acknowledged.
    pub answered: Option<PacketNumber>,
    /// Whether something was sent that waits for its answer.
    pub awaits_answer: bool,
}

impl LaneSeen {
    /// Of a lane's machine.
    pub fn of(machine: &Sender) -> LaneSeen {
        let round_trip = machine.rtt().latest().map(|_| machine.rtt().smoothed());
        let unsent = machine.bytes_unsent();
        LaneSeen {
            rate: round_trip.and_then(|time| Rate::of(round_trip_bytes(machine), time)),
            round_trip: round_trip.unwrap_or_default(),
            unsent,
            left: unsent.saturating_add(machine.bytes_in_flight()),
            answered: machine.largest_acked(),
            // What was lost, and is not sent again because a device is down, waits for its answer as what is
            // in flight does: else such a lane would never count as silent.
            awaits_answer: machine.awaits_answer() || machine.datagrams_owe_data(),
        }
    }
}
