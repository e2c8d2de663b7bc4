//! The numbers of `auto`: each stands once, in `table.rs`, with its unit, its range, its source and the
//! effect of a wrong value.
//!
//! The simulator sweeps them by name ([`Params::set`]). Durations are numbers of milliseconds and rates
//! numbers of Mbit/s there, the unit that the field's documentation names.

mod table;

pub use table::Params;

use crate::Rate;
use std::time::Duration;

/// Least round trips that a trend of delay consists of (`detect::burst`): all must rise.
pub(super) const TREND_POINTS: usize = 4;
/// Names that an error proposes at most.
const PROPOSALS_MAX: usize = 3;

/// A name or a value that [`Params`] does not take.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ParamError {
    /// No parameter has this name.
    #[error("there is no parameter {name:?}; the nearest are {}", near.join(", "))]
    Unknown {
        /// The name as given.
        name: String,
        /// Existing names, the most similar first.
        near: Vec<&'static str>,
    },
    /// The value is outside the parameter's range.
    #[error("{name} must be {low} to {high} ({unit}), not {value}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// The value as given.
        value: f64,
        /// The least value.
        low: f64,
        /// The largest value.
        high: f64,
        /// Unit of the three.
        unit: &'static str,
    },
    /// The parameter is a count.
    #[error("{name} must be a whole number ({unit}), not {value}")]
    NotWhole {
        /// The parameter.
        name: &'static str,
        /// The value as given.
        value: f64,
        /// Its unit.
        unit: &'static str,
    },
}

/// A type of field of [`Params`], as a number in the field's unit.
trait Value: Copy {
    /// As a number.
    fn number(self) -> f64;
    /// From a number in the field's range; `None` if it must be whole and is not.
    fn of(number: f64) -> Option<Self>;
}

impl Value for f64 {
    fn number(self) -> f64 {
        self
    }

    fn of(number: f64) -> Option<f64> {
        Some(number)
    }
}

macro_rules! whole {
    ($($type:ty)+) => {
        $(impl Value for $type {
            fn number(self) -> f64 {
                self as f64
            }

            fn of(number: f64) -> Option<$type> {
                (number.fract() == 0.0).then_some(number as $type)
            }
        })+
    };
}

whole!(u32 u64 usize);

impl Value for Duration {
    fn number(self) -> f64 {
        self.as_nanos() as f64 / 1e6
    }

    fn of(number: f64) -> Option<Duration> {
        Some(Duration::from_nanos((number * 1e6).round() as u64))
    }
}

impl Value for Rate {
    fn number(self) -> f64 {
        self.as_bytes() as f64 * 8.0 / 1e6
    }

    fn of(number: f64) -> Option<Rate> {
        Some(Rate::bytes_per_second((number * 1e6 / 8.0).round() as u64))
    }
}

/// A parameter's name, unit, and range.
struct Field {
    name: &'static str,
    unit: &'static str,
    low: f64,
    high: f64,
}

impl Field {
    fn check<T: Value>(self, value: f64) -> Result<T, ParamError> {
        let Field { name, unit, low, high } = self;
        if !(low..=high).contains(&value) {
            return Err(ParamError::OutOfRange { name, value, low, high, unit });
        }
        T::of(value).ok_or(ParamError::NotWhole { name, value, unit })
    }
}

/// The error for a name that does not exist.
fn unknown(name: &str) -> ParamError {
    let mut near = Params::NAMES.to_vec();
    near.sort_by_cached_key(|known| distance(known, name));
    near.truncate(PROPOSALS_MAX);
    ParamError::Unknown { name: name.to_owned(), near }
}

/// Least number of inserted, deleted and changed bytes that make one word the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_lies_in_its_range_and_is_set_to_itself() {
        let mut params = Params::default();
        for name in Params::NAMES {
            let value = params.get(name).expect("a listed name");
            params.set(name, value).expect("its own default");
        }
        assert_eq!(params, Params::default());
    }

    #[test]
    fn a_value_is_set_by_name_and_read_back() {
        let mut params = Params::default();
        params.set("queue_gain", 0.4).expect("a value of its range");
        params.set("drain_cycle_min", 1500.0).expect("a value of its range");
        assert_eq!(params.queue_gain, 0.4);
        assert_eq!(params.drain_cycle_min, Duration::from_millis(1500));
        assert_eq!(params.get("drain_cycle_min"), Ok(1500.0));
    }

    #[test]
    fn an_unknown_name_lists_the_nearest_and_a_wild_value_its_range() {
        let mut params = Params::default();
        let unknown = params.set("queue_gainn", 0.4).expect_err("no such name");
        assert!(unknown.to_string().contains("the nearest are queue_gain,"), "{unknown}");
        for (name, value) in [("queue_gain", 99.0), ("queue_gain", f64::NAN), ("queue_share", 0.0)] {
            let wild = params.set(name, value).expect_err("out of range");
            assert!(matches!(wild, ParamError::OutOfRange { .. }), "{wild}");
        }
        let broken = params.set("train_packets", 20.5).expect_err("half a packet");
        assert!(matches!(broken, ParamError::NotWhole { .. }), "{broken}");
        assert_eq!(params, Params::default());
    }
}
