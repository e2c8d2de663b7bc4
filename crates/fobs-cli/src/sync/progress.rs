//! `--progress` and `--info=progress2`: rsync's line, which programs around it read.

use std::time::Duration;

use super::figures::{Human, big};

/// What a line says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standing {
    pub bytes: u64,
    pub size: u64,
    /// Bytes per second.
    pub rate: f64,
    /// Files sent, entries that are not, and all of them.
    pub files: u64,
    pub left: u64,
    pub all: u64,
    /// Whether all entries are known.
    pub is_listed: bool,
}

/// The line while data flows: what is left is a time.
pub fn flowing(it: &Standing, human: Human) -> String {
    let left = it.size.saturating_sub(it.bytes) as f64;
    let remaining = if it.rate > 0.0 { left / it.rate } else { 0.0 };
    format!("{}  ", line(it, human, remaining))
}

/// The line of something that is complete, after so long.
pub fn complete(it: &Standing, human: Human, took: Duration) -> String {
    let word = if it.is_listed { "to" } else { "ir" };
    let Standing { files, left, all, .. } = it;
    format!("{} (xfr#{files}, {word}-chk={left}/{all})", line(it, human, took.as_secs_f64()))
}

/// A line within the columns of a terminal: rsync's own breaks in a narrow one, and each begins another.
pub fn fitted(line: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns.filter(|columns| line.trim_start_matches('\r').trim_end().len() > *columns)
    else {
        return line.to_owned();
    };
    let close: String = line.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(columns).collect();
    format!("\r{close}")
}

fn line(it: &Standing, human: Human, seconds: f64) -> String {
    let percent = if it.bytes >= it.size { 100 } else { it.bytes.saturating_mul(100) / it.size.max(1) };
    let kilo = it.rate / 1024.0;
    let (rate, unit) = match kilo {
        _ if kilo > 1024.0 * 1024.0 => (kilo / (1024.0 * 1024.0), "GB/s"),
        _ if kilo > 1024.0 => (kilo / 1024.0, "MB/s"),
        _ => (kilo, "kB/s"),
    };
    let remaining = if (0.0..=9999.0 * 3600.0).contains(&seconds) {
        let whole = seconds as u64;
        format!("{:>4}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
    } else {
        "  ??:??:??".to_owned()
    };
    format!("\r{:>15} {percent:>3}% {rate:>7.2}{unit} {remaining}", big(it.bytes, human))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_rsync() {
        let it = Standing {
            bytes: 1_238_099,
            size: 2_476_198,
            rate: 149_893.1,
            files: 5,
            left: 169,
            all: 396,
            is_listed: true,
        };
        assert_eq!(flowing(&it, 1), "\r      1,238,099  50%  146.38kB/s    0:00:08  ");
        let whole = Standing { size: it.bytes, ..it };
        let line = complete(&whole, 1, Duration::from_secs(8));
        assert_eq!(line, "\r      1,238,099 100%  146.38kB/s    0:00:08 (xfr#5, to-chk=169/396)");
        for (columns, expected) in [
            (None, line.as_str()),
            (Some(200), &line),
            (Some(50), "\r1,238,099 100% 146.38kB/s 0:00:08 (xfr#5, to-chk=1"),
            (Some(33), "\r1,238,099 100% 146.38kB/s 0:00:08"),
        ] {
            assert_eq!(fitted(&line, columns), expected, "{columns:?}");
        }
        let nothing = flowing(&Standing::default(), 1);
        assert_eq!(nothing, "\r              0 100%    0.00kB/s    0:00:00  ");
    }
}
