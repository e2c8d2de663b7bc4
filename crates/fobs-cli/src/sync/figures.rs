//! What a sync counts, and the summaries that rsync prints of it.

use fobs::event::Summary;

use fobs::event::EntryFacts;

/// How figures are printed: plain, with commas, in units of 1000, or of 1024 (`--no-h`, none, `-h`, `-hh`).
pub type Human = u8;

/// Counts of entries, by what they are.
#[derive(Debug, Default, Clone, Copy)]
pub struct Kinds([u64; 5]);

/// Their names in a summary, in its order.
const KINDS: &[(&str, &str)] = &[("reg", "f"), ("dir", "d"), ("link", "L"), ("dev", "D"), ("special", "S")];

impl Kinds {
    /// One more; `letter` is the second of `-i`.
    pub fn add(&mut self, letter: &str) {
        if let Some(at) = KINDS.iter().position(|(_, known)| *known == letter) {
            self.0[at] += 1;
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// `5 (reg: 3, dir: 2)`
    fn shown(&self, human: Human) -> String {
        let parts = KINDS.iter().zip(self.0).filter(|(_, count)| *count > 0);
        let parts: Vec<_> =
            parts.map(|((name, _), count)| format!("{name}: {}", comma(count, human))).collect();
        let total = comma(self.total(), human);
        if parts.is_empty() { total } else { format!("{total} ({})", parts.join(", ")) }
    }
}

/// What a sync has come to.
#[derive(Debug, Default)]
pub struct Counts {
    /// What the sources have.
    pub all: Kinds,
    pub created: Kinds,
    pub deleted: Kinds,
    /// Files that are sent, and their bytes.
    pub transferred: u64,
    pub transferred_bytes: u64,
    /// Bytes of all files and links.
    pub total_size: u64,
}

impl Counts {
    /// An entry was decided on.
    pub fn add(&mut self, changes: &str, facts: &EntryFacts) {
        let letter = changes.get(1..2).unwrap_or_default();
        self.all.add(letter);
        if changes.ends_with("+++++++++") {
            self.created.add(letter);
        }
        if matches!(letter, "f" | "L") {
            self.total_size += facts.size;
        }
        if changes.starts_with(['<', '>']) {
            self.transferred += 1;
            self.transferred_bytes += facts.size;
        }
    }
}

/// Which way the data went, and how far a run went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub is_push: bool,
    pub is_dry: bool,
}

/// Bytes that were sent from here, and received: those of files.
pub fn moved(summary: &Summary, run: Run) -> (u64, u64) {
    let literal = summary.bytes.saturating_sub(summary.resumed_bytes).saturating_sub(summary.matched_bytes);
    if run.is_push { (literal, 0) } else { (0, literal) }
}

/// The lines of `--stats`.
pub fn statistics(summary: &Summary, counts: &Counts, human: Human, run: Run) -> String {
    let (sent, received) = moved(summary, run);
    let literal = sent + received;
    let matched = summary.matched_bytes;
    format!(
        "\nNumber of files: {}\nNumber of created files: {}\nNumber of deleted files: {}\n\
         Number of regular files transferred: {}\nTotal file size: {} bytes\n\
         Total transferred file size: {} bytes\nLiteral data: {} bytes\nMatched data: {} bytes\n\
         File list size: 0\nFile list generation time: 0.001 seconds\n\
         File list transfer time: 0.000 seconds\nTotal bytes sent: {}\nTotal bytes received: {}\n",
        counts.all.shown(human),
        counts.created.shown(human),
        counts.deleted.shown(human),
        comma(counts.transferred, human),
        big(counts.total_size, human),
        big(counts.transferred_bytes, human),
        big(literal, human),
        big(matched, human),
        big(sent, human),
        big(received, human),
    )
}

/// The last two lines of `-v` and `--stats`.
pub fn last_lines(summary: &Summary, counts: &Counts, human: Human, run: Run) -> String {
    let (sent, received) = moved(summary, run);
    let moved = sent + received;
    let rate = moved as f64 / (0.5 + summary.seconds_total.floor());
    // Nothing was moved: as if it were a byte, since there is no such figure.
    let speedup = counts.total_size as f64 / moved.max(1) as f64;
    format!(
        "\nsent {} bytes  received {} bytes  {} bytes/sec\ntotal size is {}  speedup is {}{}\n",
        big(sent, human),
        big(received, human),
        fraction(rate, human),
        big(counts.total_size, human),
        fraction(speedup, human.min(1)),
        if run.is_dry { " (DRY RUN)" } else { "" },
    )
}

/// A figure in rsync's manner.
pub fn big(number: u64, human: Human) -> String {
    match human {
        0 => number.to_string(),
        1 => with_commas(&number.to_string()),
        _ => in_units(number as f64, human).unwrap_or_else(|| number.to_string()),
    }
}

/// One that has no units.
fn comma(number: u64, human: Human) -> String {
    big(number, human.min(1))
}

fn fraction(number: f64, human: Human) -> String {
    let plain = format!("{number:.2}");
    match human {
        0 => plain,
        1 => with_commas(&plain),
        _ => in_units(number, human).unwrap_or(plain),
    }
}

fn in_units(number: f64, human: Human) -> Option<String> {
    let base = if human == 2 { 1000.0 } else { 1024.0 };
    let mut value = number;
    let mut shown = None;
    for unit in ["K", "M", "G", "T", "P"] {
        if value < base {
            break;
        }
        value /= base;
        shown = Some(unit);
    }
    shown.map(|unit| format!("{value:.2}{unit}"))
}

/// Digits in groups of three, those behind a point as they are.
fn with_commas(digits: &str) -> String {
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut text = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_forms_of_rsync() {
        for (number, all) in [
            (0, ["0", "0", "0", "0"]),
            (999, ["999", "999", "999", "999"]),
            (1000, ["1000", "1,000", "1.00K", "1000"]),
            (5003, ["5003", "5,003", "5.00K", "4.89K"]),
            (1_500_000, ["1500000", "1,500,000", "1.50M", "1.43M"]),
        ] {
            assert_eq!([0, 1, 2, 3].map(|human| big(number, human)), all, "{number}");
        }
        assert_eq!(big(u64::MAX, 3), "16384.00P");
        assert_eq!([0, 1, 2].map(|human| fraction(12_345.678, human)), ["12345.68", "12,345.68", "12.35K"]);
    }

    #[test]
    fn a_summary_is_that_of_rsync() {
        let mut counts = Counts::default();
        let facts = |size| EntryFacts { size, ..EntryFacts::default() };
        counts.add("<f+++++++++", &facts(1200));
        counts.add(".f         ", &facts(34));
        counts.add("cd+++++++++", &facts(4096));
        counts.add("cL+++++++++", &facts(5));
        counts.deleted.add("f");
        let summary = Summary { bytes: 1200, seconds_total: 0.9, ..Summary::default() };
        let run = Run { is_push: true, is_dry: true };
        let text = statistics(&summary, &counts, 1, run) + &last_lines(&summary, &counts, 1, run);
        for line in [
            "Number of files: 4 (reg: 2, dir: 1, link: 1)",
            "Number of created files: 3 (reg: 1, dir: 1, link: 1)",
            "Number of deleted files: 1 (reg: 1)",
            "Number of regular files transferred: 1",
            "Total file size: 1,239 bytes",
            "Total transferred file size: 1,200 bytes",
            "sent 1,200 bytes  received 0 bytes  2,400.00 bytes/sec",
            "total size is 1,239  speedup is 1.03 (DRY RUN)",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
