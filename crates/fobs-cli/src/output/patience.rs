//! What a limit that the user set costs in time.

use std::sync::{Mutex, PoisonError};

use fobs::event::Progress;

use crate::units::show_rate;

/// From here on a limit is told with what it costs: a day.
const LONG_SECONDS: u64 = 86_400;

/// The user's own limit of the rate, bits per second, until it was told how long the copy takes with it.
pub struct OwnLimit(Mutex<Option<u64>>);

impl OwnLimit {
    /// A limit, or none.
    pub fn new(bits_per_second: Option<u64>) -> OwnLimit {
        OwnLimit(Mutex::new(bits_per_second))
    }

    /// Once, as soon as all bytes are known: the sentence where the limit makes the copy take days.
    pub fn told(&self, progress: &Progress) -> Option<String> {
        let mut limit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bits_per_second = limit.filter(|_| progress.scan_complete)?;
        *limit = None;
        let bits = u128::from(progress.bytes_known.saturating_sub(progress.bytes)) * 8;
        let seconds = u64::try_from(bits / u128::from(bits_per_second.max(1))).unwrap_or(u64::MAX);
        let days = seconds / LONG_SECONDS;
        (days > 0).then(|| {
            let (rate, unit) = (show_rate(bits_per_second as f64), if days == 1 { "day" } else { "days" });
            format!("with the limit of {rate} this takes {days} {unit} (fobs ctl changes it)")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_makes_a_copy_take_days_is_told_once() {
        let said = |limit, scan_complete| {
            let limit = OwnLimit::new(limit);
            let progress = Progress { bytes_known: 60_000_000, scan_complete, ..Progress::default() };
            let sentence = limit.told(&progress);
            assert!(sentence.is_none() || limit.told(&progress).is_none(), "once");
            sentence.unwrap_or_default()
        };
        let days = "with the limit of 100 bit/s this takes 55 days (fobs ctl changes it)";
        assert_eq!(said(Some(100), true), days);
        assert_eq!(said(Some(100), false), "", "the bytes are not known yet");
        assert_eq!(said(Some(100_000_000), true), "");
        assert_eq!(said(None, true), "");
    }
}
