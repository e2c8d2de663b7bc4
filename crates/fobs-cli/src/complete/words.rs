//! The line of a shell to words, and a word back to what the shell reads.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap_complete::Shell;

/// Longest line that is looked at, bytes.
const LINE_BYTES_MAX: usize = 64 << 10;
/// What a shell reads as more than a letter, outside quotes.
const SPECIAL: &[u8] = b" \t\\'\"`$&|;()<>*?[]{}!#";
/// What keeps its meaning between double quotes.
const SPECIAL_QUOTED: &[u8] = b"\\\"`$";
/// Letters of a location at which bash may end a word.
const BREAKS: &[u8] = b"@:=";

/// A line up to the cursor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// The words before the one at the cursor, the program's name first.
    pub words: Vec<OsString>,
    /// The one at the cursor; empty after a blank.
    pub last: Unfinished,
}

/// The word at the cursor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unfinished {
    /// Without quotes.
    pub text: Vec<u8>,
    /// The quote that is still open.
    pub quote: Option<u8>,
    /// Whether the shell would put something in its place: a variable, a command.
    pub expands: bool,
    /// Whether it begins with a `~` that means a home directory.
    pub tilde: bool,
}

impl Line {
    /// Reads it as a POSIX shell does, but replaces nothing.
    pub fn parse(line: &OsStr) -> Line {
        let bytes = line.as_bytes();
        let bytes = &bytes[bytes.len().saturating_sub(LINE_BYTES_MAX)..];
        let (mut line, mut word, mut begun) = (Line::default(), Unfinished::default(), false);
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match (byte, word.quote) {
                (b' ' | b'\t' | b'\n', None) => {
                    if begun {
                        line.words.push(OsString::from_vec(std::mem::take(&mut word).text));
                    }
                    (word, begun) = (Unfinished::default(), false);
                    continue;
                }
                (b'\'' | b'"', None) => word.quote = Some(byte),
                (byte, Some(open)) if byte == open => word.quote = None,
                (b'\\', None) => {
                    word.text.extend(bytes.get(at));
                    at += 1;
                }
                (b'\\', Some(b'"')) => {
                    let next = bytes.get(at).copied();
                    if next.is_some_and(|next| SPECIAL_QUOTED.contains(&next)) {
                        at += 1;
                        word.text.extend(next);
                    } else {
                        word.text.push(byte);
                    }
                }
                (byte, quote) => {
                    word.expands |= matches!(byte, b'$' | b'`') && quote != Some(b'\'');
                    word.tilde |= byte == b'~' && !begun && quote.is_none();
                    word.text.push(byte);
                }
            }
            begun = true;
        }
        line.last = word;
        line
    }
}

/// How a word is written for a shell.
#[derive(Debug, Clone)]
pub struct Quotes {
    /// The shell.
    pub shell: Shell,
    /// Letters at which it ends a word beside blanks: what stands before is on its line already.
    pub breaks: String,
}

impl Quotes {
    /// The word as the shell is to have it after what was typed; `None` for one that cannot be written so.
    pub fn write(&self, word: &[u8], typed: &Unfinished) -> Option<Vec<u8>> {
        if String::from_utf8_lossy(word).contains(char::is_control) {
            return None;
        }
        match (self.shell, typed.quote) {
            (Shell::Bash | Shell::Zsh, None) => {
                let kept = usize::from(typed.tilde && word.starts_with(b"~"));
                let is_break = |byte: &u8| BREAKS.contains(byte) && self.breaks.as_bytes().contains(byte);
                let cut = typed.text.iter().rposition(is_break).map_or(0, |last| last + 1).max(kept);
                let (before, rest) = word.split_at_checked(cut)?;
                let mut text = if cut == kept { before.to_vec() } else { Vec::new() };
                for &byte in rest {
                    let at_start = text.is_empty() && cut == 0;
                    if SPECIAL.contains(&byte) || byte == b'~' && at_start {
                        text.push(b'\\');
                    }
                    text.push(byte);
                }
                Some(text)
            }
            (Shell::Bash | Shell::Zsh, Some(b'"')) => {
                let escaped = |&byte: &u8| {
                    let before = SPECIAL_QUOTED.contains(&byte).then_some(b'\\');
                    before.into_iter().chain([byte])
                };
                Some(word.iter().flat_map(escaped).collect())
            }
            (Shell::Bash | Shell::Zsh, Some(_)) if word.contains(&b'\'') => None,
            // fish puts its own quotes, and shows what follows a tab.
            _ => Some(word.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> (Vec<String>, String) {
        let Line { words, last } = Line::parse(OsStr::new(line));
        let text = |word: OsString| word.into_string().expect("text");
        (words.into_iter().map(text).collect(), String::from_utf8(last.text).expect("text"))
    }

    #[test]
    fn a_line_is_read_as_a_shell_reads_it() {
        for (line, words, last) in [
            ("fobs cp ", vec!["fobs", "cp"], ""),
            ("fobs cp ho", vec!["fobs", "cp"], "ho"),
            (r"fobs cp a\ b host:my\ d", vec!["fobs", "cp", "a b"], "host:my d"),
            ("fobs cp 'a b' \"c d", vec!["fobs", "cp", "a b"], "c d"),
            (r#"fobs  cp "a\"b\c" '$x"#, vec!["fobs", "cp", r#"a"b\c"#], "$x"),
            ("fobs cp '' x", vec!["fobs", "cp", ""], "x"),
            (r"fobs cp x\", vec!["fobs", "cp"], "x"),
        ] {
            assert_eq!(
                parsed(line),
                (words.into_iter().map(str::to_owned).collect(), last.to_owned()),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let names =
            ["plain", "two words", "it's", "a\"b", "$x `y`", "~ann", "a*?[1]{b}", "#1;(2)", "back\\slash"];
        for (open, quote) in [("", None), ("\"", Some(b'"')), ("'", Some(b'\''))] {
            for name in names.iter().map(|name| format!("host:{name}")).chain(names.map(str::to_owned)) {
                let typed = Unfinished { quote, ..Unfinished::default() };
                let quotes = Quotes { shell: Shell::Bash, breaks: String::new() };
                let Some(written) = quotes.write(name.as_bytes(), &typed) else {
                    assert!(quote == Some(b'\'') && name.contains('\''), "{name}");
                    continue;
                };
                let line = format!("fobs cp {open}{}", String::from_utf8(written).expect("text"));
                assert_eq!(parsed(&line).1, name, "{line}");
            }
        }
    }

    #[test]
    fn bash_has_what_stands_before_its_breaks() {
        let quotes = Quotes { shell: Shell::Bash, breaks: " \t\n\"'@><=;|&(:".to_owned() };
        for (line, word, rest) in [
            ("fobs cp host:my", "host:my dir/", r"my\ dir/"),
            (r"fobs cp host:my\ d", "host:my dir/", r"my\ dir/"),
            ("fobs cp ann@ho", "ann@host:", "host:"),
            ("fobs cp 'host:my", "host:my dir/", "host:my dir/"),
            ("fobs cp ~/a", "~/a b", r"~/a\ b"),
            ("fobs cp a", "~x", r"\~x"),
            ("fobs ctl 4 priority=f", "priority=fair", "fair"),
        ] {
            let last = Line::parse(OsStr::new(line)).last;
            let written = quotes.write(word.as_bytes(), &last).expect(line);
            assert_eq!(String::from_utf8(written).expect("text"), rest, "{line}");
        }
    }

    #[test]
    fn a_name_that_moves_the_cursor_is_left_out() {
        let quotes = Quotes { shell: Shell::Zsh, breaks: String::new() };
        assert_eq!(quotes.write(b"a\x1b[2J", &Unfinished::default()), None);
        assert_eq!(quotes.write(b"a\nb", &Unfinished::default()), None);
        // The same in one letter behind ASCII.
        assert_eq!(quotes.write("a\u{9b}2J".as_bytes(), &Unfinished::default()), None);
    }
}
