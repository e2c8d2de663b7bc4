//! Quantities for people: rates in bits per second, sizes in bytes, shares and times.

use std::time::Duration;

use jiff::{Timestamp, Zoned};

/// `9.41 Gbit/s`.
pub fn show_rate(bits_per_second: f64) -> String {
    show(bits_per_second, "bit/s")
}

/// `1.50 GB` (decimal, so that it compares with the rate).
pub fn show_bytes(bytes: u64) -> String {
    show(
        bytes as f64,
        if bytes == 1 {
            "byte"
        } else if bytes < 1000 {
            "bytes"
        } else {
            "B"
        },
    )
}

fn show(value: f64, unit: &str) -> String {
    let mut value = if value.is_finite() { value.max(0.0) } else { 0.0 };
    let mut prefix = "";
    for next in ["k", "M", "G", "T", "P", "E"] {
        // From 999.5 on, the number would round to four digits.
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        prefix = next;
    }
    let decimals = match value {
        _ if prefix.is_empty() => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {prefix}{unit}")
}

/// A share as `0.12%`.
pub fn show_share(share: f64) -> String {
    let percent = if share.is_finite() { share * 100.0 } else { 0.0 };
    let decimals = match percent.abs() {
        p if p < 9.995 => 2,
        p if p < 99.95 => 1,
        _ => 0,
    };
    format!("{percent:.decimals$}%")
}

/// A duration as `0:42`, `12:05` or `3:00:09`; hours have no limit.
pub fn show_clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// A point in time of the clock here: the time alone within a day of now.
pub fn show_moment(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let Some(at) = at else { return "a time far away".to_owned() };
    let now = Zoned::now();
    let at = at.to_zoned(now.time_zone().clone());
    let form = if at.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
    at.strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_printed_with_their_unit() {
        let rates = [
            (0.0, "0 bit/s"),
            (999.0, "999 bit/s"),
            (999.6, "1.00 kbit/s"),
            (9.41e9, "9.41 Gbit/s"),
            (99.96e6, "100 Mbit/s"),
            (94.1e6, "94.1 Mbit/s"),
            (999.6e6, "1.00 Gbit/s"),
            (1e21, "1000 Ebit/s"),
            (f64::NAN, "0 bit/s"),
            (f64::INFINITY, "0 bit/s"),
            (-1.0, "0 bit/s"),
        ];
        for (value, shown) in rates {
            assert_eq!(show_rate(value), shown);
        }
        for (bytes, shown) in
            [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1500, "1.50 kB"), (u64::MAX, "18.4 EB")]
        {
            assert_eq!(show_bytes(bytes), shown);
        }
        for (share, shown) in
            [(0.0, "0.00%"), (0.00123, "0.12%"), (0.5, "50.0%"), (f64::NAN, "0.00%"), (2.0, "200%")]
        {
            assert_eq!(show_share(share), shown);
        }
        for (seconds, shown) in
            [(0, "0:00"), (42, "0:42"), (725, "12:05"), (10_809, "3:00:09"), (360_000, "100:00:00")]
        {
            assert_eq!(show_clock(Duration::from_secs(seconds)), shown);
        }
    }
}
