//! What carries a packet at present: its newest transmission, by datagram or by frame.

use crate::PacketNumber;

/// Tells frames from datagrams. 31 bits are left for the number: 2^18 transmissions are remembered
/// (`recovery::in_flight`), and as many frames at most.
const FRAME: u32 = 1 << 31;

/// The newest transmission of a packet: the loss of an older one changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Carrier(u32);

impl Carrier {
    /// No transmission yet.
    pub(super) const NONE: Carrier = Carrier(0);

    /// The datagram of this number.
    pub(super) fn datagram(number: PacketNumber) -> Carrier {
        Carrier(number as u32 & !FRAME)
    }

    /// The frame of this id.
    pub(super) fn frame(id: u64) -> Carrier {
        Carrier(id as u32 | FRAME)
    }

    pub(super) fn is_frame(self) -> bool {
        self.0 & FRAME != 0
    }

    /// Whether this is a datagram later than `number`; both are less than 2^30 apart.
    pub(super) fn is_later_than(self, number: PacketNumber) -> bool {
        let ahead = self.0.wrapping_sub(number as u32) << 1;
        !self.is_frame() && ahead as i32 > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_datagrams_of_one_number_differ() {
        assert_ne!(Carrier::frame(5), Carrier::datagram(5));
        assert!(Carrier::frame(5).is_frame() && !Carrier::datagram(5).is_frame());
        assert!(!Carrier::datagram(u64::MAX).is_frame());
    }

    #[test]
    fn later_numbers_are_recognised_across_the_wrap() {
        for base in [0u64, 1 << 30, (1 << 31) - 2, (1 << 32) - 1, 1 << 40] {
            assert!(Carrier::datagram(base + 1).is_later_than(base), "{base}");
            assert!(Carrier::datagram(base + (1 << 22)).is_later_than(base), "{base}");
            assert!(!Carrier::datagram(base).is_later_than(base), "{base}");
            assert!(!Carrier::datagram(base).is_later_than(base + 7), "{base}");
            assert!(!Carrier::frame(base + 1).is_later_than(base), "{base}");
        }
    }
}
