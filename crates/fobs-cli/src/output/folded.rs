//! Lines no wider than the terminal, broken between words.

use std::os::fd::AsFd;

use textwrap::{Options, WordSplitter};
use unicode_width::UnicodeWidthStr;

/// Spaces before what goes on from a line, where its own column of values leaves too little room.
const GOES_ON: usize = 4;

/// The text as the terminal `to` shows it best; as it is, if that is none.
pub fn for_terminal(text: &str, to: impl AsFd) -> String {
    match rustix::termios::tcgetwinsize(to) {
        Ok(size) if size.ws_col > 0 => folded(text, usize::from(size.ws_col)),
        _ => text.to_owned(),
    }
}

/// The lines, none wider than the columns unless a word is.
fn folded(text: &str, columns: usize) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let hanging = " ".repeat(hanging(line, columns));
        // Options and names with hyphens stay whole, and so do paths, to be copied.
        let options = Options::new(columns).subsequent_indent(&hanging).break_words(false);
        let lines = textwrap::wrap(line, options.word_splitter(WordSplitter::NoHyphenation));
        shown += &lines.join("\n");
        shown += end;
    }
    shown
}

/// Where what goes on from a line begins: below its values if it is a name and values, two spaces between
/// them.
fn hanging(line: &str, columns: usize) -> usize {
    let name = line.trim_start();
    let before = line.len() - name.len();
    let values = name.find("  ").map(|at| name[at..].trim_start());
    let column = values.map_or(before, |values| line[..line.len() - values.len()].width());
    if column > 0 && column <= columns / 2 { column } else { (before + GOES_ON).min(columns / 2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_go_on_below_their_values() {
        let table = [
            ("short\n", 40, "short\n"),
            ("a sentence of some words\nand more", 12, "a sentence\n    of some\n    words\nand more"),
            (
                "  host   fobs 0.2.0, Linux 6.18, 2 CPUs\n",
                30,
                "  host   fobs 0.2.0, Linux\n         6.18, 2 CPUs\n",
            ),
            // Below a column that leaves no room, less.
            (
                "  socket buffers  receive 16.0 MiB, send\n",
                30,
                "  socket buffers  receive 16.0\n      MiB, send\n",
            ),
            // What is to be copied stays whole.
            (
                "see /a/long/path/that/is/wider --push-binary",
                12,
                "see\n    /a/long/path/that/is/wider\n    --push-binary",
            ),
            ("", 10, ""),
            ("\n", 10, "\n"),
            ("文字 文字 文字", 9, "文字 文字\n    文字"),
        ];
        for (text, columns, shown) in table {
            assert_eq!(folded(text, columns), shown, "{columns}");
        }
    }

    #[test]
    fn every_width_keeps_every_word() {
        let text =
            "Path:\n  way  UDP 1.00 Gbit/s, and TCP\n[>] type:   nothing: no setting makes it faster\n";
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for columns in 1..100 {
            assert_eq!(words(&folded(text, columns)), words(text), "{columns}");
        }
    }
}
