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
        let valid = chunk.valid().as_bytes();
        for (at, byte) in valid.iter().copied().enumerate() {
            let is_escape = byte == b'\\' && valid.get(at + 1) == Some(&b'#') && digits(&valid[at + 2..]);
            match byte {
                _ if is_escape => text.extend_from_slice(b"\\#134"),
                b' '..=b'~' | b'\t' => text.push(byte),
                0x80.. if letters != Letters::Ascii => text.push(byte),
                _ => escape(byte, &mut text),
            }
        }
        for byte in chunk.invalid() {
            if letters == Letters::All { text.push(*byte) } else { escape(*byte, &mut text) }
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
        for (letters, expected) in [
            (Letters::Ascii, &b"a\\#012\\#303\\#244\\#377\\#134#012 b\\#1"[..]),
            (Letters::Utf8, b"a\\#012\xc3\xa4\\#377\\#134#012 b\\#1"),
            (Letters::All, b"a\\#012\xc3\xa4\xff\\#134#012 b\\#1"),
        ] {
            assert_eq!(shown(name, letters), expected, "{letters:?}");
        }
    }
}
