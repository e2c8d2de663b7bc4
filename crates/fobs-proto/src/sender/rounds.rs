//! Round trips, counted by packets.

use crate::PacketNumber;

/// A round trip is over when a packet is acknowledged that was sent after it began.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    end: PacketNumber,
}

impl Rounds {
    /// Packet `newest` is acknowledged, `next` would be sent next: whether a round trip begins.
    pub(super) fn on_ack(&mut self, newest: PacketNumber, next: PacketNumber) -> bool {
        let begins = newest >= self.end;
        if begins {
            self.end = next;
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_begins_with_a_packet_sent_in_the_last_one() {
        let mut rounds = Rounds::default();
        assert!(rounds.on_ack(0, 10));
        assert!(!rounds.on_ack(9, 20));
        assert!(rounds.on_ack(10, 25));
        assert!(!rounds.on_ack(24, 30));
    }
}
