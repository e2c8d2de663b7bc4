//! Names of files until they are complete: `.NAME.fobs-XXXXXX`.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{fstat, fstatvfs};
use rustix::io::Errno;

use super::left;
use crate::at;
use crate::identity::inode_of;
use fobs_filter::path;
use fobs_model::name::ours::{Suffix, suffix_of, temporary};
use fobs_model::name::{BadName, Component, ComponentBuf};

/// Most names tried; 36^6 exist.
const NAME_TRIES: usize = 100;

/// Makes temporary names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Names {
    /// Without a journal. The same command has the same suffix each time, by which it finds what an earlier
    /// run left; a file that is being written is locked, so that no other run takes it for that.
    Alone(Suffix),
    /// All have the suffix of the transfer's journal, which is locked: what has such a name is a leftover.
    /// So is what has the suffix of the same command without a journal, unless it is locked.
    Journalled { ours: Suffix, alone: Suffix },
}

impl Names {
    /// Without a journal: the same for the same purpose in the same directory.
    pub(crate) fn alone(directory: impl AsFd, purpose: &[u8]) -> Names {
        Names::Alone(suffix_alone(directory, purpose))
    }

    /// With the suffix of a journal.
    pub(crate) fn journalled(self, ours: Suffix) -> Names {
        let (Names::Alone(alone) | Names::Journalled { alone, .. }) = self;
        Names::Journalled { ours, alone }
    }

    /// The suffix of what is made now.
    pub(crate) fn ours(&self) -> Suffix {
        let (Names::Alone(ours) | Names::Journalled { ours, .. }) = self;
        *ours
    }

    /// The suffix of the journal.
    pub(crate) fn of_journal(&self) -> Option<Suffix> {
        match self {
            Names::Alone(_) => None,
            Names::Journalled { ours, .. } => Some(*ours),
        }
    }

    /// Removes what a run of the same command that had no journal left of `name`.
    pub(crate) fn clear(&self, directory: &OwnedFd, name: Component<'_>) {
        if let Names::Journalled { alone, .. } = self {
            // If it is in use, it stays; if it cannot be removed, `fobs clean` says why.
            left::remove(directory, temporary(name, alone).as_component());
        }
    }

    /// Makes something under a temporary name that does not exist, or is a leftover.
    pub(super) fn make<T>(
        &self,
        directory: &OwnedFd,
        name: Component<'_>,
        mut make: impl FnMut(Component<'_>) -> Result<T, Errno>,
    ) -> Result<(ComponentBuf, T), Errno> {
        let ours = self.ours();
        let mut suffix = ours;
        for _ in 0..NAME_TRIES {
            let temporary = temporary(name, &suffix);
            match make(temporary.as_component()) {
                Ok(made) => return Ok((temporary, made)),
                Err(Errno::EXIST) if suffix == ours && self.makes_way(directory, &temporary) => {}
                // In use, or another user's, made after the suffix of earlier names: one that none has seen.
                Err(Errno::EXIST) => suffix = random_suffix(),
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    /// Removes a leftover; whether its name is free now.
    fn makes_way(&self, directory: &OwnedFd, temporary: &ComponentBuf) -> bool {
        match self {
            Names::Alone(_) => left::remove(directory, temporary.as_component()),
            Names::Journalled { .. } => {
                matches!(at::unlink(directory, temporary.as_component()), Ok(()) | Err(Errno::NOENT))
            }
        }
    }
}

/// A suffix that nobody can foresee.
pub(crate) fn random_suffix() -> Suffix {
    // Two transfers into one directory that have one suffix still use it for files of different names.
    suffix_of(getrandom::u64().unwrap_or(0))
}

/// A suffix that follows from a directory, which keeps its inode over a power cut, and a purpose.
fn suffix_alone(directory: impl AsFd, purpose: &[u8]) -> Suffix {
    let Ok(stat) = fstat(&directory) else { return random_suffix() };
    // The number of a device may change with the next boot, that of a file system mostly stays.
    let file_system = fstatvfs(&directory).map_or(0, |found| found.f_fsid);
    let mut hasher = blake3::Hasher::new_derive_key("FOBS 1: suffix without a journal");
    hasher.update(&file_system.to_le_bytes()).update(&inode_of(&stat).to_le_bytes()).update(purpose);
    suffix_of(hasher.finalize().as_bytes().first_chunk().copied().map_or(0, u64::from_le_bytes))
}

/// The path of the temporary file of a path, in a journalled transfer.
pub(crate) fn temporary_path(place: &[u8], suffix: &Suffix) -> Result<Vec<u8>, BadName> {
    let (parent, name) = path::split_name(place)?;
    Ok(path::join(parent, temporary(name, suffix).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_temporary_file_lies_beside_its_file() {
        assert_eq!(temporary_path(b"a/b", b"abc123"), Ok(b"a/.b.fobs-abc123".to_vec()));
        assert_eq!(temporary_path(b"b", b"abc123"), Ok(b".b.fobs-abc123".to_vec()));
        assert!(temporary_path(b"a/..", b"abc123").is_err());
    }

    #[test]
    fn a_suffix_without_a_journal_is_of_a_directory_and_a_purpose() {
        let top = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(top.path().join("in")).expect("a directory");
        let open = |path: &str| File::open(top.path().join(path)).expect("own directory");
        let suffix = suffix_alone(open(""), b"copy");
        assert_eq!(suffix_alone(open("in/.."), b"copy"), suffix);
        assert_ne!(suffix_alone(open("in"), b"copy"), suffix);
        assert_ne!(suffix_alone(open(""), b"other"), suffix);
    }
}
