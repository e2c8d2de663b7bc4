//! Rates, sizes, times and shares as people write them in plans, specs and on command lines, and back.
//!
//! Every quantity is written with its unit (`100Mbit`, `64KiB`, `32.5ms`, `1%`) and printed as the shortest
//! text that reads back as the same value, so a spec that went through a record is the spec that was run.
//! Numbers are plain decimals: no sign, no exponent, no grouping.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that is no quantity of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind}: write {example}")]
pub struct UnitError {
    text: String,
    kind: &'static str,
    example: &'static str,
}

/// Bits a second; on a link, of whole IP packets. 1 bit/s to 1 Tbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

/// A number of bytes, up to 1 PiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Size(u64);

/// A span of time in whole nanoseconds, up to about 11.5 days (10^6 seconds).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(u64);

/// A part of a whole, 0 to 1: a probability or a share of a link.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Share(f64);

type Units = &'static [(&'static str, u64)];

const RATE_UNITS: Units = &[("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];
const SIZE_UNITS: Units = &[
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];
const TIME_UNITS: Units = &[
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

const RATE_MAX: u64 = 1_000_000_000_000;
const SIZE_MAX: u64 = 1 << 50;
const TIME_MAX: u64 = 1_000_000 * 1_000_000_000;

impl Rate {
    /// `None` beyond 1 bit/s to 1 Tbit/s.
    pub fn from_bits_per_second(bits: u64) -> Option<Rate> {
        (1..=RATE_MAX).contains(&bits).then_some(Rate(bits))
    }

    /// The number itself.
    pub fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Bytes that the rate moves in `time`, rounded down.
    pub fn bytes_in(self, time: Time) -> Size {
        let bytes = u128::from(self.0) * u128::from(time.0) / 8_000_000_000;
        Size(u64::try_from(bytes).unwrap_or(SIZE_MAX).min(SIZE_MAX))
    }
}

impl Size {
    /// `None` beyond 1 PiB.
    pub fn from_bytes(bytes: u64) -> Option<Size> {
        (bytes <= SIZE_MAX).then_some(Size(bytes))
    }

    /// The number itself.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl Time {
    /// No time.
    pub const ZERO: Time = Time(0);

    /// `None` beyond 10^6 seconds.
    pub fn from_nanos(nanos: u64) -> Option<Time> {
        (nanos <= TIME_MAX).then_some(Time(nanos))
    }

    /// The number itself.
    pub fn nanos(self) -> u64 {
        self.0
    }

    /// As the standard library has it.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// In milliseconds.
    pub fn millis(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Share {
    /// `None` if it is not within 0 to 1.
    pub fn new(share: f64) -> Option<Share> {
        (0.0..=1.0).contains(&share).then_some(Share(share))
    }

    /// As a fraction, 0 to 1.
    pub fn fraction(self) -> f64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    /// `100Mbit`, `2.5Gbit/s`.
    fn from_str(text: &str) -> Result<Rate, UnitError> {
        let bare = text.trim();
        let bare = bare.strip_suffix("/s").unwrap_or(bare);
        scaled(bare, RATE_UNITS)
            .and_then(Rate::from_bits_per_second)
            .ok_or_else(|| error(text, "rate", "1bit to 1000Gbit, as 100Mbit or 2.5Gbit"))
    }
}

impl FromStr for Size {
    type Err = UnitError;

    /// `1500B`, `64KiB`, `64MB`.
    fn from_str(text: &str) -> Result<Size, UnitError> {
        scaled(text.trim(), SIZE_UNITS)
            .and_then(Size::from_bytes)
            .ok_or_else(|| error(text, "size", "bytes up to 1 PiB, as 1500B, 64KiB or 64MB"))
    }
}

impl FromStr for Time {
    type Err = UnitError;

    /// `65ms`, `1.5s`, `300us`.
    fn from_str(text: &str) -> Result<Time, UnitError> {
        scaled(text.trim(), TIME_UNITS)
            .and_then(Time::from_nanos)
            .ok_or_else(|| error(text, "time", "up to a million seconds, as 65ms, 1.5s or 300us"))
    }
}

impl FromStr for Share {
    type Err = UnitError;

    /// `1%`, `0.01`.
    fn from_str(text: &str) -> Result<Share, UnitError> {
        let bare = text.trim();
        let share = match bare.strip_suffix('%') {
            Some(percent) => decimal(percent.trim_end()).map(|percent| percent / 100.0),
            None => decimal(bare),
        };
        share.and_then(Share::new).ok_or_else(|| error(text, "share", "0% to 100%, or 0 to 1"))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shortest(self.0, RATE_UNITS))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shortest(self.0, SIZE_UNITS))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shortest(self.0, TIME_UNITS))
    }
}

impl fmt::Display for Share {
    /// Percent where that reads back as the same share, the plain fraction otherwise.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = format!("{:.8}", self.0 * 100.0);
        let percent = format!("{}%", percent.trim_end_matches('0').trim_end_matches('.'));
        match percent.parse::<Share>() {
            Ok(same) if same == *self => f.pad(&percent),
            _ => f.pad(&self.0.to_string()),
        }
    }
}

/// Strings only: a bare number would not say its unit.
macro_rules! serde_as_text {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

serde_as_text!(Rate, Size, Time);

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Share {
    /// `"1%"`, or a plain number from 0 to 1.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a share is text as \"1%\" or a number from 0 to 1")]
        enum Written {
            Number(f64),
            Text(String),
        }
        let parsed = match Written::deserialize(deserializer)? {
            Written::Number(number) => number.to_string().parse(),
            Written::Text(text) => text.parse(),
        };
        parsed.map_err(serde::de::Error::custom)
    }
}

fn error(text: &str, kind: &'static str, example: &'static str) -> UnitError {
    // What a user wrote may be long: the beginning is enough to find it.
    UnitError { text: text.chars().take(40).collect(), kind, example }
}

/// A plain decimal: digits with at most one point, nothing else (no sign, exponent, `inf` or `nan`).
fn decimal(text: &str) -> Option<f64> {
    let plain = text.len() <= 64
        && text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    plain.then(|| text.parse().ok()).flatten()
}

/// The number before the unit times the unit, rounded to the nearest whole.
fn scaled(text: &str, units: Units) -> Option<u64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let scale = units.iter().find(|(name, _)| *name == unit)?.1;
    let value = decimal(number.trim_end())? * scale as f64;
    // 2^53: up to here a float holds every whole number.
    (value <= (1u64 << 53) as f64).then(|| value.round() as u64)
}

/// The shortest exact text of at most three decimals; the smallest unit always gives one.
fn shortest(value: u64, units: Units) -> String {
    let exact = |&(name, scale): &(&str, u64)| {
        let whole = value / scale;
        let thousandths = u128::from(value % scale) * 1000;
        if (whole == 0 && scale > 1) || thousandths % u128::from(scale) != 0 {
            return None;
        }
        let fraction = format!("{:03}", thousandths / u128::from(scale));
        let number = format!("{whole}.{fraction}");
        Some(format!("{}{name}", number.trim_end_matches('0').trim_end_matches('.')))
    };
    let texts = units.iter().filter_map(exact);
    texts.min_by_key(String::len).unwrap_or_else(|| value.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_are_read() {
        assert_eq!("100Mbit".parse(), Ok(Rate(100_000_000)));
        assert_eq!("2.5 Gbit/s".parse(), Ok(Rate(2_500_000_000)));
        assert_eq!("64KiB".parse(), Ok(Size(65_536)));
        assert_eq!("64MB".parse(), Ok(Size(64_000_000)));
        assert_eq!("32.5ms".parse(), Ok(Time(32_500_000)));
        assert_eq!("300us".parse(), Ok(Time(300_000)));
        assert_eq!("1%".parse(), Ok(Share(0.01)));
        assert_eq!("0.25".parse(), Ok(Share(0.25)));
        assert_eq!(Rate(100_000_000).bytes_in(Time(65_000_000)), Size(812_500));
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_an_example() {
        for text in
            ["", "100", "Mbit", "-1Mbit", "1e9bit", "infbit", "0bit", "2000Gbit", "1 mbit", "1.2.3kbit"]
        {
            let error = text.parse::<Rate>().expect_err(text).to_string();
            assert!(error.contains("100Mbit"), "{error}");
        }
        for text in ["1.5", "-3ms", "1e3s", "9999999s", "ms"] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
        for text in ["101%", "1.1", "-1%", "nan", "%", ""] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        assert!("2000000GiB".parse::<Size>().is_err());
    }

    #[test]
    fn the_shortest_exact_text_is_printed() {
        assert_eq!(Rate(100_000_000).to_string(), "100Mbit");
        assert_eq!(Rate(1_500_000_000).to_string(), "1.5Gbit");
        assert_eq!(Rate(1_234_500).to_string(), "1234.5kbit");
        assert_eq!(Rate(1_234_567).to_string(), "1234567bit");
        assert_eq!(Size(65_536).to_string(), "64KiB");
        assert_eq!(Size(812_500).to_string(), "812.5kB");
        assert_eq!(Time(32_500_000).to_string(), "32.5ms");
        assert_eq!(Time(0).to_string(), "0ns");
        assert_eq!(Share(0.001).to_string(), "0.1%");
        assert_eq!(Share(1.0 / 3.0).to_string().parse(), Ok(Share(1.0 / 3.0)));
    }

    #[test]
    fn a_share_may_be_a_number_in_a_file() {
        assert_eq!(serde_json::from_str::<Share>("0.5").ok(), Some(Share(0.5)));
        assert_eq!(serde_json::from_str::<Share>("1").ok(), Some(Share(1.0)));
        assert_eq!(serde_json::from_str::<Share>("\"5%\"").ok(), Some(Share(0.05)));
        assert!(serde_json::from_str::<Share>("1.5").is_err());
        assert!(serde_json::from_str::<Rate>("100").is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(value in 1u64..=RATE_MAX, share in 0.0..=1.0f64) {
            prop_assert_eq!(Rate(value).to_string().parse(), Ok(Rate(value)));
            prop_assert_eq!(Size(value).to_string().parse(), Ok(Size(value)));
            prop_assert_eq!(Time(value).to_string().parse(), Ok(Time(value)));
            prop_assert_eq!(Share(share).to_string().parse(), Ok(Share(share)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            let _ = text.parse::<Rate>();
            let _ = text.parse::<Size>();
            let _ = text.parse::<Time>();
            let _ = text.parse::<Share>();
        }
    }
}
