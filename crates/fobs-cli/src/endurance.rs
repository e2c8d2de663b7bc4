//! How long and how slow a copy may be: `--timeout 10m`, `--min-rate 1Mbit/30s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fobs::options::{MinRate, TIMEOUT_RANGE};
use jiff::SignedDuration;

use crate::units::parse_rate;

/// End of every error about a duration.
const FORMS: &str = "write it like 600, 90s, 10m or 2h (a number alone is seconds)";
/// End of every error about a lowest rate.
const MIN_RATE_FORMS: &str = "write a rate and a time, as in 1Mbit/30s";

/// Parses a value of `--timeout`; 0 is the longest, as rsync's 0 is none.
///
/// # Errors
/// A sentence with the valid forms.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    if parse_duration(text)?.is_zero() { Ok(TIMEOUT_RANGE.1) } else { parse_time(text) }
}

/// Parses a time within the bounds of `--timeout`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let (shortest, longest) = TIMEOUT_RANGE;
    let time = parse_duration(text)?;
    if time < shortest || time > longest {
        return Err(format!("{text:?} is not from 1 s to 7 days: {FORMS}"));
    }
    Ok(time)
}

/// Parses a value of `--min-rate`. The time is what follows the last `/`, so that `1MB/s/30s` is read too.
///
/// # Errors
/// A sentence with the valid forms.
pub fn parse_min_rate(text: &str) -> Result<MinRate, String> {
    let (rate, time) =
        text.rsplit_once('/').ok_or_else(|| format!("the time is missing: {MIN_RATE_FORMS}"))?;
    Ok(MinRate { bits_per_second: parse_rate(rate)?, over: parse_time(time)? })
}

/// How long a daemon waits for something: none to a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaemonWait(pub Duration);

/// Longest [`DaemonWait`].
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

impl FromStr for DaemonWait {
    type Err = String;

    fn from_str(text: &str) -> Result<DaemonWait, String> {
        match parse_duration(text)? {
            time if time > WAIT_MAX => Err(format!("{text:?} is longer than a day: {FORMS}")),
            time => Ok(DaemonWait(time)),
        }
    }
}

impl fmt::Display for DaemonWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs())
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let span = text.parse::<SignedDuration>().ok().and_then(|span| Duration::try_from(span).ok());
    span.ok_or_else(|| format!("{text:?} is not a duration: {FORMS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_seconds_or_have_a_unit() {
        let week = TIMEOUT_RANGE.1.as_secs();
        let table = [("1", 1), ("600", 600), ("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400)];
        for (text, seconds) in table.into_iter().chain([("0", week), ("0s", week)]) {
            assert_eq!(parse_timeout(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "-5", "-5s", "soon", "10 parsecs", "8d", "99999999999999999999", "1y"] {
            let sentence = parse_timeout(text).expect_err(text);
            assert!(sentence.ends_with(FORMS), "{text}: {sentence}");
        }
    }

    #[test]
    fn a_wait_is_none_to_a_day() {
        for (text, seconds) in [("0", 0), ("30", 30), ("30s", 30), ("5m", 300), ("24h", 86400)] {
            assert_eq!(text.parse(), Ok(DaemonWait(Duration::from_secs(seconds))), "{text}");
        }
        for text in ["", "-1", "25h", "86401", "x", "99999999999999999999"] {
            assert!(text.parse::<DaemonWait>().expect_err(text).ends_with(FORMS), "{text}");
        }
        assert_eq!(
            DaemonWait(Duration::from_secs(30)).to_string().parse(),
            Ok(DaemonWait(Duration::from_secs(30)))
        );
    }

    #[test]
    fn a_lowest_rate_is_a_rate_and_a_time() {
        let min_rate =
            |bits_per_second, seconds| Ok(MinRate { bits_per_second, over: Duration::from_secs(seconds) });
        assert_eq!(parse_min_rate("1Mbit/30s"), min_rate(1_000_000, 30));
        assert_eq!(parse_min_rate("1MB/s/2m"), min_rate(8_000_000, 120));
        assert_eq!(parse_min_rate("64k/60"), min_rate(64_000, 60));
        for text in ["", "1Mbit", "/30s", "1Mbit/", "0/30s", "1Mbit/0s", "30s/1Mbit", "1Mbit/-3s"] {
            parse_min_rate(text).expect_err(text);
        }
    }
}
