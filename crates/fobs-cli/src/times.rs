//! Times and intervals of jobs, on the command line and for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::{Span, SpanRelativeTo};

pub use fobs_page::figures::show_moment as shown;

use crate::moment;

/// Parses a point in time that is to come.
///
/// # Errors
/// A sentence with the forms.
pub fn parse_moment(text: &str) -> Result<SystemTime, String> {
    moment::parse_deadline(text).map_err(|why| why.replace("is not a deadline", "is no time"))
}

/// Parses an interval, above none; a day has 24 hours.
///
/// # Errors
/// A sentence with the forms.
pub fn parse_every(text: &str) -> Result<Duration, String> {
    match parse_age(text) {
        Ok(Duration::ZERO) => Err(format!("{text:?} is no interval: write it like 1d or 6h")),
        parsed => parsed,
    }
}

/// Parses how long ago; a day has 24 hours.
///
/// # Errors
/// A sentence with the forms.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    let unreadable = || format!("{text:?} is no time: write it like 90s, 30m, 6h, 1d or 2w");
    let span: Span = text.parse().map_err(|_| unreadable())?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| unreadable())?;
    Duration::try_from(duration).map_err(|_| unreadable())
}

/// Milliseconds since 1970.
pub fn ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_parsed_and_others_refused() {
        for (text, seconds) in
            [("1d", 86_400), ("6h", 21_600), ("90s", 90), ("2w", 1_209_600), ("1d12h", 129_600)]
        {
            assert_eq!(parse_every(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0s", "-1d", "1mo", "soon", "5", "1 parsec"] {
            parse_every(text).expect_err(text);
        }
        assert_eq!(parse_age("0s"), Ok(Duration::ZERO));
        let past = parse_moment("1999-01-01").expect_err("past");
        assert!(past.contains("in the past"), "{past}");
    }
}
