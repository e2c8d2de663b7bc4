//! A sparse set of numbers as ascending ranges, with a bound: which packet numbers have arrived.

use std::collections::VecDeque;

/// Inclusive ranges, ascending, never touching. At most `ranges_max`: past that the lowest is forgotten,
/// because the newest numbers are the ones that a report is about.
#[derive(Debug, Clone)]
pub struct RangeSet {
    ranges: VecDeque<(u64, u64)>,
    ranges_max: usize,
}

impl RangeSet {
    /// An empty set of at most `ranges_max` (at least 1) ranges.
    pub fn new(ranges_max: usize) -> RangeSet {
        RangeSet { ranges: VecDeque::new(), ranges_max: ranges_max.max(1) }
    }

    /// Adds `n`; whether it was new.
    pub fn insert(&mut self, n: u64) -> bool {
        // Numbers arrive nearly in order: look at the top first.
        let at = match self.ranges.back() {
            Some(last) if last.0 > n => self.ranges.partition_point(|range| range.0 <= n),
            _ => self.ranges.len(),
        };
        let joins_below = at > 0 && self.ranges[at - 1].1.saturating_add(1) >= n;
        if joins_below && self.ranges[at - 1].1 >= n {
            return false;
        }
        let joins_above = at < self.ranges.len() && self.ranges[at].0 == n.saturating_add(1);
        match (joins_below, joins_above) {
            (true, true) => {
                self.ranges[at - 1].1 = self.ranges[at].1;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].1 = n,
            (false, true) => self.ranges[at].0 = n,
            (false, false) => {
                self.ranges.insert(at, (n, n));
                if self.ranges.len() > self.ranges_max {
                    self.ranges.pop_front();
                }
            }
        }
        true
    }

    /// Forgets everything below `n`.
    pub fn remove_below(&mut self, n: u64) {
        while let Some(first) = self.ranges.front_mut() {
            if first.1 < n {
                self.ranges.pop_front();
            } else {
                first.0 = first.0.max(n);
                break;
            }
        }
    }

    /// The range that has `n`.
    pub fn range_of(&self, n: u64) -> Option<(u64, u64)> {
        let after = self.ranges.partition_point(|range| range.0 <= n);
        self.ranges.get(after.checked_sub(1)?).copied().filter(|range| range.1 >= n)
    }

    /// The largest number.
    pub fn largest(&self) -> Option<u64> {
        self.ranges.back().map(|r| r.1)
    }

    /// Ranges from the highest down, inclusive.
    pub fn descending(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().rev().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn members(set: &RangeSet) -> BTreeSet<u64> {
        set.descending().flat_map(|(a, b)| a..=b).collect()
    }

    proptest! {
        #[test]
        fn behaves_as_a_set(ops in prop::collection::vec(0u64..300, 0..300), below in 0u64..320) {
            let mut set = RangeSet::new(1000);
            let mut model = BTreeSet::new();
            for n in ops {
                prop_assert_eq!(set.insert(n), model.insert(n));
            }
            prop_assert_eq!(members(&set), model.clone());
            prop_assert_eq!(set.largest(), model.last().copied());
            for n in 0..300 {
                prop_assert_eq!(set.range_of(n).is_some(), model.contains(&n));
            }
            let ranges: Vec<_> = set.descending().collect();
            prop_assert!(ranges.windows(2).all(|w| w[1].1 + 1 < w[0].0), "ranges touch");
            set.remove_below(below);
            model.retain(|n| *n >= below);
            prop_assert_eq!(members(&set), model);
        }

        #[test]
        fn forgets_only_the_lowest_when_full(ops in prop::collection::vec(0u64..400, 0..300), max in 1usize..8) {
            let mut set = RangeSet::new(max);
            let mut seen = BTreeSet::new();
            for n in ops {
                set.insert(n);
                seen.insert(n);
                prop_assert!(set.descending().count() <= max);
                prop_assert!(members(&set).is_subset(&seen));
            }
        }
    }
}
