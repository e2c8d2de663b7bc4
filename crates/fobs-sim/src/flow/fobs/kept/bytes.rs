//! A set of an object's bytes, as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that neither overlap nor touch: begin to end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::flow::fobs) struct Bytes(BTreeMap<u64, u64>);

impl Bytes {
    /// Adds a range.
    pub(in crate::flow::fobs) fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        while let Some((&from, &until)) =
            self.0.range(..=end).next_back().filter(|(_, until)| **until >= start)
        {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(until));
        }
        self.0.insert(start, end);
    }

    /// Adds all of another set.
    pub(in crate::flow::fobs) fn extend(&mut self, other: &Bytes) {
        other.0.iter().for_each(|(from, until)| self.insert(*from..*until));
    }

    /// How many bytes from `start` on both sets have.
    pub(in crate::flow::fobs) fn shared(&self, other: &Bytes, start: u64) -> u64 {
        let of = |(from, until): (&u64, &u64)| {
            // The range before the first that begins inside may reach into it.
            let first = other.0.range(..=*from).next_back().map_or(*from, |(from, _)| *from);
            let overlap = |(a, b): (&u64, &u64)| (*b).min(*until).saturating_sub((*a).max(*from).max(start));
            other.0.range(first..*until).map(overlap).sum::<u64>()
        };
        self.0.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn behaves_as_a_set_of_numbers() {
        let mut rng = Rng::new(3);
        for _ in 0..200 {
            let mut sets = [Bytes::default(), Bytes::default()];
            let mut models = [BTreeSet::new(), BTreeSet::new()];
            for _ in 0..rng.range(0, 12) {
                let (side, from) = (rng.range(0, 1) as usize, rng.range(0, 60));
                let range = from..from + rng.range(0, 9);
                sets[side].insert(range.clone());
                models[side].extend(range);
            }
            let start = rng.range(0, 40);
            let shared = models[0].intersection(&models[1]).filter(|n| **n >= start).count() as u64;
            assert_eq!(sets[0].shared(&sets[1], start), shared, "{sets:?}");
            let [mut all, other] = sets;
            all.extend(&other);
            let union = models[0].union(&models[1]).count() as u64;
            assert_eq!(all.shared(&all, 0), union, "{all:?}");
        }
    }
}
