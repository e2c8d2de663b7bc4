//! How long a copy will take, and how sure that is.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Distance of the samples that are kept.
const EVERY: Duration = Duration::from_secs(1);
/// Samples over which a rate is measured: a rate over less swings with every burst.
const WINDOW: usize = 10;
/// Samples kept: what was a minute ago says little of what comes.
const SAMPLES_MAX: usize = 61;

/// What a copy has moved lately.
#[derive(Debug, Default)]
pub struct Outlook {
    samples: VecDeque<(Duration, u64)>,
}

/// Time left, seconds: at the mean rate of the newest minute, and at the highest and lowest rate that any ten
/// seconds of it had.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Left {
    /// At the mean.
    pub likely_s: f64,
    /// At the highest.
    pub least_s: f64,
    /// At the lowest; none where nothing came for ten seconds.
    pub most_s: Option<f64>,
}

impl Outlook {
    /// Notes the bytes that are moved after this time.
    pub fn note(&mut self, elapsed: Duration, bytes: u64) {
        if self.samples.back().is_none_or(|(at, _)| elapsed >= *at + EVERY) {
            self.samples.push_back((elapsed, bytes));
            if self.samples.len() > SAMPLES_MAX {
                self.samples.pop_front();
            }
        }
    }

    /// The time that `bytes` more take; none before anything is known.
    pub fn left(&self, bytes: u64) -> Option<Left> {
        let rate = |from: usize, to: usize| {
            let ((start, before), (end, after)) = (self.samples.get(from)?, self.samples.get(to)?);
            let seconds = end.checked_sub(*start)?.as_secs_f64();
            (seconds > 0.0).then(|| after.saturating_sub(*before) as f64 / seconds)
        };
        let last = self.samples.len().checked_sub(1)?;
        let mean = rate(0, last).filter(|rate| *rate > 0.0)?;
        let windows =
            (0..=last.saturating_sub(WINDOW)).filter_map(|from| rate(from, (from + WINDOW).min(last)));
        let (least, most) = windows.fold((mean, mean), |(low, high), rate| (low.min(rate), high.max(rate)));
        let takes = |rate: f64| bytes as f64 / rate;
        Some(Left {
            likely_s: takes(mean),
            least_s: takes(most),
            most_s: (least > 0.0).then(|| takes(least)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a second each of these megabytes.
    fn outlook(megabytes: impl IntoIterator<Item = u64>) -> Outlook {
        let (mut outlook, mut bytes) = (Outlook::default(), 0);
        for (second, more) in megabytes.into_iter().enumerate() {
            bytes += more * 1_000_000;
            outlook.note(Duration::from_secs(second as u64), bytes);
            outlook.note(Duration::from_secs(second as u64) + EVERY / 2, u64::MAX);
        }
        outlook
    }

    #[test]
    fn a_steady_rate_leaves_no_doubt() {
        let left = outlook([10; 30]).left(1_000_000_000).expect("there are samples");
        assert_eq!(left, Left { likely_s: 100.0, least_s: 100.0, most_s: Some(100.0) });
    }

    #[test]
    fn the_range_is_that_of_the_newest_minute() {
        let slow_then_fast = (0..200).map(|second| if second < 170 { 10 } else { 20 });
        let left = outlook(slow_then_fast).left(3_000_000_000).expect("there are samples");
        assert!((left.likely_s - 200.0).abs() < 5.0, "{left:?}");
        assert_eq!((left.least_s, left.most_s), (150.0, Some(300.0)));
        let stalled = outlook((0..40).map(|second| if second < 20 { 10 } else { 0 })).left(1_000_000_000);
        assert_eq!(stalled.expect("there are samples").most_s, None);
    }

    #[test]
    fn nothing_is_foretold_without_movement() {
        assert_eq!(outlook([]).left(1), None);
        assert_eq!(outlook([5]).left(1), None);
        assert_eq!(outlook([0; 30]).left(1), None);
    }
}
