//! Figures in sentences.

/// A share of 0 to 1: `95%`, and two decimals below 1%.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share.clamp(0.0, 1.0);
    match percent {
        0.0 => "0%".to_owned(),
        p if p < 0.95 => format!("{p:.2}%"),
        p => format!("{p:.0}%"),
    }
}

/// Bits per second with three digits: `93.4 Mbit/s`.
pub fn rate(bits_per_second: f64) -> String {
    let (value, unit) = scaled(bits_per_second);
    format!("{value} {unit}bit/s")
}

/// Bits per second as an argument of `--rate`: `93.4Mbit`.
pub fn word(bits_per_second: f64) -> String {
    let (value, unit) = scaled(bits_per_second);
    format!("{value}{unit}bit")
}

fn scaled(bits_per_second: f64) -> (String, &'static str) {
    let (value, unit) = match bits_per_second {
        r if r >= 1e9 => (r / 1e9, "G"),
        r if r >= 1e6 => (r / 1e6, "M"),
        r => (r / 1e3, "k"),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    (format!("{value:.digits$}"), unit)
}

/// A size: `39.1 KiB`.
pub fn bytes(count: u64) -> String {
    match count {
        n if n >= 1 << 20 => format!("{:.1} MiB", n as f64 / f64::from(1 << 20)),
        n => format!("{:.1} KiB", n as f64 / 1024.0),
    }
}
