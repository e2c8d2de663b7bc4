//! Rates that an explanation names. The one place that makes them: none is less than what was delivered, so
//! that no sentence says what the copy itself refutes, and none that is predicted is more than what the path
//! was seen to carry.

use serde::Serialize;

/// Part of the mean from which on the median is a rate: below it acks came in some of the intervals only.
const MEDIAN_SHOWS: f64 = 0.5;

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

    /// What a policer lets pass: the median. The mean has what passed at first, while its bucket was full.
    pub(super) fn policed(self) -> f64 {
        if self.median >= self.mean * MEDIAN_SHOWS { self.median } else { self.carried() }
    }

    /// The highest.
    pub(super) fn best(self) -> f64 {
        self.best.max(self.carried())
    }

    /// What the path carries at most: a queue of the copy's own stood at this rate.
    pub(super) fn known(self) -> Ceiling {
        Ceiling { bps: self.carried(), bound: Bound::UpTo }
    }

    /// What the path carried at its best: whether it carries more was not tried.
    pub(super) fn seen(self) -> Ceiling {
        Ceiling { bps: self.best(), bound: Bound::AtLeast }
    }

    /// What the path carried before a step for the worse.
    pub(super) fn carried_before(self) -> Ceiling {
        Ceiling { bps: self.carried(), bound: Bound::AtLeast }
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

/// On which side of a predicted rate the true one lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The path carries it, and the relief gives no more.
    UpTo,
    /// The path carries it: whether it carries more was not tried.
    AtLeast,
}

/// As much as is known of what a path carries. Only [`Rates`] make it, of what was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ceiling {
    bps: f64,
    bound: Bound,
}

impl Ceiling {
    /// Bits per second.
    pub(super) fn bps(self) -> f64 {
        self.bps
    }

    /// Whether the path carries no more.
    pub(super) fn is_known(self) -> bool {
        self.bound == Bound::UpTo
    }

    /// The higher one.
    pub(super) fn or(self, other: Ceiling) -> Ceiling {
        if other.bps > self.bps { other } else { self }
    }

    /// What the ends would make of the path if it carried this: all of that, or what it was seen to carry.
    pub(super) fn limits(self, hoped_bps: f64) -> Prediction {
        if hoped_bps < self.bps {
            Prediction { bps: hoped_bps.max(0.0), bound: Bound::UpTo }
        } else {
            Prediction { bps: self.bps, bound: self.bound }
        }
    }

    /// What the path gives where nothing else limits.
    pub(super) fn all(self) -> Prediction {
        self.limits(f64::INFINITY)
    }
}

/// The rate with a relief. Only a [`Ceiling`] makes it, so none exceeds what the path was seen to carry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prediction {
    bps: f64,
    bound: Bound,
}

impl Prediction {
    /// Bits per second.
    pub(super) fn bps(self) -> f64 {
        self.bps
    }

    /// On which side the true rate lies.
    pub(super) fn bound(self) -> Bound {
        self.bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_prediction_exceeds_what_the_path_was_seen_to_carry() {
        let rates = Rates::of(40.0, 50.0, 90.0);
        for ceiling in [rates.known(), rates.seen(), rates.known().or(rates.seen())] {
            for hoped in [0.0, 49.0, 91.0, 1e12, f64::INFINITY, f64::NAN] {
                let found = ceiling.limits(hoped);
                assert!((0.0..=ceiling.bps()).contains(&found.bps()), "{hoped} of {ceiling:?}: {found:?}");
                // What the path sets is no more certain than what is known of it.
                let set_by_the_path = found.bps() == ceiling.bps();
                assert!(!set_by_the_path || (found.bound() == Bound::UpTo) == ceiling.is_known());
            }
        }
        assert_eq!((rates.known().bps(), rates.seen().bps()), (50.0, 90.0));
    }

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
