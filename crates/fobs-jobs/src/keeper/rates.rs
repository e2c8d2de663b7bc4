//! The rate of an attempt over its time, in a bounded number of points.

use crate::job::RatePoint;

/// Most points: a chart has some 800 dots beside each other, of which each point takes a few.
const POINTS_MAX: usize = 120;
/// First distance of two points, ms: that of lines of progress.
const EVERY_MS: u64 = 1000;

/// The points of an attempt: at twice the distance whenever there are too many.
#[derive(Debug, Clone)]
pub(super) struct Rates {
    points: Vec<RatePoint>,
    every_ms: u64,
    /// Sum and number of what belongs to the next point.
    sum_bps: u64,
    count: u64,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates { points: Vec::new(), every_ms: EVERY_MS, sum_bps: 0, count: 0 }
    }
}

impl Rates {
    pub(super) fn note(&mut self, at_ms: u64, bps: f64) {
        // A rate is what a program of another release has written: of any size, or none.
        self.sum_bps = self.sum_bps.saturating_add(bps.max(0.0) as u64);
        self.count += 1;
        let due = self.points.last().is_none_or(|last| at_ms >= last.at_ms.saturating_add(self.every_ms));
        if !due {
            return;
        }
        self.points.push(RatePoint { at_ms, bps: self.sum_bps / self.count });
        (self.sum_bps, self.count) = (0, 0);
        if self.points.len() > POINTS_MAX {
            self.every_ms = self.every_ms.saturating_mul(2);
            self.points = self.points.chunks(2).map(mean).collect();
        }
    }

    pub(super) fn points(&self) -> &[RatePoint] {
        &self.points
    }
}

/// A point for one or two.
fn mean(points: &[RatePoint]) -> RatePoint {
    let sum = points.iter().fold(0_u64, |sum, point| sum.saturating_add(point.bps));
    let at_ms = points.last().map_or(0, |point| point.at_ms);
    RatePoint { at_ms, bps: sum / points.len().max(1) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_rates_is_a_bounded_number_of_points() {
        for seconds in [1, 100, 121, 500, 100_000] {
            let mut rates = Rates::default();
            (0..seconds).for_each(|second| rates.note(second * 1000, 8e6));
            let points = rates.points();
            assert!(!points.is_empty() && points.len() <= POINTS_MAX, "{seconds}: {}", points.len());
            assert!(points.iter().all(|point| point.bps == 8_000_000), "{seconds}: a steady rate stays one");
            assert!(points.is_sorted_by(|one, next| one.at_ms < next.at_ms), "{seconds}");
            let end = points.last().expect("some").at_ms;
            assert!(end >= (seconds - 1) * 1000 * 9 / 10, "{seconds}: they reach its end, not {end}");
        }
    }

    #[test]
    fn rates_of_any_size_are_taken() {
        let mut rates = Rates::default();
        for (at_ms, bps) in [(0, f64::NAN), (2000, f64::INFINITY), (4000, -1.0), (u64::MAX, f64::MAX)] {
            rates.note(at_ms, bps);
        }
        assert_eq!(rates.points().len(), 4);
        assert_eq!(rates.points()[2].bps, 0);
    }
}
