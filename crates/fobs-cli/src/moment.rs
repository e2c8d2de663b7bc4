//! Points in time on the command line: `2h`, `06:00`, `2026-11-23T06:00Z`.

use std::time::SystemTime;

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// End of every error.
const FORMS: &str =
    "give a duration (90s, 30m, 2h, 1d12h) or a point in time (06:00, 2026-11-23T06:00, 2026-11-23T06:00Z)";

/// Parses a duration from now, a time of day (its next occurrence), a local date and time, or one with a
/// zone.
///
/// # Errors
/// A sentence with the valid forms.
pub fn parse_deadline(text: &str) -> Result<SystemTime, String> {
    parse_at(text, &Zoned::now())
}

/// Longest number that is no date: `20261124` is one.
const BARE_DIGITS_MAX: usize = 7;

/// Refuses a number alone: of `1500` one reader makes seconds and another one the afternoon.
fn refuse_bare(text: &str) -> Result<(), String> {
    let number = text.trim();
    let is_bare = number.bytes().all(|byte| byte.is_ascii_digit());
    if number.is_empty() || number.len() > BARE_DIGITS_MAX || !is_bare {
        return Ok(());
    }
    Err(format!("{number} alone has no unit, as {number}s or {number}m have: {FORMS}"))
}

fn parse_at(text: &str, now: &Zoned) -> Result<SystemTime, String> {
    refuse_bare(text)?;
    let unreadable = || format!("{text:?} is not a deadline: {FORMS}");
    let moment = if let Ok(span) = text.parse::<Span>() {
        now.checked_add(span).map_err(|_| format!("{text:?} is too far away: {FORMS}"))?.timestamp()
    } else if let Ok(timestamp) = text.parse::<Timestamp>() {
        timestamp
    } else if let Ok(zoned) = text.parse::<Zoned>() {
        zoned.timestamp()
    } else if let Ok(local) = text.parse::<DateTime>() {
        here(local, now.time_zone()).ok_or_else(unreadable)?
    } else {
        // Last: of a date with a time it would take the time alone.
        next(text.parse().map_err(|_| unreadable())?, now).ok_or_else(unreadable)?
    };
    if moment <= now.timestamp() {
        return Err(format!("{text:?} is in the past: {FORMS}"));
    }
    Ok(moment.into())
}

/// Parses how long ago, or a point in time that is past.
///
/// # Errors
/// A sentence with the valid forms.
pub fn parse_since(text: &str) -> Result<SystemTime, String> {
    since(text, &Zoned::now())
}

fn since(text: &str, now: &Zoned) -> Result<SystemTime, String> {
    refuse_bare(text)?;
    let moment = if let Ok(span) = text.parse::<Span>() {
        now.checked_sub(span).ok().map(|then| then.timestamp())
    } else if let Ok(timestamp) = text.parse::<Timestamp>() {
        Some(timestamp)
    } else if let Ok(local) = text.parse::<DateTime>() {
        here(local, now.time_zone())
    } else {
        let time = text.parse::<Time>().ok();
        time.and_then(|time| here(now.date().to_datetime(time), now.time_zone()))
    };
    let past = moment.filter(|moment| *moment <= now.timestamp());
    past.map(SystemTime::from).ok_or_else(|| format!("{text:?} is no time that is past: {FORMS}"))
}

/// The next moment with this local time of day.
fn next(time: Time, now: &Zoned) -> Option<Timestamp> {
    let today = here(now.date().to_datetime(time), now.time_zone())?;
    if today > now.timestamp() {
        return Some(today);
    }
    here(now.date().tomorrow().ok()?.to_datetime(time), now.time_zone())
}

fn here(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    zone.to_zoned(local).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parsed moment, in seconds from an evening in the zone UTC+2.
    fn seconds(text: &str) -> Result<i64, String> {
        let now: Zoned = "2026-11-22T21:30:00+02:00[+02:00]".parse().expect("a moment");
        let moment = Timestamp::try_from(parse_at(text, &now)?).expect("in range");
        Ok(moment.as_second() - now.timestamp().as_second())
    }

    #[test]
    fn what_is_past_is_parsed_as_how_long_ago_or_when() {
        let now: Zoned = "2026-11-22T21:30:00+02:00[+02:00]".parse().expect("a moment");
        for (text, ago) in [
            ("2h", 7200),
            ("90s", 90),
            ("21:00", 1800),
            ("2026-11-21T21:00", 88_200),
            ("2026-11-22T19:00:00Z", 1800),
        ] {
            let moment = Timestamp::try_from(since(text, &now).expect(text)).expect("in range");
            assert_eq!(now.timestamp().as_second() - moment.as_second(), ago, "{text}");
        }
        for text in ["22:00", "2027-01-01T00:00Z", "soon", "-2h", "5", "1500", "200000"] {
            since(text, &now).expect_err(text);
        }
    }

    #[test]
    fn durations_and_points_in_time_are_parsed() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let table = [
            ("90s", 90),
            ("30m", 30 * minute),
            ("2h", 2 * hour),
            ("2h30m", 150 * minute),
            ("2h 30min", 150 * minute),
            ("1d12h", 36 * hour),
            ("1d", day),
            ("PT2H", 2 * hour),
            ("22:00", 30 * minute),
            ("06:00", 8 * hour + 30 * minute),
            ("21:30", day),
            ("2026-11-23T06:00", 8 * hour + 30 * minute),
            ("2026-11-23 06:00", 8 * hour + 30 * minute),
            ("2026-11-23T06:00Z", 10 * hour + 30 * minute),
            ("2026-11-23T06:00:30+02:00", 8 * hour + 30 * minute + 30),
            ("2026-11-24", day + 2 * hour + 30 * minute),
            ("2026-11-25T22:00", 3 * day + 30 * minute),
            ("2026-11-25 06:00", 2 * day + 8 * hour + 30 * minute),
        ];
        for (text, expected) in table {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_and_past_deadlines_are_refused_with_valid_forms() {
        let table = [
            ("", "is not a deadline"),
            ("soon", "is not a deadline"),
            ("2", "2 alone has no unit, as 2s or 2m have"),
            ("1500", "1500 alone has no unit"),
            ("15", "15 alone has no unit"),
            ("153000", "153000 alone has no unit"),
            ("2 parsecs", "is not a deadline"),
            ("25:00", "is not a deadline"),
            ("2026-13-01T00:00Z", "is not a deadline"),
            ("0s", "is in the past"),
            ("-2h", "is in the past"),
            ("2h ago", "is in the past"),
            ("2026-11-22T19:30Z", "is in the past"),
            ("1999-01-01", "is in the past"),
            ("2026-11-21T23:00", "is in the past"),
            ("19998y", "is too far away"),
        ];
        for (text, why) in table {
            let sentence = seconds(text).expect_err(text);
            assert!(sentence.contains(why) && sentence.ends_with(FORMS), "{text}: {sentence}");
        }
    }
}
