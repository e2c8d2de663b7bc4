//! Which way costs less time, from measured rates alone.

/// Bytes per second at which an end reads a file and names its pieces, before that is measured: what a core
/// of 2015 does.
const CUT_RATE: f64 = 4e8;
/// Likewise for reading and hashing what is sent.
const READ_RATE: f64 = 2e9;
/// What a delta must save of the time of the whole file.
const GAIN: f64 = 0.9;
/// Where a chunk takes this many times as long as the fastest of its kind, there is a queue: its rate is that
/// of the bottleneck, and not of a ramp-up.
const QUEUED: f64 = 2.0;

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
        if self.missed.is_some_and(|missed| missed > GAIN) {
            return Cheaper::Whole;
        }
        let worth = self.expected() * GAIN;
        match self.whole {
            Some(whole) if whole < worth => Cheaper::Delta,
            None if self.whole_min < worth => Cheaper::Open,
            _ => Cheaper::Whole,
        }
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

/// The rate of what goes whole: at least that of its best window, and that of one in which chunks queue.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Pace {
    bytes: u64,
    seconds: f64,
    /// Chunks of the window that did not queue.
    passed: u32,
    /// How long the fastest chunk took, seconds.
    least_s: Option<f64>,
    best: f64,
}

impl Pace {
    /// A chunk has arrived, `took` seconds after the one before, `latency` seconds after it left. The rate of
    /// a window of at least `window` seconds that ends with it, and whether it is that of the bottleneck.
    pub(super) fn arrived(
        &mut self,
        bytes: u64,
        (took, latency): (f64, f64),
        window: f64,
    ) -> Option<(f64, bool)> {
        let least = self.least_s.map_or(latency, |least| least.min(latency));
        self.least_s = Some(least);
        self.bytes += bytes;
        self.seconds += took;
        self.passed += u32::from(latency < least * QUEUED);
        if self.seconds < window || self.bytes == 0 {
            return None;
        }
        let (rate, is_queued) = (self.bytes as f64 / self.seconds, self.passed == 0);
        self.best = self.best.max(rate);
        self.begin_window();
        Some((rate, is_queued))
    }

    /// The best window so far; 0 without any.
    pub(super) fn best(&self) -> f64 {
        self.best
    }

    /// What was counted since the last window says nothing.
    pub(super) fn begin_window(&mut self) {
        (self.bytes, self.seconds, self.passed) = (0, 0.0, 0);
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
    fn a_rate_is_that_of_the_bottleneck_once_chunks_queue() {
        let mut pace = Pace::default();
        // Twice as much in flight in each round trip of 10 ms, until the path has 400 MB/s and a queue.
        let mut mb = |mb: u64, took, latency| pace.arrived(mb * 1_000_000, (took, latency), 0.01);
        let windows =
            [mb(1, 0.01, 0.01), mb(2, 0.01, 0.01), mb(4, 0.01, 0.01), mb(4, 0.01, 0.015), mb(4, 0.01, 0.02)];
        let known = windows.map(|window| window.is_some_and(|(_, is_queued)| is_queued));
        assert_eq!(known, [false, false, false, false, true]);
        assert!((pace.best() - 4e8).abs() < 1.0);
        // Too short a time says nothing, and neither does what was interrupted.
        let mut pace = Pace::default();
        assert_eq!(pace.arrived(1_000_000, (0.005, 0.01), 0.01), None);
        pace.begin_window();
        assert_eq!(pace.arrived(1_000_000, (0.005, 0.01), 0.01), None);
        assert!(pace.arrived(0, (0.005, 0.01), 0.01).is_some_and(|(rate, _)| (rate - 1e8).abs() < 1.0));
    }
}
