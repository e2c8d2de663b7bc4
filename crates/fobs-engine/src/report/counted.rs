//! What senders count, over several sessions.

use fobs_model::sample::SenderSample;

/// What the sender counted in a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Data packets.
    pub packets_sent: u64,
    /// Those of them that were lost.
    pub packets_lost: u64,
    /// Datagrams that the receiver's kernel dropped at the socket.
    pub socket_drops: u64,
    /// Smallest round-trip time, 0 if unknown.
    pub rtt_min_us: u64,
}

impl Counted {
    pub(super) fn of(sample: &SenderSample) -> Counted {
        let SenderSample { packets_sent, packets_lost, socket_drops, rtt_min_us, .. } = *sample;
        Counted { packets_sent, packets_lost, socket_drops, rtt_min_us }
    }

    /// The sum with those of another session. A peer's figures may be anything.
    pub fn with(self, other: Counted) -> Counted {
        Counted {
            packets_sent: self.packets_sent.saturating_add(other.packets_sent),
            packets_lost: self.packets_lost.saturating_add(other.packets_lost),
            socket_drops: self.socket_drops.saturating_add(other.socket_drops),
            rtt_min_us: match (self.rtt_min_us, other.rtt_min_us) {
                (0, rtt) | (rtt, 0) => rtt,
                (one, other) => one.min(other),
            },
        }
    }
}
