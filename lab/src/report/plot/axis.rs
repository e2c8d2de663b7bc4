//! Axes: positions of values between 0 and 1, and their tick labels.

use super::super::figure::Scale;
use super::super::place::Spot;
use super::super::words::number;

/// An axis from 0 (left, bottom) to 1 (right, top).
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Title with unit.
    pub title: String,
    /// Positions of ticks, with their labels.
    pub ticks: Vec<(f64, String)>,
    /// Mapping of values to positions.
    place: Placing,
}

#[derive(Clone, Debug, PartialEq)]
enum Placing {
    Linear { low: f64, high: f64 },
    Log { low: f64, high: f64 },
}

/// Margin beside the first and last point of an axis of places, as a share of its length.
const MARGIN: f64 = 0.05;

impl Axis {
    /// An axis of measured values: from 0 (or a power of ten on a logarithmic scale) to a round number at or
    /// above the maximum, and at least to `full_scale`.
    pub fn of_values(
        title: &str,
        values: impl Iterator<Item = f64>,
        scale: Scale,
        full_scale: Option<f64>,
    ) -> Axis {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).chain(full_scale).collect();
        let positive = || values.iter().copied().filter(|value| *value > 0.0);
        let greatest = positive().fold(0.0, f64::max);
        let (place, ticks) = match (scale, positive().reduce(f64::min)) {
            (Scale::Log, Some(least)) => {
                let (low, high) = (least.log10().floor(), greatest.log10().ceil());
                let high = if high > low { high } else { low + 1.0 };
                // Measured values span fewer than 200 decades; this bounds the loop.
                let decades =
                    (0..=(high - low).min(200.0) as u32).map(|step| 10_f64.powf(low + f64::from(step)));
                (Placing::Log { low, high }, decades.collect())
            }
            _ => {
                let least = values.iter().copied().fold(0.0, f64::min);
                let step = round_step((greatest - least).max(f64::MIN_POSITIVE) / 4.0);
                let (first, last) =
                    ((least / step).floor() as i64, (greatest / step - 1e-9).ceil().max(1.0) as i64);
                let ticks = (first..=last).map(|count| count as f64 * step).collect();
                (Placing::Linear { low: first as f64 * step, high: last as f64 * step }, ticks)
            }
        };
        let mut axis = Axis { title: title.to_owned(), ticks: vec![], place };
        axis.ticks =
            Vec::from_iter(Vec::<f64>::into_iter(ticks).map(|tick| (axis.position(tick), number(tick))));
        axis
    }

    /// An axis of places; a label is omitted if it would touch its neighbour.
    ///
    /// `length` is the length of the axis, `letter` the width of a letter, in pixels. Names and an even scale
    /// use whole numbers ([`Axis::position`] then takes the index).
    pub fn of_places(title: &str, places: &[Spot], scale: Scale, length: f64, letter: f64) -> Axis {
        let values: Vec<f64> = match numbers(places, scale) {
            Some(values) => values,
            None => (0..places.len()).map(|index| index as f64).collect(),
        };
        let scale = if numbers(places, scale).is_some() { scale } else { Scale::Even };
        let seen = |value: f64| if scale == Scale::Log { value.log10() } else { value };
        let (first, last) = match (values.first(), values.last()) {
            (Some(first), Some(last)) => (seen(*first), seen(*last)),
            _ => (0.0, 0.0),
        };
        let margin = if last > first { (last - first) * MARGIN } else { 0.5 };
        let (low, high) = (first - margin, last + margin);
        let place = match scale {
            Scale::Log => Placing::Log { low, high },
            Scale::Linear | Scale::Even => Placing::Linear { low, high },
        };
        let mut axis = Axis { title: title.to_owned(), ticks: vec![], place };
        let mut free_from = f64::NEG_INFINITY;
        for (value, spot) in values.iter().zip(places) {
            let (at, half) = (axis.position(*value), spot.label.chars().count() as f64 * letter / 2.0);
            if at * length - half >= free_from {
                free_from = at * length + half + letter;
                axis.ticks.push((at, spot.label.clone()));
            }
        }
        axis
    }

    /// Position of a value; outside 0 to 1 if it lies beyond an end.
    pub fn position(&self, value: f64) -> f64 {
        match self.place {
            Placing::Linear { low, high } => (value - low) / (high - low),
            Placing::Log { low, high } => (value.max(f64::MIN_POSITIVE).log10() - low) / (high - low),
        }
    }

    /// Position of the `index`th place.
    pub fn place(&self, places: &[Spot], index: usize, scale: Scale) -> f64 {
        match numbers(places, scale) {
            Some(values) => self.position(values[index]),
            None => self.position(index as f64),
        }
    }
}

/// Numbers of the places, if the scale needs them and can show all of them.
fn numbers(places: &[Spot], scale: Scale) -> Option<Vec<f64>> {
    let shown =
        |value: f64| value.is_finite() && (scale == Scale::Linear || scale == Scale::Log && value > 0.0);
    places.iter().map(|place| place.number.filter(|value| shown(*value))).collect()
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `least`, which is positive.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spots(numbers: &[f64]) -> Vec<Spot> {
        numbers.iter().map(|value| Spot { number: Some(*value), label: number(*value) }).collect()
    }

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn values_stand_between_zero_and_a_round_number() {
        let of = |values: &[f64], full| Axis::of_values("", values.iter().copied(), Scale::Linear, full);
        assert_eq!(texts(&of(&[3.0, 87.2], Some(100.0))), ["0", "25", "50", "75", "100"]);
        assert_eq!(texts(&of(&[0.3, 7.9], None)), ["0", "2", "4", "6", "8"]);
        assert_eq!(texts(&of(&[], Some(1.0))), ["0", "0.25", "0.5", "0.75", "1"]);
        let negative = of(&[-1.0, 3.0], None);
        assert_eq!((texts(&negative), negative.position(-1.0)), (vec!["-1", "0", "1", "2", "3"], 0.0));
        // Without a value above zero there is still an axis.
        assert!(of(&[0.0], None).ticks.iter().all(|(at, _)| at.is_finite()));
    }

    #[test]
    fn logarithmic_values_stand_between_powers_of_ten() {
        let axis = Axis::of_values("", [0.0, 0.02, 4.0].into_iter(), Scale::Log, None);
        assert_eq!(texts(&axis), ["0.01", "0.1", "1", "10"]);
        assert!((axis.position(0.1) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn overlapping_place_labels_are_omitted() {
        let places = spots(&[1.0, 2.0, 4.0, 1000.0]);
        let linear = Axis::of_places("", &places, Scale::Linear, 400.0, 7.0);
        assert_eq!(texts(&linear), ["1", "1000"]);
        let log = Axis::of_places("", &places, Scale::Log, 400.0, 7.0);
        assert_eq!(texts(&log), ["1", "2", "4", "1000"]);
        let even = Axis::of_places("", &places, Scale::Even, 400.0, 7.0);
        let gaps: Vec<f64> = (1..4)
            .map(|index| {
                even.place(&places, index, Scale::Even) - even.place(&places, index - 1, Scale::Even)
            })
            .collect();
        assert!(gaps.iter().all(|gap| (gap - gaps[0]).abs() < 1e-9), "{gaps:?}");
    }

    #[test]
    fn a_zero_or_a_name_on_a_logarithmic_scale_makes_it_even() {
        let mut places = spots(&[0.0, 0.1, 5.0]);
        let axis = Axis::of_places("", &places, Scale::Log, 400.0, 7.0);
        assert!((axis.place(&places, 1, Scale::Log) - 0.5).abs() < 1e-9);
        places[2].number = None;
        let axis = Axis::of_places("", &places, Scale::Linear, 400.0, 7.0);
        assert!((axis.place(&places, 1, Scale::Linear) - 0.5).abs() < 1e-9);
    }
}
