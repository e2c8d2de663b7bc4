//! Text and figures of a peer, as people may see them.

use std::fmt::Write;

/// A path as one line of text: control characters and bytes that are not UTF-8 are escaped.
pub fn show(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                text.extend(character.escape_default())
            } else {
                text.push(character)
            }
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Bytes of a peer's as text that a terminal shows and does not obey: lines and tabs stay, other control
/// characters, those that change the direction of writing, and bytes that are not UTF-8 are escaped.
pub fn on_a_terminal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let turns = matches!(character, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            match character {
                '\n' | '\t' => text.push(character),
                '\r' => {}
                _ if character.is_control() || turns => text.extend(character.escape_unicode()),
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// At most `count` characters of a peer's text, without control characters and other terminal tricks.
pub fn printable(text: &str, count: usize) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ' || c.is_alphanumeric()).take(count).collect()
}

/// A figure that may come from the peer, made finite and not negative, so that JSON can carry it.
pub fn sane(figure: f64) -> f64 {
    if figure.is_finite() { figure.max(0.0) } else { 0.0 }
}

/// Bytes as digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_lines_and_no_commands() {
        let said = "a\tb\r\n\u{1b}[2J\u{85}\u{202e}\u{2067}é\n".as_bytes();
        assert_eq!(on_a_terminal(said), "a\tb\n\\u{1b}[2J\\u{85}\\u{202e}\\u{2067}é\n");
        assert_eq!(on_a_terminal(b"\xff\0"), "\\xff\\u{0}");
    }

    #[test]
    fn names_are_shown_on_one_line() {
        assert_eq!(show("é\n\x1b[2J".as_bytes()), "é\\n\\u{1b}[2J");
        assert_eq!(show(b"a\xffb"), "a\\xffb");
    }
}
