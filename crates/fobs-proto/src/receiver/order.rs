//! How far packets come behind later ones.

use crate::{PacketNumber, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// Least time between two entries that are remembered.
const GRAIN: Duration = Duration::from_micros(100);
/// Entries that are remembered: at least 25 ms, beyond what paths do.
const ENTRIES_MAX: usize = 256;

/// Counts of packets that came after later ones.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The largest number so far at some moments, in order.
    largest: VecDeque<(PacketNumber, Timestamp)>,
    /// Packets that came after later ones.
    pub(super) packets: u64,
    /// Longest time that one came after a later one.
    pub(super) behind_max: Duration,
}

impl Order {
    /// A packet that arrived.
    pub(super) fn on_packet(&mut self, number: PacketNumber, arrived: Timestamp) {
        match self.largest.back_mut() {
            Some((largest, _)) if number < *largest => {
                self.packets += 1;
                let overtaken = self.largest.partition_point(|(other, _)| *other < number);
                if let Some((_, since)) = self.largest.get(overtaken) {
                    self.behind_max = self.behind_max.max(arrived - *since);
                }
            }
            // The earlier moment stands for the numbers that follow within the grain: lateness is at most
            // that much too long.
            Some((largest, since)) if arrived - *since < GRAIN => *largest = number,
            _ => {
                if self.largest.len() == ENTRIES_MAX {
                    self.largest.pop_front();
                }
                self.largest.push_back((number, arrived));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_behind_later_ones_are_counted_and_timed() {
        let mut order = Order::default();
        let at = |us| Timestamp::ZERO + Duration::from_micros(us);
        for (number, us) in [(0, 0), (1, 1000), (4, 2000), (5, 3000), (2, 3500), (3, 3600), (6, 4000)] {
            order.on_packet(number, at(us));
        }
        assert_eq!(order.packets, 2);
        assert_eq!(order.behind_max, Duration::from_micros(1600), "3 came 1.6 ms after 4");
    }

    #[test]
    fn memory_is_bounded() {
        let mut order = Order::default();
        for number in 0..10_000u64 {
            order.on_packet(number, Timestamp::ZERO + Duration::from_millis(number));
        }
        assert_eq!((order.largest.len(), order.packets), (ENTRIES_MAX, 0));
    }
}
