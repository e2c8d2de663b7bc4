//! Names of files until they are complete: `.NAME.fobs-XXXXXX`.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::at;
use fobs_filter::path;
use fobs_model::name::ours::{Suffix, suffix_of, temporary};
use fobs_model::name::{BadName, Component, ComponentBuf};

/// Most names tried; 36^6 exist.
const NAME_TRIES: usize = 100;

/// Makes temporary names.
#[derive(Debug)]
pub(crate) enum Names {
    /// Each has another suffix.
    Distinct {
        /// The number of the next one.
        next: u64,
    },
    /// All have the suffix of the transfer's journal, which is locked: what has such a name is a leftover.
    Journalled(Suffix),
}

impl Names {
    pub(crate) fn distinct() -> Names {
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
        name: Component<'_>,
        mut make: impl FnMut(Component<'_>) -> Result<T, Errno>,
    ) -> Result<(ComponentBuf, T), Errno> {
        let mut suffix = self.next_suffix();
        for _ in 0..NAME_TRIES {
            let temporary = temporary(name, &suffix);
            match make(temporary.as_component()) {
                Ok(made) => return Ok((temporary, made)),
                Err(Errno::EXIST) if matches!(self, Names::Journalled(ours) if *ours == suffix) => {
                    match at::unlink(directory, temporary.as_component()) {
                        Ok(()) | Err(Errno::NOENT) => {}
                        // Another user's, made after the suffix of earlier names: one that none has seen.
                        Err(_) => suffix = random_suffix(),
                    }
                    continue;
                }
                Err(Errno::EXIST) if matches!(self, Names::Journalled(_)) => suffix = random_suffix(),
                Err(Errno::EXIST) => suffix = self.next_suffix(),
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }
}

/// A suffix for a new journal.
pub(crate) fn random_suffix() -> Suffix {
    // Two transfers into one directory that have one suffix still use it for files of different names.
    suffix_of(getrandom::u64().unwrap_or(0))
}

/// The path of the temporary file of a path, in a journalled transfer.
pub(crate) fn temporary_path(place: &[u8], suffix: &Suffix) -> Result<Vec<u8>, BadName> {
    let (parent, name) = path::split_name(place)?;
    Ok(path::join(parent, temporary(name, suffix).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_lies_beside_its_file() {
        assert_eq!(temporary_path(b"a/b", b"abc123"), Ok(b"a/.b.fobs-abc123".to_vec()));
        assert_eq!(temporary_path(b"b", b"abc123"), Ok(b".b.fobs-abc123".to_vec()));
        assert!(temporary_path(b"a/..", b"abc123").is_err());
    }

    #[test]
    fn names_without_a_journal_differ() {
        let mut names = Names::Distinct { next: u64::MAX };
        assert_ne!(names.next_suffix(), names.next_suffix());
    }
}
