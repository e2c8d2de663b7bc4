//! Names in two encodings (`--iconv`): within a transfer they are those of the other host, and this host's
//! own only where the kernel is given one or gives one.
//!
//! Which encodings these are is said of a thread, and threads that it starts have it of it, so that two
//! transfers of one process do not meet.

use std::borrow::Cow;

use encoding_rs::{self as encodings, Encoding, UTF_8};
use fobs_sys::thread::{mark, set_mark};
use rustix::io::Errno;

/// All encodings in which names of one byte a slash can be.
const KNOWN: &[&Encoding] = &[
    encodings::UTF_8,
    encodings::WINDOWS_1252,
    encodings::ISO_8859_2,
    encodings::ISO_8859_3,
    encodings::ISO_8859_4,
    encodings::ISO_8859_5,
    encodings::ISO_8859_6,
    encodings::ISO_8859_7,
    encodings::ISO_8859_8,
    encodings::ISO_8859_10,
    encodings::ISO_8859_13,
    encodings::ISO_8859_14,
    encodings::ISO_8859_15,
    encodings::ISO_8859_16,
    encodings::KOI8_R,
    encodings::KOI8_U,
    encodings::MACINTOSH,
    encodings::IBM866,
    encodings::WINDOWS_874,
    encodings::WINDOWS_1250,
    encodings::WINDOWS_1251,
    encodings::WINDOWS_1253,
    encodings::WINDOWS_1254,
    encodings::WINDOWS_1255,
    encodings::WINDOWS_1256,
    encodings::WINDOWS_1257,
    encodings::WINDOWS_1258,
    encodings::X_MAC_CYRILLIC,
    encodings::GBK,
    encodings::GB18030,
    encodings::BIG5,
    encodings::EUC_JP,
    encodings::SHIFT_JIS,
    encodings::EUC_KR,
];

/// The encoding of names on this host, and that of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameCharsets {
    here: &'static Encoding,
    there: &'static Encoding,
}

impl NameCharsets {
    /// Reads `HERE,THERE`, as rsync has it; `.` is UTF-8. None where both are the same, and for `-`.
    ///
    /// # Errors
    /// A sentence about a name that is of no encoding.
    pub fn read(text: &str) -> Result<Option<NameCharsets>, String> {
        if text == "-" {
            return Ok(None);
        }
        let (here, there) = text.split_once(',').unwrap_or((text, text));
        let (here, there) = (encoding(here)?, encoding(there)?);
        Ok((here != there).then_some(NameCharsets { here, there }))
    }

    /// A name of this host as the other has it.
    ///
    /// # Errors
    /// It has a letter that one of the two lacks.
    pub fn as_there<'n>(&self, name: &'n [u8]) -> Result<Cow<'n, [u8]>, Errno> {
        converted(name, self.here, self.there)
    }

    /// A name of the other host as this one has it.
    ///
    /// # Errors
    /// As [`as_there`](NameCharsets::as_there).
    pub fn as_here<'n>(&self, name: &'n [u8]) -> Result<Cow<'n, [u8]>, Errno> {
        converted(name, self.there, self.here)
    }

    fn mark(self) -> usize {
        let at = |encoding| KNOWN.iter().position(|known| *known == encoding).unwrap_or(0);
        1 + at(self.here) * KNOWN.len() + at(self.there)
    }

    fn of_mark(mark: usize) -> Option<NameCharsets> {
        let pair = mark.checked_sub(1)?;
        let known = |at: usize| KNOWN.get(at).copied();
        Some(NameCharsets { here: known(pair / KNOWN.len())?, there: known(pair % KNOWN.len())? })
    }
}

fn encoding(name: &str) -> Result<&'static Encoding, String> {
    // As iconv calls them.
    let plain = name.to_ascii_lowercase().replace('_', "-");
    let label = match plain.as_str() {
        "." | "" => return Ok(UTF_8),
        "iso88591" | "iso8859-1" => "iso-8859-1",
        "iso885915" | "iso8859-15" => "iso-8859-15",
        other => other,
    };
    Encoding::for_label_no_replacement(label.as_bytes())
        .filter(|found| KNOWN.contains(found))
        .ok_or_else(|| format!("{name:?} is no encoding of names that is known here; give UTF-8, ISO-8859-1, KOI8-R, CP1251, EUC-JP or another of the Encoding Standard"))
}

fn converted<'n>(
    name: &'n [u8],
    from: &'static Encoding,
    to: &'static Encoding,
) -> Result<Cow<'n, [u8]>, Errno> {
    if name.is_ascii() {
        return Ok(Cow::Borrowed(name));
    }
    let text = from.decode_without_bom_handling_and_without_replacement(name).ok_or(Errno::ILSEQ)?;
    let (bytes, _, is_lossy) = to.encode(&text);
    if is_lossy { Err(Errno::ILSEQ) } else { Ok(Cow::Owned(bytes.into_owned())) }
}

/// What a thread had before, which it has again when this goes.
#[derive(Debug)]
pub struct Before(usize);

impl Drop for Before {
    fn drop(&mut self) {
        set_mark(self.0);
    }
}

/// From now on this thread, and those that it starts, convert names so, or not at all.
#[must_use = "it ends with what this returns"]
pub fn convert_names(charsets: Option<NameCharsets>) -> Before {
    let before = Before(mark());
    set_mark(charsets.map_or(0, NameCharsets::mark));
    before
}

/// A name or path of the transfer as the kernel has it.
pub(crate) fn on_disk(name: &[u8]) -> Result<Cow<'_, [u8]>, Errno> {
    match NameCharsets::of_mark(mark()) {
        None => Ok(Cow::Borrowed(name)),
        Some(charsets) => charsets.as_here(name),
    }
}

/// A name of the kernel's as the transfer has it.
pub(crate) fn in_transfer(name: &[u8]) -> Result<Cow<'_, [u8]>, Errno> {
    match NameCharsets::of_mark(mark()) {
        None => Ok(Cow::Borrowed(name)),
        Some(charsets) => charsets.as_there(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(text: &str) -> NameCharsets {
        NameCharsets::read(text).expect(text).expect("two encodings")
    }

    #[test]
    fn names_are_converted_both_ways() {
        for (text, here, there) in [
            ("utf8,iso88591", &b"caf\xc3\xa9"[..], &b"caf\xe9"[..]),
            ("ISO-8859-1,UTF-8", b"caf\xe9/x", b"caf\xc3\xa9/x"),
            (".,koi8-r", b"\xd0\xb6", b"\xd6"),
            ("utf-8,cp1251", b"\xd0\xb6.txt", b"\xe6.txt"),
            ("UTF-8,EUC-JP", b"\xe6\x97\xa5", b"\xc6\xfc"),
        ] {
            let charsets = pair(text);
            assert_eq!(charsets.as_there(here).as_deref(), Ok(there), "{text}");
            assert_eq!(charsets.as_here(there).as_deref(), Ok(here), "{text}");
            let _before = convert_names(Some(charsets));
            assert_eq!((on_disk(there).as_deref(), in_transfer(here).as_deref()), (Ok(here), Ok(there)));
        }
        assert_eq!(mark(), 0, "it has gone with the last one");
    }

    #[test]
    fn what_one_of_the_two_lacks_is_an_error() {
        let charsets = pair("utf-8,iso-8859-15");
        assert_eq!(charsets.as_there("日".as_bytes()).err(), Some(Errno::ILSEQ));
        assert_eq!(charsets.as_there(b"\xff").err(), Some(Errno::ILSEQ));
        assert_eq!(NameCharsets::read("."), Ok(None));
        assert_eq!(NameCharsets::read("utf-8"), Ok(None));
        assert_eq!(NameCharsets::read("-"), Ok(None));
        for bad in ["no-such-thing", "utf-8,utf-16", "utf-8,bogus"] {
            NameCharsets::read(bad).expect_err(bad);
        }
    }

    #[test]
    fn threads_have_the_encodings_of_the_one_that_starts_them() {
        let _before = convert_names(Some(pair("utf-8,iso-8859-1")));
        let started = fobs_sys::confine::spawn("charset", || in_transfer(b"\xc3\xa9").map(Cow::into_owned));
        assert_eq!(started.expect("a thread").join().expect("it ends"), Ok(b"\xe9".to_vec()));
        let other = std::thread::spawn(mark);
        assert_eq!(other.join().expect("it ends"), 0);
    }
}
