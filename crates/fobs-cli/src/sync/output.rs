//! What a sync prints: changes and statistics on standard output, errors and notices on standard error.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use fobs::event::{Event, EventSink, FileError, Outcome, Summary};
use fobs::explain::Explanation;

use crate::args::sync::SyncArgs;
use crate::output::{Reporter, note};
use crate::units::show_rate;

/// Prints lines.
pub struct Lines {
    itemize: bool,
    names: bool,
    deletions: bool,
    quiet: bool,
    stats: bool,
    human: u8,
    raw_names: bool,
    counts: Mutex<Counts>,
}

/// For `--stats`.
#[derive(Default)]
struct Counts {
    created: u64,
    deleted: u64,
}

impl Lines {
    /// As the switches say.
    pub fn new(args: &SyncArgs) -> Lines {
        let (said, given) = (&args.chosen.program, &args.chosen.sync);
        Lines {
            itemize: given.itemize > 0,
            names: said.told.level("name", said.verbose) > 0,
            deletions: said.told.level("del", said.verbose) > 0,
            quiet: said.quiet,
            stats: given.stats || said.told.says("stats") && said.told.level("stats", 0) > 1,
            human: given.human,
            raw_names: said.raw_names,
            counts: Mutex::default(),
        }
    }

    /// A line with a path, and with what the path links to.
    fn line(
        &self,
        before: &[&[u8]],
        path: &[u8],
        directory: bool,
        target: Option<(&[u8], &[u8])>,
    ) -> Vec<u8> {
        let mut line = before.concat();
        match (path.is_empty(), directory) {
            (true, _) => line.extend_from_slice(b"./"),
            (false, true) => line.extend([&shown(path, self.raw_names)[..], b"/"].concat()),
            (false, false) => line.extend(shown(path, self.raw_names)),
        }
        if let Some((arrow, target)) = target {
            line.extend_from_slice(arrow);
            line.extend(shown(target, self.raw_names));
        }
        line.push(b'\n');
        line
    }

    fn count(&self, act: impl FnOnce(&mut Counts)) {
        act(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn print(&self, line: &[u8]) {
        if !self.quiet {
            // A closed pipe is no failure of the sync.
            let _ = io::stdout().lock().write_all(line);
        }
    }
}

impl EventSink for Lines {
    fn event(&self, event: Event) {
        match event {
            Event::Changed { changes, path, directory, target } => {
                if changes.contains("+++++++++") {
                    self.count(|counts| counts.created += 1);
                }
                let arrow = if changes.starts_with('h') { HARD_LINK } else { SYMLINK };
                let target = target.as_deref().map(|target| (arrow, target));
                if self.itemize {
                    self.print(&self.line(&[changes.as_bytes(), b" "], &path, directory, target));
                } else if self.names && (!directory || changes.starts_with('c')) {
                    self.print(&self.line(&[], &path, directory, target));
                }
            }
            Event::Deleted { path, directory } => {
                self.count(|counts| counts.deleted += 1);
                if self.itemize {
                    self.print(&self.line(&[b"*deleting   "], &path, directory, None));
                } else if self.deletions {
                    self.print(&self.line(&[b"deleting "], &path, directory, None));
                }
            }
            Event::FileFailed(FileError { message, .. }) => note(&message),
            Event::Notice(sentence) if !self.quiet => note(&sentence),
            // Of the copy, not of what the user asked about.
            _ => {}
        }
    }
}

impl Reporter for Lines {
    fn finish(&self, outcome: &Outcome, _why: Option<&Explanation>) -> fobs::Result<()> {
        if let Ok(Summary { deletions_left: count @ 1.., .. }) = outcome {
            note(&format!("{count} more would have been deleted: raise --max-delete"));
        }
        if let (Ok(summary), true) = (outcome, self.stats) {
            let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            self.print(statistics(summary, &counts, self.human).as_bytes());
        }
        Ok(())
    }

    fn status(&self, sentence: &str) {
        note(sentence);
    }
}

fn statistics(summary: &Summary, counts: &Counts, human: u8) -> String {
    let literal = summary.bytes.saturating_sub(summary.resumed_bytes).saturating_sub(summary.matched_bytes);
    format!(
        "\nNumber of created entries: {}\nNumber of deleted entries: {}\nNumber of files transferred: {}\n\
         Total transferred file size: {} bytes\nBytes that an earlier run had stored: {}\n\
         Literal data: {} bytes\nMatched data: {} bytes\nSeconds: {:.2}\n\
         Rate: {}\nEntries that failed: {}\n",
        figure(counts.created, human),
        figure(counts.deleted, human),
        figure(summary.files, human),
        figure(summary.bytes, human),
        figure(summary.resumed_bytes, human),
        figure(literal, human),
        figure(summary.matched_bytes, human),
        summary.seconds_total,
        show_rate(summary.goodput_bps),
        summary.errors.len(),
    )
}

/// Before what a link leads to, as rsync writes it.
const SYMLINK: &[u8] = b" -> ";
const HARD_LINK: &[u8] = b" => ";

/// A path as rsync writes it: control characters, and what looks like the escape itself, as `\#ooo`; bytes
/// above ASCII too, unless they are wanted as they are.
fn shown(path: &[u8], raw: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(path.len());
    let digits = |bytes: &[u8]| bytes.len() >= 3 && bytes[..3].iter().all(u8::is_ascii_digit);
    for (at, byte) in path.iter().copied().enumerate() {
        let is_escape = byte == b'\\' && path.get(at + 1) == Some(&b'#') && digits(&path[at + 2..]);
        match byte {
            _ if is_escape => text.extend_from_slice(b"\\#134"),
            b' '..=b'~' | b'\t' => text.push(byte),
            0x80.. if raw => text.push(byte),
            _ => text.extend_from_slice(format!("\\#{byte:03o}").as_bytes()),
        }
    }
    text
}

/// A figure as `-h` has it: plain, in units of 1000, or of 1024.
fn figure(number: u64, human: u8) -> String {
    let base = match human {
        0 => return number.to_string(),
        1 => 1000.0,
        _ => 1024.0,
    };
    let mut value = number as f64;
    let mut unit = None;
    for letter in ["K", "M", "G", "T", "P", "E"] {
        if value < base {
            break;
        }
        value /= base;
        unit = Some(letter);
    }
    unit.map_or_else(|| number.to_string(), |unit| format!("{value:.2}{unit}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn lines(words: &[&str]) -> Lines {
        let words = ["fobs", "sync"].iter().chain(words).chain(&["a", "b:"]);
        match Cli::try_parse_from(words).expect("valid words").command {
            Command::Sync(args) => Lines::new(&args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_are_those_of_rsync() {
        let plain = lines(&[]);
        let text = |before: &[u8], path: &[u8], directory, target| {
            String::from_utf8(plain.line(&[before], path, directory, target)).expect("ASCII")
        };
        assert_eq!(text(b"cd+++++++++ ", b"a/b", true, None), "cd+++++++++ a/b/\n");
        assert_eq!(text(b".d..t...... ", b"", true, None), ".d..t...... ./\n");
        assert_eq!(text(b"cL+++++++++ ", b"l", false, Some((SYMLINK, b"to"))), "cL+++++++++ l -> to\n");
        assert_eq!(text(b"hf+++++++++ ", b"l", false, Some((HARD_LINK, b"to"))), "hf+++++++++ l => to\n");
        assert_eq!(text(b"", b"a\n\xc3\\#012", false, None), "a\\#012\\#303\\#134#012\n");
        assert_eq!(lines(&["-8"]).line(&[], b"a\n\xc3", false, None), b"a\\#012\xc3\n");
    }

    #[test]
    fn what_is_printed_follows_levels() {
        let printed = |words: &[&str]| {
            let lines = lines(words);
            (lines.names, lines.deletions, lines.stats)
        };
        assert_eq!(printed(&[]), (false, false, false));
        assert_eq!(printed(&["-v"]), (true, true, false));
        assert_eq!(printed(&["--info=name0,stats2", "-v"]), (false, true, true));
        assert_eq!(printed(&["--info=del"]), (false, true, false));
        assert_eq!(printed(&["--info=progress2", "--info=name"]), (true, false, false));
        assert_eq!(printed(&["-vv", "--info=NONE"]), (false, false, false));
    }

    #[test]
    fn figures_have_the_units_of_rsync() {
        for (number, plain, decimal, binary) in [
            (0, "0", "0", "0"),
            (999, "999", "999", "999"),
            (1000, "1000", "1.00K", "1000"),
            (5003, "5003", "5.00K", "4.89K"),
            (1_500_000, "1500000", "1.50M", "1.43M"),
            (u64::MAX, "18446744073709551615", "18.45E", "16.00E"),
        ] {
            let all = [0, 1, 2].map(|human| figure(number, human));
            assert_eq!(all, [plain, decimal, binary], "{number}");
        }
    }
}
