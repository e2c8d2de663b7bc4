//! Whether a delta costs less time than the whole file, from what is measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fobs_model::options::sync::Delta;

/// Bytes per second at which an end reads and cuts a file before that is measured: a core of 2020 does twice
/// that.
const CUT_RATE: f64 = 5e8;
/// What a delta must save of the time of the whole file: a wrong guess costs no more than that.
const GAIN: f64 = 0.9;
/// Bytes that are looked at before the share that was found says anything.
const SAMPLE: u64 = 64 << 20;
/// Data that is sent whole while the rate of a short path is not known: it shows the rate.
const TRIAL: u64 = 4 << 20;
/// Round trip of a path on which that data costs less than it shows.
const SHORT: Duration = Duration::from_millis(5);

/// What a sender knows of a session's path, files and ends. Clones share it.
#[derive(Debug, Clone)]
pub struct Pays(Arc<Measured>);

#[derive(Debug)]
struct Measured {
    when: Delta,
    /// Bytes per second that the path carries; 0 while that is unknown.
    path_rate: AtomicU64,
    /// Microseconds of a round trip; 0 while that is unknown.
    round_trip_us: AtomicU64,
    files: Mutex<Files>,
}

/// What was found so far.
#[derive(Debug, Default, Clone, Copy)]
struct Files {
    looked_at: u64,
    found: u64,
    /// Bytes that the receiver listed, and the time that it took.
    listed: u64,
    listing: Duration,
    /// The time that this end took to look.
    looking: Duration,
}

/// Which way a file goes from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// As a delta: what is not listed is waited for.
    Delta,
    /// Whole.
    Whole,
    /// Whole until the rate of the path is known.
    Trial,
}

impl Pays {
    /// Of a session in which the user chose this.
    pub fn new(when: Delta) -> Pays {
        let (path_rate, round_trip_us) = (AtomicU64::new(0), AtomicU64::new(0));
        Pays(Arc::new(Measured { when, path_rate, round_trip_us, files: Mutex::default() }))
    }

    /// The path carries this.
    pub fn path_carries(&self, bytes_per_second: u64) {
        self.0.path_rate.store(bytes_per_second, Ordering::Relaxed);
    }

    /// A round trip takes this long.
    pub fn round_trip(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.0.round_trip_us.store(us.max(1), Ordering::Relaxed);
    }

    /// The receiver has listed `bytes` within this time.
    pub(super) fn was_listed(&self, bytes: u64, time: Duration) {
        let mut files = self.files();
        files.listed += bytes;
        files.listing += time;
    }

    /// `bytes` were looked at, and found or not.
    pub(super) fn looked_at(&self, bytes: u64, found: bool, time: Duration) {
        let mut files = self.files();
        files.looked_at += bytes;
        files.found += if found { bytes } else { 0 };
        files.looking += time;
    }

    /// Which way a file goes of which `sent` bytes were sent.
    pub(crate) fn way(&self, sent: u64) -> Way {
        if self.0.when != Delta::Auto {
            return Way::Delta;
        }
        let files = *self.files();
        let missed = if files.looked_at < SAMPLE { 0.0 } else { 1.0 - share(files.found, files.looked_at) };
        if missed > GAIN {
            return Way::Whole;
        }
        match self.0.path_rate.load(Ordering::Relaxed) {
            0 => {
                let us = self.0.round_trip_us.load(Ordering::Relaxed);
                let is_short = us > 0 && Duration::from_micros(us) < SHORT;
                if is_short && sent < TRIAL { Way::Trial } else { Way::Delta }
            }
            path => {
                let whole = 1.0 / path as f64;
                let cut = rate(files.listed, files.listing).min(rate(files.looked_at, files.looking));
                let delta = (1.0 / cut).max(missed * whole);
                if delta < whole * GAIN { Way::Delta } else { Way::Whole }
            }
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.0.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn share(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}

/// Bytes per second, as measured over enough of them.
fn rate(bytes: u64, time: Duration) -> f64 {
    if bytes < SAMPLE { CUT_RATE } else { bytes as f64 / time.as_secs_f64().max(1e-9) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_path_that_is_faster_than_cutting_takes_files_whole() {
        let pays = Pays::new(Delta::Auto);
        for (rate, way) in [(1_250_000_000, Way::Whole), (125_000_000, Way::Delta), (1_000, Way::Delta)] {
            pays.path_carries(rate);
            assert_eq!(pays.way(1 << 30), way, "{rate}");
        }
        // Of an end that cuts at 100 MB/s.
        pays.was_listed(1 << 30, 10_000 * MS);
        for (rate, way) in [(125_000_000, Way::Whole), (12_500_000, Way::Delta)] {
            pays.path_carries(rate);
            assert_eq!(pays.way(1 << 30), way, "{rate}");
        }
        let always = Pays::new(Delta::Always);
        always.path_carries(1_250_000_000);
        assert_eq!(always.way(1 << 30), Way::Delta);
    }

    #[test]
    fn the_rate_of_a_short_path_is_tried_first() {
        let pays = Pays::new(Delta::Auto);
        assert_eq!(pays.way(0), Way::Delta, "nothing is known");
        pays.round_trip(50 * MS);
        assert_eq!(pays.way(0), Way::Delta, "a list costs no more than the path's opening");
        pays.round_trip(MS / 5);
        assert_eq!((pays.way(0), pays.way(TRIAL)), (Way::Trial, Way::Delta));
        pays.path_carries(1_250_000_000);
        assert_eq!(pays.way(0), Way::Whole);
    }

    #[test]
    fn trees_of_which_nothing_is_found_go_whole() {
        let pays = Pays::new(Delta::Auto);
        pays.path_carries(12_500_000);
        pays.looked_at(SAMPLE - 1, false, 100 * MS);
        assert_eq!(pays.way(0), Way::Delta, "too early to say");
        pays.looked_at(SAMPLE, false, 100 * MS);
        assert_eq!(pays.way(0), Way::Whole);
        pays.looked_at(SAMPLE, true, 100 * MS);
        assert_eq!(pays.way(0), Way::Delta, "a third is worth it");
    }
}
