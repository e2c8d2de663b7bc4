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
    quiet: bool,
    stats: bool,
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
            names: said.verbose > 0,
            quiet: said.quiet,
            stats: given.stats,
            counts: Mutex::default(),
        }
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
                    self.print(&line(&[changes.as_bytes(), b" "], &path, directory, target));
                } else if self.names && (!directory || changes.starts_with('c')) {
                    self.print(&line(&[], &path, directory, target));
                }
            }
            Event::Deleted { path, directory } => {
                self.count(|counts| counts.deleted += 1);
                if self.itemize {
                    self.print(&line(&[b"*deleting   "], &path, directory, None));
                } else if self.names {
                    self.print(&line(&[b"deleting "], &path, directory, None));
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
            self.print(statistics(summary, &counts).as_bytes());
        }
        Ok(())
    }

    fn status(&self, sentence: &str) {
        note(sentence);
    }
}

fn statistics(summary: &Summary, counts: &Counts) -> String {
    format!(
        "\nNumber of created entries: {}\nNumber of deleted entries: {}\nNumber of files transferred: {}\n\
         Total transferred file size: {} bytes\nBytes that an earlier run had stored: {}\nSeconds: {:.2}\n\
         Rate: {}\nEntries that failed: {}\n",
        counts.created,
        counts.deleted,
        summary.files,
        summary.bytes,
        summary.resumed_bytes,
        summary.seconds_total,
        show_rate(summary.goodput_bps),
        summary.errors.len(),
    )
}

/// Before what a link leads to, as rsync writes it.
const SYMLINK: &[u8] = b" -> ";
const HARD_LINK: &[u8] = b" => ";

/// A line with a path, and with what the path links to.
fn line(before: &[&[u8]], path: &[u8], directory: bool, target: Option<(&[u8], &[u8])>) -> Vec<u8> {
    let mut line = before.concat();
    match (path.is_empty(), directory) {
        (true, _) => line.extend_from_slice(b"./"),
        (false, true) => line.extend(shown(path).bytes().chain(*b"/")),
        (false, false) => line.extend(shown(path).bytes()),
    }
    if let Some((arrow, target)) = target {
        line.extend_from_slice(arrow);
        line.extend(shown(target).bytes());
    }
    line.push(b'\n');
    line
}

/// A path as rsync writes it: control characters, and what looks like the escape itself, as `\#ooo`.
fn shown(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    let digits = |bytes: &[u8]| bytes.len() >= 3 && bytes[..3].iter().all(u8::is_ascii_digit);
    for (at, byte) in path.iter().copied().enumerate() {
        let is_escape = byte == b'\\' && path.get(at + 1) == Some(&b'#') && digits(&path[at + 2..]);
        match byte {
            _ if is_escape => text.push_str("\\#134"),
            b' '..=b'~' | b'\t' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\#{byte:03o}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_rsync() {
        let text = |line: Vec<u8>| String::from_utf8(line).expect("ASCII");
        assert_eq!(text(line(&[b"cd+++++++++ "], b"a/b", true, None)), "cd+++++++++ a/b/\n");
        assert_eq!(text(line(&[b".d..t...... "], b"", true, None)), ".d..t...... ./\n");
        assert_eq!(
            text(line(&[b"cL+++++++++ "], b"l", false, Some((SYMLINK, b"to")))),
            "cL+++++++++ l -> to\n"
        );
        assert_eq!(
            text(line(&[b"hf+++++++++ "], b"l", false, Some((HARD_LINK, b"to")))),
            "hf+++++++++ l => to\n"
        );
        assert_eq!(text(line(&[], b"a\n\xc3\\#012", false, None)), "a\\#012\\#303\\#134#012\n");
    }
}
