//! What the body of a probe asks of the acks (protocol 4.3).

use std::time::Duration;

/// Highest exponent: acks 320 ms apart where 5 ms are usual, which suits a way back of 20 kbit/s.
const EXPONENT_MAX: u8 = 6;
/// Packets after which even a rarer ack leaves: half of what each ack reports, so that one may be lost.
const PACKETS_MAX: u32 = 512;

/// How much longer acks wait than usual: 2^n times. RFC 5690 has such a ratio for TCP, counted in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AckRatio(u8);

impl AckRatio {
    /// As usual.
    pub const USUAL: AckRatio = AckRatio(0);
    /// 64 times as long.
    pub const RAREST: AckRatio = AckRatio(EXPONENT_MAX);

    /// Acks that wait 2^`exponent` times as long as usual; at most 64 times.
    pub fn new(exponent: u8) -> AckRatio {
        AckRatio(exponent.min(EXPONENT_MAX))
    }

    /// What a probe asks for; an empty body asks for nothing.
    pub fn from_probe(body: &[u8]) -> Option<AckRatio> {
        body.first().map(|exponent| AckRatio::new(*exponent))
    }

    /// The exponent, as it is on the wire.
    pub fn exponent(self) -> u8 {
        self.0
    }

    /// Packets after which an ack leaves where `usual` are usual. Rarer ones leave by time, or a sender that
    /// becomes faster would fill the way back again.
    pub fn packets(self, usual: u32) -> u32 {
        if self == AckRatio::USUAL { usual } else { usual.max(PACKETS_MAX) }
    }

    /// How long an ack may wait where `usual` is usual.
    pub fn delay(self, usual: Duration) -> Duration {
        usual * (1 << self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_get_rarer_within_bounds() {
        let usual = Duration::from_millis(5);
        let ratios = [0, 1, 3, 6, 255].map(AckRatio::new);
        assert_eq!(ratios.map(|r| r.packets(64)), [64, 512, 512, 512, 512]);
        assert_eq!(ratios.map(|r| r.delay(usual).as_millis()), [5, 10, 40, 320, 320]);
        assert_eq!(AckRatio::new(2).packets(1000), 1000, "a user may ask for rarer ones");
    }

    #[test]
    fn a_probe_asks_with_its_first_byte() {
        assert_eq!(AckRatio::from_probe(&[]), None);
        assert_eq!(AckRatio::from_probe(&[0, 0, 0]), Some(AckRatio::USUAL));
        assert_eq!(AckRatio::from_probe(&[200]), Some(AckRatio::new(6)));
    }
}
