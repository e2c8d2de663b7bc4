//! Lines of progress where nothing can be drawn again: `--progress` without a terminal.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fobs::event::Progress;

use super::status::standing;

/// Distances of lines: seconds apart at first, minutes in what runs for hours, whose log is read as a whole.
const AT_FIRST: Duration = Duration::from_secs(10);
const LATER: Duration = Duration::from_secs(60);
const AT_LAST: Duration = Duration::from_secs(600);

/// Says when a line is due, and what stands in it.
pub struct Steps {
    began: Instant,
    next: Mutex<Duration>,
}

impl Steps {
    /// The first line comes ten seconds from now.
    pub fn new() -> Steps {
        Steps { began: Instant::now(), next: Mutex::new(AT_FIRST) }
    }

    /// The line, if one is due.
    pub fn line(&self, progress: &Progress) -> Option<String> {
        self.line_at(self.began.elapsed(), progress)
    }

    fn line_at(&self, elapsed: Duration, progress: &Progress) -> Option<String> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if elapsed < *next {
            return None;
        }
        *next = elapsed + distance(elapsed);
        Some(standing(elapsed, progress))
    }
}

fn distance(elapsed: Duration) -> Duration {
    match elapsed {
        elapsed if elapsed < LATER => AT_FIRST,
        elapsed if elapsed < AT_LAST => LATER,
        _ => AT_LAST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_farther_apart_the_longer_it_takes() {
        let steps = Steps::new();
        let progress = Progress {
            bytes: 1_000_000,
            bytes_known: 4_000_000,
            scan_complete: true,
            rate_bps: 8e6,
            ..Progress::default()
        };
        let all: Vec<(u64, String)> =
            (0..3600).filter_map(|s| Some((s, steps.line_at(Duration::from_secs(s), &progress)?))).collect();
        let times: Vec<u64> = all.iter().map(|(at, _)| *at).collect();
        let minutes = (2..=10).map(|minute| 60 * minute);
        let last = (2..6).map(|tenth| 600 * tenth);
        let expected: Vec<u64> = (1..=6).map(|tenth| 10 * tenth).chain(minutes).chain(last).collect();
        assert_eq!(times, expected);
        assert_eq!(all[0].1, "1.00 MB of 4.00 MB (25%) after 0:10, 8.00 Mbit/s, 0:03 left");
    }
}
