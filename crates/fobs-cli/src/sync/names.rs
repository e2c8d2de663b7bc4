//! Names as rsync prints them.

/// Which bytes of a name are printed as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    /// Those of ASCII.
    Ascii,
    /// Those that are UTF-8, where the user's language is written so.
    Utf8,
    /// All above ASCII too (`-8`).
    All,
    /// Likewise in a log, but for control characters above ASCII: who reads it has a terminal.
    Log,
}

impl Letters {
    /// As the user's locale and `-8` say.
    pub fn of(raw: bool) -> Letters {
        let named = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os);
        let locale =
            named.map(|value| value.to_string_lossy().to_ascii_lowercase()).find(|it| !it.is_empty());
        match (raw, locale) {
            (true, _) => Letters::All,
            (false, Some(locale)) if locale.contains("utf-8") || locale.contains("utf8") => Letters::Utf8,
            (false, _) => Letters::Ascii,
        }
    }
}

/// A name as rsync writes it: control characters, what looks like the escape itself, and what is no letter
/// here, as `\#ooo`.
pub fn shown(name: &[u8], letters: Letters) -> Vec<u8> {
    let mut text = Vec::with_capacity(name.len());
    let digits = |bytes: &[u8]| bytes.len() >= 3 && bytes[..3].iter().all(u8::is_ascii_digit);
    for chunk in name.utf8_chunks() {
        let valid = chunk.valid();
        for (at, letter) in valid.char_indices() {
            let bytes = &valid.as_bytes()[at..][..letter.len_utf8()];
            let is_escape = valid[at..].starts_with("\\#") && digits(&valid.as_bytes()[at + 2..]);
            match letter {
                _ if is_escape => text.extend_from_slice(b"\\#134"),
                ' '..='~' | '\t' => text.extend_from_slice(bytes),
                '\u{80}'..='\u{9f}' if letters == Letters::All => text.extend_from_slice(bytes),
                '\u{a0}'.. if letters != Letters::Ascii => text.extend_from_slice(bytes),
                _ => bytes.iter().for_each(|byte| escape(*byte, &mut text)),
            }
        }
        for byte in chunk.invalid() {
            match (letters, byte) {
                (Letters::All, _) | (Letters::Log, 0xa0..) => text.push(*byte),
                _ => escape(*byte, &mut text),
            }
        }
    }
    text
}

fn escape(byte: u8, text: &mut Vec<u8>) {
    text.extend_from_slice(format!("\\#{byte:03o}").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_by_rsync() {
        let name = b"a\n\xc3\xa4\xff\\#012 b\\#1";
        // A terminal takes both for the beginning of a command.
        let commands = b"\x9b|\xc2\x9b";
        for (letters, expected) in [
            (Letters::Utf8, &b"\\#233|\\#302\\#233"[..]),
            (Letters::Log, b"\\#233|\\#302\\#233"),
            (Letters::All, commands),
        ] {
            assert_eq!(shown(commands, letters), expected, "{letters:?}");
        }
        for (letters, expected) in [
            (Letters::Ascii, &b"a\\#012\\#303\\#244\\#377\\#134#012 b\\#1"[..]),
            (Letters::Utf8, b"a\\#012\xc3\xa4\\#377\\#134#012 b\\#1"),
            (Letters::All, b"a\\#012\xc3\xa4\xff\\#134#012 b\\#1"),
            (Letters::Log, b"a\\#012\xc3\xa4\xff\\#134#012 b\\#1"),
        ] {
            assert_eq!(shown(name, letters), expected, "{letters:?}");
        }
    }
}
