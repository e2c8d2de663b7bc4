//! Rates that an explanation names. The one place that makes them: none is less than what was delivered, so
//! that no sentence says what the copy itself refutes.

/// What a path delivered in a stretch of time, datagram bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Rates {
    median: f64,
    mean: f64,
    best: f64,
}

impl Rates {
    /// By the median and the mean of the intervals, and the best of any.
    pub(super) fn of(median: f64, mean: f64, best: f64) -> Rates {
        let finite = |bps: f64| if bps.is_finite() { bps.max(0.0) } else { 0.0 };
        Rates { median: finite(median), mean: finite(mean), best: finite(best) }
    }

    /// The median of the intervals: 0 where samples came late.
    #[cfg(test)]
    pub(super) fn median(self) -> f64 {
        self.median
    }

    /// The mean of the intervals.
    pub(super) fn mean(self) -> f64 {
        self.mean
    }

    /// What the path is said to carry: the median or, where the median interval has too little, the mean.
    pub(super) fn carried(self) -> f64 {
        self.median.max(self.mean)
    }

    /// The highest.
    pub(super) fn best(self) -> f64 {
        self.best.max(self.carried())
    }

    /// The same in other units: file bits for datagram bits.
    pub(super) fn scaled(self, factor: f64) -> Rates {
        Rates::of(self.median * factor, self.mean * factor, self.best * factor)
    }

    /// No less than `bps`, which the copy had over all of its time.
    pub(super) fn at_least(self, bps: f64) -> Rates {
        Rates::of(self.median, self.mean.max(bps), self.best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rate_is_below_what_was_delivered() {
        for (median, mean, best) in [(0.0, 9.0, 0.0), (4.0, 2.0, 1.0), (f64::NAN, 3.0, f64::INFINITY)] {
            let rates = Rates::of(median, mean, best);
            assert!(rates.carried() >= mean && rates.best() >= rates.carried(), "{rates:?}");
            assert!(rates.best().is_finite());
            let floored = rates.at_least(20.0);
            assert!(floored.carried() >= 20.0 && floored.best() >= 20.0, "{floored:?}");
        }
    }
}
