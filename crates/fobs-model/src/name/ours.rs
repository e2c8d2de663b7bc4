//! The names that FOBS gives to files of its own: journals, and files until they are complete.
//!
//! A name alone makes no file ours: what stands there is looked at before it is left out or removed.

use super::{Component, ComponentBuf, NAME_LEN_MAX};

/// Behind the name of what is copied, in a journal's name.
const JOURNAL_SUFFIX: &[u8] = b".fobs-journal";
/// Before the hash, where several names are copied at once.
const HASHED_PREFIX: &[u8] = b".fobs-";
/// Behind the hash.
const HASHED_SUFFIX: &[u8] = b".journal";
/// Hexadecimal digits of the hash.
const HASH_DIGITS: usize = 16;
/// Between a file's name and the random characters of its temporary one.
const MARK: &[u8] = b".fobs-";
/// Random characters in a temporary name.
const RANDOM_LEN: usize = 6;
/// Those characters: legal everywhere, and distinct on file systems that ignore case.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// `.` before the name, `.fobs-XXXXXX` behind it, bytes.
const DECORATION_LEN: usize = 1 + MARK.len() + RANDOM_LEN;

/// The random characters at the end of a temporary name.
pub type Suffix = [u8; RANDOM_LEN];

/// The name of the journal of one name, which may be cut.
pub fn journal_of(name: &[u8]) -> ComponentBuf {
    let kept = &name[..name.len().min(NAME_LEN_MAX - 1 - JOURNAL_SUFFIX.len())];
    own([b".", kept, JOURNAL_SUFFIX].concat())
}

/// The name of the journal of several names, by their hash.
pub fn journal_of_several(hash: blake3::Hash) -> ComponentBuf {
    own([HASHED_PREFIX, &hash.to_hex().as_bytes()[..HASH_DIGITS], HASHED_SUFFIX].concat())
}

/// What a journal of this name is of, if it is one name, which may be cut.
pub fn named_by(name: &[u8]) -> Option<&[u8]> {
    name.strip_suffix(JOURNAL_SUFFIX)?.strip_prefix(b".")
}

/// Whether a journal has such a name.
pub fn is_journal(name: &[u8]) -> bool {
    let hashed = name.strip_suffix(HASHED_SUFFIX).and_then(|kept| kept.strip_prefix(HASHED_PREFIX));
    named_by(name).is_some_and(|kept| !kept.is_empty())
        || hashed.is_some_and(|hash| {
            hash.len() == HASH_DIGITS && hash.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        })
}

/// Whether FOBS gives such names to files of its own: temporary ones, and journals.
pub(crate) fn is_ours(name: &[u8]) -> bool {
    name.first() == Some(&b'.') && (suffix_in(name).is_some() || is_journal(name))
}

/// Random characters for temporary names, from a number.
pub fn suffix_of(mut number: u64) -> Suffix {
    let mut suffix = [0; RANDOM_LEN];
    for character in &mut suffix {
        *character = ALPHABET[(number % ALPHABET.len() as u64) as usize];
        number /= ALPHABET.len() as u64;
    }
    suffix
}

/// The temporary name of a name, which is cut if both are too long.
pub fn temporary(name: Component<'_>, suffix: &Suffix) -> ComponentBuf {
    let name = name.as_bytes();
    own([b".", &name[..name.len().min(NAME_LEN_MAX - DECORATION_LEN)], MARK, suffix].concat())
}

/// The random characters of a temporary name; `None` for a name of another form.
pub fn suffix_in(name: &[u8]) -> Option<Suffix> {
    let (kept, suffix) = name.split_last_chunk::<RANDOM_LEN>()?;
    let named = kept.strip_suffix(MARK)?.strip_prefix(b".")?;
    (!named.is_empty() && suffix.iter().all(|byte| ALPHABET.contains(byte))).then_some(*suffix)
}

/// A name that was made here of a name that was checked.
fn own(name: Vec<u8>) -> ComponentBuf {
    ComponentBuf::new(name)
        .expect("it begins with a dot, goes on, is short enough, and its parts were checked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_fit_and_are_recognised() {
        let long = [b'n'; NAME_LEN_MAX];
        let (first, second) = (suffix_of(u64::MAX), suffix_of(0));
        assert_ne!(first, second);
        for name in [&b"x"[..], b".fobs-", b".x.fobs-abc123", &long] {
            let made = temporary(Component::new(name).expect("a name"), &first);
            assert_eq!(suffix_in(made.as_bytes()), Some(first));
            assert!(is_ours(made.as_bytes()) && made.as_bytes().len() <= NAME_LEN_MAX);
        }
        for name in
            ["", ".", "x.fobs-abc123", "..fobs-abc123", ".x.fobs-abc12", ".x.fobs-ABC123", ".x.fob-abc123"]
        {
            assert_eq!(suffix_in(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn names_of_journals_are_recognised() {
        let several = journal_of_several(blake3::hash(b""));
        for name in [journal_of(b"x"), journal_of(&[b'n'; NAME_LEN_MAX]), several] {
            assert!(is_journal(name.as_bytes()) && is_ours(name.as_bytes()), "{name:?}");
        }
        assert_eq!(journal_of(b"x").as_bytes(), b".x.fobs-journal");
        assert_eq!(named_by(b".x.fobs-journal"), Some(&b"x"[..]));
        for name in ["x.fobs-journal", ".fobs-journal", ".fobs-.journal", ".fobs-0123456789abcdeF.journal"] {
            assert!(!is_ours(name.as_bytes()), "{name}");
        }
    }
}
