//! Untrusted text (file names, a peer's messages) made safe for a terminal.

use std::fmt::Write;

/// Escapes everything that would move the cursor, change colours or reorder the line.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || reorders(c) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A name of any bytes, as text for a terminal.
pub fn printable_path(path: &[u8]) -> String {
    printable(&String::from_utf8_lossy(path))
}

/// Line separators and the directional marks of Unicode (UAX #9), which can disguise a name as another.
fn reorders(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let table: [(&[u8], &str); 7] = [
            (b"plain name.txt", "plain name.txt"),
            ("é文".as_bytes(), "é文"),
            (b"a\nb\tc\r", "a\\nb\\tc\\r"),
            (b"\x1b[31mred", "\\u{1b}[31mred"),
            (b"caf\xe9", "caf\u{fffd}"),
            ("\u{9b}2J".as_bytes(), "\\u{9b}2J"),
            ("exe.\u{202e}txt".as_bytes(), "exe.\\u{202e}txt"),
        ];
        for (path, shown) in table {
            assert_eq!(printable_path(path), shown);
        }
    }
}
