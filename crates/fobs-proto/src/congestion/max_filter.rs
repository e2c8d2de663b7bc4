//! The largest of recent values.

use std::collections::VecDeque;

/// The maximum over the last `window` ticks; values that can no longer be the maximum are dropped, so it holds at most
/// `window` of them.
#[derive(Debug, Clone)]
pub(super) struct MaxFilter<T> {
    window: u64,
    values: VecDeque<(u64, T)>,
}

impl<T: Copy + PartialOrd> MaxFilter<T> {
    pub(super) fn new(window: u64) -> Self {
        MaxFilter { window, values: VecDeque::new() }
    }

    /// Takes a value at a tick; ticks never go back.
    pub(super) fn update(&mut self, tick: u64, value: T) {
        while self.values.back().is_some_and(|(_, v)| *v <= value) {
            self.values.pop_back();
        }
        self.values.push_back((tick, value));
        while self.values.front().is_some_and(|(t, _)| t + self.window <= tick) {
            self.values.pop_front();
        }
    }

    /// Forgets everything but this value.
    pub(super) fn reset(&mut self, tick: u64, value: T) {
        self.values.clear();
        self.values.push_back((tick, value));
    }

    pub(super) fn max(&self) -> Option<T> {
        self.values.front().map(|(_, v)| *v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_the_maximum_of_the_window(values in prop::collection::vec((0u64..3, 0u32..100), 1..100), window in 1u64..12) {
            let (mut filter, mut all, mut tick) = (MaxFilter::new(window), vec![], 0);
            for (step, value) in values {
                tick += step;
                all.push((tick, value));
                filter.update(tick, value);
                let expected = all.iter().filter(|(t, _)| t + window > tick).map(|(_, v)| *v).max();
                prop_assert_eq!(filter.max(), expected);
            }
        }
    }
}
