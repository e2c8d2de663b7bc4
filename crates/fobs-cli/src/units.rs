//! Quantities with units, read and fitted into columns: rates in bits per second, sizes in bytes.
//!
//! Parsing is exact (integers only) and refuses invalid text with a sentence that shows valid forms.

use fobs::options::unitless_rate_as;
pub use fobs_page::figures::{show_bytes, show_clock, show_rate, show_share};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// End of every error about a rate.
const RATE_FORMS: &str = "write it like 100M or 10Gbit (bits per second) or 64MiB (bytes per second)";
/// End of every error about a size.
const SIZE_FORMS: &str = "write it like 4096, 1.5M or 64KiB (bytes)";
/// Most decimal places: 10^18 times the largest unit (8 TiB, 2^43) stays far below 2^128.
const DECIMAL_PLACES_MAX: usize = 18;

/// Parses a rate; bits per second.
///
/// A plain number and the units `k M G T` (1000) and `Ki Mi Gi Ti` (1024), alone or with `bit` or `b`, count
/// bits; with `B` they count bytes. `/s` or `ps` may follow. Zero is refused, and a small number alone.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let rate = parse(text, rate_unit, RATE_FORMS)?;
    let (number, unit) = split_number(text.trim());
    if unit.is_empty() { unitless_rate_as(rate, number) } else { Ok(rate) }
}

/// Parses a size; bytes. Units as in [`parse_rate`], without the bits. Zero is refused.
pub fn parse_size(text: &str) -> Result<u64, String> {
    parse(text, size_unit, SIZE_FORMS)
}

fn parse(text: &str, unit_value: fn(&str) -> Option<u64>, forms: &str) -> Result<u64, String> {
    let (number, unit) = split_number(text.trim());
    let (whole, fraction) = match number.split_once('.') {
        Some((_, "")) => return Err(format!("digits are missing after the point; {forms}")),
        Some((whole, fraction)) => (whole, fraction),
        None => (number, ""),
    };
    if whole.is_empty() || fraction.contains('.') {
        return Err(format!("it is not a number; {forms}"));
    }
    if fraction.len() > DECIMAL_PLACES_MAX {
        return Err(format!("it has more than {DECIMAL_PLACES_MAX} decimal places; {forms}"));
    }
    let Some(value) = unit_value(unit) else {
        return Err(format!("{unit:?} is not a unit; {forms}"));
    };
    let too_large = || format!("it is too large; {forms}");
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let denominator = 10_u128.pow(fraction.len() as u32);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| too_large())? };
    let total = u128::from(whole) * u128::from(value) + fraction * u128::from(value) / denominator;
    match u64::try_from(total) {
        Ok(0) => Err(format!("it must be above zero; {forms}")),
        Ok(total) => Ok(total),
        Err(_) => Err(too_large()),
    }
}

/// Splits into leading digits and points, and the unit.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// The unit's value in bits.
fn rate_unit(unit: &str) -> Option<u64> {
    let unit = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps")).unwrap_or(unit);
    if let Some(prefix) = unit.strip_suffix('B') {
        return Some(prefix_value(prefix)? * 8);
    }
    let prefix =
        ["bits", "bit", "b"].iter().find_map(|name| strip_suffix_ignore_case(unit, name)).unwrap_or(unit);
    prefix_value(prefix)
}

/// The unit's value in bytes.
fn size_unit(unit: &str) -> Option<u64> {
    prefix_value(unit.strip_suffix('B').unwrap_or(unit))
}

fn strip_suffix_ignore_case<'a>(text: &'a str, suffix: &str) -> Option<&'a str> {
    let split = text.len().checked_sub(suffix.len())?;
    let (head, tail) = text.split_at_checked(split)?;
    tail.eq_ignore_ascii_case(suffix).then_some(head)
}

fn prefix_value(prefix: &str) -> Option<u64> {
    let (letter, base) = match prefix.strip_suffix('i') {
        Some(letter) => (letter, 1024_u64),
        None => (prefix, 1000),
    };
    let power = match letter {
        "" if base == 1000 => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        _ => return None,
    };
    Some(base.pow(power))
}

/// The most important of these words that fit into `columns`, two apart, in the order in which they are
/// given; each has its rank, 0 the first.
pub fn fitting(words: impl IntoIterator<Item = (usize, String)>, columns: usize) -> String {
    let mut words: Vec<(usize, String)> = words.into_iter().collect();
    let width = |words: &[(usize, String)]| words.iter().map(|(_, word)| word.width() + 2).sum::<usize>();
    while width(&words) > columns.saturating_add(2) {
        let Some(least) = words.iter().map(|(rank, _)| *rank).max() else { break };
        words.retain(|(rank, _)| *rank != least);
    }
    words.into_iter().map(|(_, word)| word).collect::<Vec<_>>().join("  ")
}

/// A text that takes at most `columns` of a terminal, where a letter may take none or two: what does not fit
/// is left out of its middle.
pub fn shortened(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let Some(kept) = columns.checked_sub(1) else { return String::new() };
    let (before, after) = (kept.div_ceil(2), kept / 2);
    let begin = within(text.chars(), before);
    // A mark that belongs to the letter before it does not stand alone.
    let mut end: Vec<char> = within(text.chars().rev(), after);
    while end.last().is_some_and(|letter| letter.width() == Some(0)) {
        end.pop();
    }
    begin.into_iter().chain(['…']).chain(end.into_iter().rev()).collect()
}

/// The first letters that take at most `columns`.
fn within(letters: impl Iterator<Item = char>, columns: usize) -> Vec<char> {
    let mut left = columns;
    let fits = |letter: &char| {
        let rest = left.checked_sub(letter.width().unwrap_or(0));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    letters.take_while(fits).collect()
}

/// How many lines of `columns` a text takes whose lines break between words, as ratatui breaks them.
pub fn lines_in(text: &str, columns: usize) -> usize {
    let mut lines = 1;
    let mut used = 0;
    for word in text.split_whitespace().map(UnicodeWidthStr::width) {
        let with_space = if used == 0 { word } else { used + 1 + word };
        used = if with_space <= columns {
            with_space
        } else {
            // A longer word is broken.
            lines += usize::from(used > 0) + word.saturating_sub(1) / columns.max(1);
            word.saturating_sub(1) % columns.max(1) + usize::from(word > 0)
        };
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed() {
        let table: [(&str, u64); 24] = [
            ("1bit", 1),
            ("100000", 100_000),
            ("100M", 100_000_000),
            ("100m", 100_000_000),
            ("10Gbit", 10_000_000_000),
            ("10gbit", 10_000_000_000),
            ("10Gbit/s", 10_000_000_000),
            ("10 Gbit/s", 10_000_000_000),
            ("10Gbps", 10_000_000_000),
            ("10Gb", 10_000_000_000),
            ("2.5G", 2_500_000_000),
            ("64MiB", 64 * (1 << 20) * 8),
            ("64MiB/s", 64 * (1 << 20) * 8),
            ("64MiBps", 64 * (1 << 20) * 8),
            ("64Mi", 64 << 20),
            ("64Mibit", 64 << 20),
            ("10MB", 80_000_000),
            ("100B", 800),
            ("100bits", 100),
            ("100bit/s", 100),
            ("1.5k", 1_500),
            ("0.001k", 1),
            ("1T", 1_000_000_000_000),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bits) in table {
            assert_eq!(parse_rate(text), Ok(bits), "{text}");
        }
    }

    #[test]
    fn a_small_rate_without_a_unit_is_a_mistake() {
        for (text, means) in [
            ("1", "would be 1 bit per second; write 1Mbit, or 1bit"),
            ("100", "would be 100 bits per second; write 100Mbit, or 100bit"),
            (" 50 ", "50 alone would be 50 bits per second; write 50Mbit, or 50bit"),
            ("2.5", "2.5 alone would be 2 bits per second; write 2.5Mbit, or 2bit"),
            ("99999", "write 99999kbit, or 99999bit"),
        ] {
            let sentence = parse_rate(text).expect_err(text);
            assert!(sentence.contains(means), "{text}: {sentence}");
        }
    }

    #[test]
    fn sizes_are_parsed() {
        let table = [
            ("4096", 4096),
            ("64KiB", 65_536),
            ("64Ki", 65_536),
            ("1.5M", 1_500_000),
            ("1.5MB", 1_500_000),
            ("1.4k", 1_400),
            ("12B", 12),
            ("1.5KiB", 1_536),
            ("16777215TiB", 16_777_215 << 40),
        ];
        for (text, bytes) in table {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_quantities_are_refused_with_valid_forms() {
        let rates = [
            ("", "not a number"),
            ("M", "not a number"),
            (".5M", "not a number"),
            ("1.2.3M", "not a number"),
            ("-5M", "not a number"),
            ("+5M", "not a number"),
            ("5.", "digits are missing"),
            ("5.M", "digits are missing"),
            ("10Q", "\"Q\" is not a unit"),
            ("10i", "\"i\" is not a unit"),
            ("1e9", "\"e9\" is not a unit"),
            ("1,000M", "is not a unit"),
            ("10Mbyte", "is not a unit"),
            ("10\u{e9}", "is not a unit"),
            ("10M\u{2009}bit", "is not a unit"),
            ("0", "above zero"),
            ("0.0000001k", "above zero"),
            ("1.0000000000000000001M", "decimal places"),
            ("18446744073709551616", "too large"),
            ("99999999999999999999999999999999999999999999M", "too large"),
            ("18446744073709551615B", "too large"),
            ("20000000T", "too large"),
        ];
        for (text, why) in rates {
            let sentence = parse_rate(text).expect_err(text);
            assert!(sentence.contains(why) && sentence.ends_with(RATE_FORMS), "{text}: {sentence}");
        }
        for (text, why) in
            [("64kbit", "not a unit"), ("64Kib", "not a unit"), ("x", "not a number"), ("0", "zero")]
        {
            let sentence = parse_size(text).expect_err(text);
            assert!(sentence.contains(why) && sentence.ends_with(SIZE_FORMS), "{text}: {sentence}");
        }
    }

    #[test]
    fn texts_are_cut_by_the_columns_that_they_take() {
        for text in [
            "plain",
            "\u{65e5}\u{672c}\u{8a9e}",
            "\u{1f600}a\u{1f600}b\u{1f600}",
            "e\u{301}e\u{301}e\u{301}e\u{301}",
            "",
        ] {
            for columns in 0..12 {
                let shown = shortened(text, columns);
                assert!(shown.width() <= columns, "{text:?} in {columns}: {shown:?}");
                assert_eq!(shown == text, text.width() <= columns, "{text:?} in {columns}: {shown:?}");
            }
        }
        assert_eq!(shortened("abcdefgh", 5), "ab\u{2026}gh");
        assert_eq!(shortened("\u{65e5}\u{672c}\u{8a9e}\u{6587}", 5), "\u{65e5}\u{2026}\u{6587}");
    }

    #[test]
    fn lines_are_counted_as_they_are_broken() {
        use ratatui::buffer::Buffer;
        use ratatui::layout::Rect;
        use ratatui::widgets::{Paragraph, Widget, Wrap};
        let texts = [
            "",
            "one",
            "some words of a sentence",
            "a-word-that-is-longer-than-a-line and one",
            "\u{65e5}\u{672c} \u{8a9e}\u{8a9e} a b c",
        ];
        for text in texts {
            for columns in 4..30 {
                let mut screen = Buffer::empty(Rect::new(0, 0, columns, 40));
                Paragraph::new(text).wrap(Wrap { trim: true }).render(screen.area, &mut screen);
                let row = |y| (0..columns).any(|x| screen[(x, y)].symbol() != " ");
                let taken = (0..40).take_while(|y| row(*y)).count().max(1);
                assert!(lines_in(text, columns.into()) >= taken, "{text:?} in {columns}: {taken}");
                assert!(lines_in(text, columns.into()) <= taken + 1, "{text:?} in {columns}: {taken}");
            }
        }
    }
}
