//! Formats numbers for axes, tables and text.

/// A number with about three significant digits: `0.042`, `3.14`, `93.4`, `1240`.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A rate: `100 Mbit/s`, `1 Gbit/s`.
pub fn rate(bits_per_second: f64) -> String {
    match bits_per_second {
        rate if rate >= 1e9 => format!("{} Gbit/s", number(rate / 1e9)),
        rate if rate >= 1e6 => format!("{} Mbit/s", number(rate / 1e6)),
        rate => format!("{} kbit/s", number(rate / 1e3)),
    }
}

/// A size: `64 MB`.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        size if size >= 1e9 => format!("{} GB", number(size / 1e9)),
        size if size >= 1e6 => format!("{} MB", number(size / 1e6)),
        size if size >= 1e3 => format!("{} kB", number(size / 1e3)),
        size => format!("{} B", number(size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.0417, "0.042"),
            (0.1, "0.1"),
            (3.126, "3.13"),
            (93.44, "93.4"),
            (100.0, "100"),
            (1240.4, "1240"),
            (-0.0001, "0"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!((rate(1e8), rate(2.5e9)), ("100 Mbit/s".to_owned(), "2.5 Gbit/s".to_owned()));
        assert_eq!(bytes(64e6), "64 MB");
    }
}
