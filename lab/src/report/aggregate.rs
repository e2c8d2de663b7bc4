//! Aggregates repeated runs: the median and the spread.

/// Median and range of a measure over its valid runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median; of an even number of values, the mean of the middle two.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
    /// Number of values, at least 1.
    pub count: usize,
}

impl Spread {
    /// Spread of these values, in any order; NaN and infinite values are ignored. `None` if no value remains.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (below, above) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Spread { median: f64::midpoint(below, above), min, max, count: values.len() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Removes minimum and maximum in turn until one or two values are left.
    fn naive(values: &[f64]) -> Option<(f64, f64, f64)> {
        let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut left = values.to_vec();
        while left.len() > 2 {
            for end in [least(&left), greatest(&left)] {
                let at = left.iter().position(|value| *value == end).unwrap();
                left.remove(at);
            }
        }
        let median = left.iter().sum::<f64>() / left.len() as f64;
        (!values.is_empty()).then(|| (median, least(values), greatest(values)))
    }

    proptest! {
        #[test]
        fn the_spread_equals_a_naive_computation(values in proptest::collection::vec(0.0..1e9_f64, 0..12)) {
            let spread = Spread::of(values.clone());
            match naive(&values) {
                None => prop_assert!(spread.is_none()),
                Some((median, min, max)) => {
                    let spread = spread.unwrap();
                    prop_assert_eq!((spread.min, spread.max, spread.count), (min, max, values.len()));
                    prop_assert!((spread.median - median).abs() <= 1e-6 * median.abs().max(1.0));
                }
            }
        }
    }

    #[test]
    fn values_that_are_not_numbers_are_ignored() {
        let spread = Spread::of([f64::NAN, 3.0, f64::INFINITY, 1.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.0, min: 1.0, max: 3.0, count: 2 });
        assert_eq!(Spread::of([f64::NAN]), None);
    }
}
