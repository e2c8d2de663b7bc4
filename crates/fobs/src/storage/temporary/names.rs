//! Names of files until they are complete: `.NAME.fobs-XXXXXX`.

use std::os::fd::OwnedFd;

use rustix::fs::{self, AtFlags};
use rustix::io::Errno;

use crate::storage::path;

/// Longest file name on Linux, bytes.
pub(in crate::storage) const NAME_LEN_MAX: usize = 255;
/// Between the name and the random characters.
const MARK: &[u8] = b".fobs-";
/// `.` before the name, `.fobs-XXXXXX` behind it, bytes.
const DECORATION_LEN: usize = 1 + MARK.len() + SUFFIX_LEN;
/// Random characters in a temporary name.
const SUFFIX_LEN: usize = 6;
/// Those characters: legal everywhere, and distinct on file systems that ignore case.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// Most names tried; 36^6 exist.
const NAME_TRIES: usize = 100;

/// The random characters at the end of a temporary name.
pub(in crate::storage) type Suffix = [u8; SUFFIX_LEN];

/// Makes temporary names.
#[derive(Debug)]
pub(in crate::storage) enum Names {
    /// Each has another suffix.
    Distinct {
        /// The number of the next one.
        next: u64,
    },
    /// All have the suffix of the transfer's journal, which is locked: what has such a name is a leftover.
    Journalled(Suffix),
}

impl Names {
    pub(in crate::storage) fn distinct() -> Names {
        // Only a start, because names that exist are skipped; so it may fail.
        Names::Distinct { next: getrandom::u64().unwrap_or(0) }
    }

    fn next_suffix(&mut self) -> Suffix {
        match self {
            Names::Journalled(suffix) => *suffix,
            Names::Distinct { next } => {
                let suffix = suffix_of(*next);
                *next = next.wrapping_add(1);
                suffix
            }
        }
    }

    /// Makes something under a temporary name that does not exist, or is a leftover.
    pub(super) fn make<T>(
        &mut self,
        directory: &OwnedFd,
        name: &[u8],
        mut make: impl FnMut(&[u8]) -> Result<T, Errno>,
    ) -> Result<(Vec<u8>, T), Errno> {
        for _ in 0..NAME_TRIES {
            let temporary = decorated(name, &self.next_suffix());
            match make(&temporary) {
                Ok(made) => return Ok((temporary, made)),
                Err(Errno::EXIST) if matches!(self, Names::Journalled(_)) => {
                    fs::unlinkat(directory, &temporary[..], AtFlags::empty())?;
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }
}

/// A suffix for a new journal.
pub(in crate::storage) fn random_suffix() -> Suffix {
    // Two transfers into one directory that have one suffix still use it for files of different names.
    suffix_of(getrandom::u64().unwrap_or(0))
}

fn suffix_of(mut number: u64) -> Suffix {
    let mut suffix = [0; SUFFIX_LEN];
    for character in &mut suffix {
        *character = ALPHABET[(number % ALPHABET.len() as u64) as usize];
        number /= ALPHABET.len() as u64;
    }
    suffix
}

pub(super) fn decorated(name: &[u8], suffix: &Suffix) -> Vec<u8> {
    let kept = &name[..name.len().min(NAME_LEN_MAX - DECORATION_LEN)];
    [b".", kept, MARK, suffix].concat()
}

/// The path of the temporary file of a path, in a journalled transfer.
pub(in crate::storage) fn temporary_path(place: &[u8], suffix: &Suffix) -> Vec<u8> {
    let (parent, name) = path::split(place);
    path::join(parent, &decorated(name, suffix))
}

/// Whether [`Names`] makes such names: of files that are being received, or were when their receiver was
/// killed.
pub(in crate::storage) fn is_temporary(name: &[u8]) -> bool {
    suffix_in(name).is_some()
}

/// The random characters of a temporary name.
pub(in crate::storage) fn suffix_in(name: &[u8]) -> Option<Suffix> {
    let (kept, suffix) = name.split_last_chunk::<SUFFIX_LEN>()?;
    let named = kept.strip_suffix(MARK)?.strip_prefix(b".")?;
    (!named.is_empty() && suffix.iter().all(|byte| ALPHABET.contains(byte))).then_some(*suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_fit_and_differ() {
        let mut names = Names::Distinct { next: u64::MAX };
        let long = [b'n'; NAME_LEN_MAX];
        let (first, second) = (names.next_suffix(), names.next_suffix());
        assert_ne!(first, second);
        assert_eq!(decorated(&long, &first).len(), NAME_LEN_MAX);
        assert!(decorated(b"x", &first).starts_with(b".x.fobs-"));
        assert_eq!(decorated(b"x", &first).len(), 1 + DECORATION_LEN);
        assert_eq!(temporary_path(b"a/b", b"abc123"), b"a/.b.fobs-abc123");
        assert_eq!(temporary_path(b"b", b"abc123"), b".b.fobs-abc123");
    }

    #[test]
    fn temporary_names_are_recognised() {
        for name in [&b"x"[..], b".fobs-", b".x.fobs-abc123", &[b'n'; NAME_LEN_MAX]] {
            assert!(is_temporary(&decorated(name, &random_suffix())));
        }
        for name in
            ["", ".", "x.fobs-abc123", "..fobs-abc123", ".x.fobs-abc12", ".x.fobs-ABC123", ".x.fob-abc123"]
        {
            assert!(!is_temporary(name.as_bytes()), "{name}");
        }
    }
}
