//! Which packet numbers have arrived, and which of them an ack reports: those that arrived lately, whatever
//! their place. On a path that reorders far, what arrives late lies far below the largest number, behind more
//! gaps than an ack holds.

use crate::PacketNumber;
use crate::object::RangeSet;
use crate::wire::{RANGES_MAX, REPLAY_WINDOW};
use std::collections::VecDeque;

/// Ranges that are remembered: two paths of equal shares leave a gap for every fourth packet, so 32,000
/// packets of one ahead of the other. Beyond that the lowest are forgotten, which is reported as not arrived.
const GAPS_MAX: usize = 8192;
/// Runs of delayed arrivals that are remembered; beyond that the oldest are forgotten.
const RUNS_MAX: usize = 4096;

/// The numbers.
#[derive(Debug)]
pub(super) struct Arrivals {
    numbers: RangeSet,
    /// The newest arrivals as runs of consecutive numbers, in the order of arrival, and how many numbers they
    /// have and may have.
    recent: VecDeque<(PacketNumber, PacketNumber)>,
    count: u64,
    keep: u64,
}

impl Arrivals {
    /// None yet; acks report the last `keep` (at least 1).
    pub(super) fn new(keep: u64) -> Arrivals {
        let numbers = RangeSet::new(GAPS_MAX);
        Arrivals { numbers, recent: VecDeque::new(), count: 0, keep: keep.max(1) }
    }

    /// The largest number.
    pub(super) fn largest(&self) -> Option<PacketNumber> {
        self.numbers.largest()
    }

    /// A packet arrived.
    pub(super) fn insert(&mut self, number: PacketNumber) {
        if !self.numbers.insert(number) {
            return;
        }
        match self.recent.back_mut() {
            Some(run) if run.1.checked_add(1) == Some(number) => run.1 = number,
            _ => self.recent.push_back((number, number)),
        }
        self.count += 1;
        while self.count > self.keep || self.recent.len() > RUNS_MAX {
            let Some(oldest) = self.recent.front_mut() else { return };
            self.count -= 1;
            if oldest.0 == oldest.1 {
                self.recent.pop_front();
            } else {
                oldest.0 += 1;
            }
        }
    }

    /// The ranges to report, inclusive, from the highest down; the first ends at the largest number.
    pub(super) fn report(&mut self) -> Vec<(PacketNumber, PacketNumber)> {
        let Some(largest) = self.numbers.largest() else { return Vec::new() };
        // What is older no receiver takes (protocol 3.5).
        self.numbers.remove_below(largest.saturating_sub(REPLAY_WINDOW));
        // Where all of them need more ranges than fit, the older ones go: acks before this one had those.
        let mut runs = self.recent.len();
        loop {
            match self.ranges_of(runs, largest) {
                Some(ranges) => return ranges,
                None => runs /= 2,
            }
        }
    }

    /// The ranges that have the newest `count` runs; `None` if those are too many for an ack.
    fn ranges_of(&self, count: usize, largest: PacketNumber) -> Option<Vec<(PacketNumber, PacketNumber)>> {
        let mut runs: Vec<_> = self.recent.iter().rev().take(count).copied().collect();
        runs.push((largest, largest));
        runs.sort_unstable_by_key(|run| std::cmp::Reverse(run.1));
        let mut ranges: Vec<(PacketNumber, PacketNumber)> = Vec::new();
        let mut within: Option<(PacketNumber, PacketNumber)> = None;
        for (low, high) in runs {
            match (within, ranges.last_mut()) {
                (Some(range), Some(last)) if range.0 <= high => last.0 = last.0.min(low.max(range.0)),
                _ => {
                    let Some(range) = self.numbers.range_of(high) else { continue };
                    if ranges.len() == RANGES_MAX {
                        return None;
                    }
                    ranges.push((low.max(range.0), range.1));
                    within = Some(range);
                }
            }
        }
        Some(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_report_has_what_arrived_lately_and_nothing_else(
            numbers in prop::collection::vec(0u64..400, 1..300),
            keep in 1u64..100,
        ) {
            let mut arrivals = Arrivals::new(keep);
            let (mut seen, mut order) = (BTreeSet::new(), Vec::new());
            for number in numbers {
                arrivals.insert(number);
                if seen.insert(number) {
                    order.push(number);
                }
            }
            let ranges = arrivals.report();
            prop_assert_eq!(ranges[0].1, *seen.last().expect("not empty"));
            prop_assert!(ranges.windows(2).all(|pair| pair[1].1 + 1 < pair[0].0), "{ranges:?}");
            let claimed: BTreeSet<u64> = ranges.iter().flat_map(|(low, high)| *low..=*high).collect();
            prop_assert!(claimed.is_subset(&seen));
            for number in order.iter().rev().take(keep as usize) {
                prop_assert!(claimed.contains(number), "{number} of {ranges:?}");
            }
        }
    }

    #[test]
    fn late_arrivals_far_below_are_reported() {
        let mut arrivals = Arrivals::new(1024);
        // One path has even numbers, the other odd ones and is 10,000 packets behind.
        for n in 0..20_000u64 {
            arrivals.insert(2 * n);
            if n >= 5000 {
                arrivals.insert(2 * (n - 5000) + 1);
            }
        }
        let ranges = arrivals.report();
        assert!(ranges.len() <= RANGES_MAX, "{}", ranges.len());
        let newest_late = 2 * (20_000 - 1 - 5000) + 1;
        assert!(
            ranges.iter().any(|(low, high)| (*low..=*high).contains(&newest_late)),
            "{:?}",
            ranges.last()
        );
    }

    #[test]
    fn numbers_in_order_are_one_range_of_what_is_kept() {
        let mut arrivals = Arrivals::new(1024);
        (0..5000).for_each(|number| arrivals.insert(number));
        assert_eq!(arrivals.report(), [(5000 - 1024, 4999)]);
        assert_eq!(arrivals.recent.len(), 1);
    }
}
