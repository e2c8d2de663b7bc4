//! Which way costs less time, from measured rates alone.

/// Bytes per second at which an end reads a file and names its pieces, before that is measured: what a core
/// of 2015 does.
const CUT_RATE: f64 = 4e8;
/// Likewise for reading and hashing what is sent.
const READ_RATE: f64 = 2e9;
/// What a delta must save of the time of the whole file.
const GAIN: f64 = 0.9;
/// A rate that grew by less than this, in this many windows, is that of the bottleneck and not of a ramp-up:
/// the numbers of BBR's start-up (draft-ietf-ccwg-bbr 5.3.1.2).
const GROWTH: f64 = 1.25;
const STEADY_WINDOWS: u32 = 3;
/// What a ramp-up grows by in a window, at most.
pub(super) const GROWTH_MAX: f64 = 2.0;

/// What is measured of a session, bytes of files per second; `None` is not known.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    /// What goes whole: as fast as path, disks and cores allow.
    pub(super) whole: Option<f64>,
    /// It goes at least as fast as this.
    pub(super) whole_min: f64,
    /// What goes as a delta.
    pub(super) delta: Option<f64>,
    /// The sender reads and hashes.
    pub(super) reading: Option<f64>,
    /// The receiver lists.
    pub(super) listing: Option<f64>,
    /// The sender looks for what is listed.
    pub(super) looking: Option<f64>,
    /// Share of what was looked for that is not there, once that says anything.
    pub(super) missed: Option<f64>,
}

/// What follows from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cheaper {
    Delta,
    Whole,
    /// The rate of what goes whole decides, and is not known.
    Open,
}

impl Rates {
    /// Which way is cheaper.
    pub(super) fn cheaper(&self) -> Cheaper {
        if self.is_hopeless() {
            return Cheaper::Whole;
        }
        let worth = self.worth();
        match self.whole {
            Some(whole) if whole < worth => Cheaper::Delta,
            None if self.whole_min < worth => Cheaper::Open,
            _ => Cheaper::Whole,
        }
    }

    /// Whether too little of what is looked for is there.
    pub(super) fn is_hopeless(&self) -> bool {
        self.missed.is_some_and(|missed| missed > GAIN)
    }

    /// Faster than this, whole files are cheaper.
    pub(super) fn worth(&self) -> f64 {
        self.expected() * GAIN
    }

    /// Bytes of files per second as a delta: as measured, or as its slowest part.
    fn expected(&self) -> f64 {
        let (listing, reading) = (self.listing.unwrap_or(CUT_RATE), self.reading.unwrap_or(READ_RATE));
        // One thread reads, hashes and looks. Ends are alike until that is measured too.
        let looking = 1.0 / (1.0 / reading + 1.0 / self.looking.unwrap_or(listing));
        let new = self.whole.zip(self.missed).map_or(f64::INFINITY, |(whole, missed)| whole / missed);
        self.delta.unwrap_or(f64::INFINITY).min(listing.min(looking)).min(new)
    }
}

/// The rate of what goes whole: at least that of its best window, and that of windows which grow no more.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Pace {
    bytes: u64,
    seconds: f64,
    best: f64,
    /// The rate from which growth is counted, and how many windows since have not grown.
    base: f64,
    steady: u32,
    /// The length of the newest window, seconds.
    length_s: f64,
}

impl Pace {
    /// A chunk has arrived, `took` seconds after the one before. The rate of a window of at least `window`
    /// seconds that ends with it, and whether it is that of the bottleneck.
    pub(super) fn arrived(&mut self, bytes: u64, took: f64, window: f64) -> Option<(f64, bool)> {
        self.bytes += bytes;
        self.seconds += took;
        if self.seconds < window || self.bytes == 0 {
            return None;
        }
        let rate = self.bytes as f64 / self.seconds;
        self.length_s = self.seconds;
        self.best = self.best.max(rate);
        (self.base, self.steady) =
            if rate >= self.base * GROWTH { (rate, 0) } else { (self.base, self.steady + 1) };
        self.begin_window();
        Some((rate, self.steady >= STEADY_WINDOWS))
    }

    /// The best window so far; 0 without any.
    pub(super) fn best(&self) -> f64 {
        self.best
    }

    /// How long until this rate at the least, in seconds, where it may still grow; none where it is steady.
    pub(super) fn reaches(&self, rate: f64) -> Option<f64> {
        let windows = (rate / self.best).log2() / GROWTH_MAX.log2();
        (self.best > 0.0 && self.steady < STEADY_WINDOWS).then_some(windows.max(0.0) * self.length_s)
    }

    /// What was counted since the last window says nothing.
    pub(super) fn begin_window(&mut self) {
        (self.bytes, self.seconds) = (0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_way_is_chosen_over_any_path() {
        for listing in [5e7, 4e8, 1e9] {
            for looking in [5e7, 4e8, 1e9] {
                for path in [1e5, 1e7, 1e8, 3e8, 1e9, 1e10] {
                    for missed in [0.0, 0.05, 0.5, 0.95, 1.0] {
                        let rates = Rates {
                            whole: Some(path),
                            listing: Some(listing),
                            looking: Some(looking),
                            missed: Some(missed),
                            ..Rates::default()
                        };
                        let look = 1.0 / (1.0 / looking + 1.0 / READ_RATE);
                        let delta = f64::min(listing, look).min(path / missed);
                        let told = format!("{rates:?}");
                        match rates.cheaper() {
                            Cheaper::Delta => assert!(delta > path, "{told}"),
                            Cheaper::Whole => assert!(delta * GAIN <= path || missed > GAIN, "{told}"),
                            Cheaper::Open => panic!("{told}"),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_measured_counts_more_than_what_is_supposed() {
        let of = |whole, delta| Rates { whole: Some(whole), delta, ..Rates::default() }.cheaper();
        assert_eq!((of(1e8, None), of(1.25e9, None)), (Cheaper::Delta, Cheaper::Whole));
        assert_eq!((of(1e8, Some(1e8)), of(1e8, Some(1.2e8))), (Cheaper::Whole, Cheaper::Delta));
        let at_least = |whole_min| Rates { whole_min, ..Rates::default() }.cheaper();
        assert_eq!(
            (at_least(0.0), at_least(1e8), at_least(1e9)),
            (Cheaper::Open, Cheaper::Open, Cheaper::Whole)
        );
        // Ends of which one is slow.
        let slow = |listing| Rates { whole: Some(1e8), listing: Some(listing), ..Rates::default() }.cheaper();
        assert_eq!((slow(1e8), slow(4e8)), (Cheaper::Whole, Cheaper::Delta));
    }

    #[test]
    fn a_rate_is_that_of_the_bottleneck_once_it_grows_no_more() {
        let mut pace = Pace::default();
        let mut mb = |mb: u64| pace.arrived(mb * 1_000_000, 0.01, 0.01).map(|(_, is_steady)| is_steady);
        // A path of 400 MB/s: of its ramp-up nothing says how fast it is, a slow window in it neither.
        let ramp = [1, 2, 2, 4, 4, 4, 4].map(&mut mb);
        assert_eq!(ramp.map(Option::unwrap), [false, false, false, false, false, false, true]);
        assert!((pace.best() - 4e8).abs() < 1.0);
        assert_eq!(pace.reaches(8e8), None);
        // Twice as much in a window of 10 ms: eight times as much takes three.
        let mut pace = Pace::default();
        let mut mb = |mb: u64| pace.arrived(mb * 1_000_000, 0.01, 0.01);
        assert!(mb(1).is_some() && mb(2).is_some());
        assert!(pace.reaches(1.6e9).is_some_and(|seconds| (seconds - 0.03).abs() < 1e-6));
        assert_eq!(pace.reaches(1e8), Some(0.0));
        // Too short a time says nothing, and neither does what was interrupted.
        let mut pace = Pace::default();
        assert_eq!(pace.arrived(1_000_000, 0.005, 0.01), None);
        pace.begin_window();
        assert_eq!(pace.arrived(1_000_000, 0.005, 0.01), None);
        assert!(pace.arrived(0, 0.005, 0.01).is_some_and(|(rate, _)| (rate - 1e8).abs() < 1.0));
    }
}
