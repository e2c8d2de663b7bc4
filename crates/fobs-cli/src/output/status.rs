//! The line that SIGUSR1 asks for.

use std::time::Duration;

use fobs::event::Progress;
use fobs::explain::Explanation;

use super::progress::{show_time_left, time_left};
use crate::units::{show_bytes, show_clock, show_rate};

/// How a running copy stands: bytes, rate, time left, and what limits it.
pub fn status(elapsed: Duration, progress: &Progress, why: &Explanation) -> String {
    let limit = match why.limit {
        Some(_) => why.sentence.trim_end_matches('.'),
        None => "nothing was measured yet",
    };
    format!("{}; {limit}", standing(elapsed, progress))
}

/// The same without what limits it.
pub(super) fn standing(elapsed: Duration, progress: &Progress) -> String {
    let moved = show_bytes(progress.bytes);
    let moved = match (progress.scan_complete, progress.bytes_known) {
        (false, _) | (true, 0) => moved,
        (true, known) => {
            let percent = u128::from(progress.bytes.min(known)) * 100 / u128::from(known);
            format!("{moved} of {} ({percent}%)", show_bytes(known))
        }
    };
    let left = match time_left(progress) {
        Some(left) => format!("{} left", show_time_left(left)),
        None => "time left unknown".to_owned(),
    };
    let (rate, elapsed) = (show_rate(progress.rate_bps), show_clock(elapsed));
    format!("{moved} after {elapsed}, {rate}, {left}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs::Recorder;
    use fobs::explain::{Limit, explain};

    #[test]
    fn the_status_names_bytes_rate_time_left_and_limit() {
        let nothing = explain(&Recorder::new().so_far());
        let why = Explanation {
            limit: Some(Limit::RateCap),
            sentence: "91% of the time the cap was the limit.".to_owned(),
            ..nothing.clone()
        };
        let progress = Progress {
            bytes: 2_500_000_000,
            bytes_known: 10_000_000_000,
            scan_complete: true,
            rate_bps: 1e9,
            ..Progress::default()
        };
        assert_eq!(
            status(Duration::from_secs(83), &progress, &why),
            "2.50 GB of 10.0 GB (25%) after 1:23, 1.00 Gbit/s, 1:00 left; 91% of the time the cap was the limit"
        );
        assert_eq!(
            status(Duration::from_secs(1), &Progress::default(), &nothing),
            "0 bytes after 0:01, 0 bit/s, time left unknown; nothing was measured yet"
        );
    }
}
