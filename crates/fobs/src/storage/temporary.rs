//! Files under a temporary name in their own directory until they are complete (and links until they are in
//! place).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{
    self, AtFlags, FallocateFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT,
};
use rustix::io::{Errno, pwrite};

use super::beneath::{Links, kind, open_inside};
use super::record::Meta;

/// Longest file name on Linux, bytes.
const NAME_LEN_MAX: usize = 255;
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
/// Smallest file that is preallocated, bytes: below, the call costs more than a contiguous extent saves.
const PREALLOCATE_MIN: u64 = 1 << 20;
/// File system type of tmpfs in `statfs` (`linux/magic.h`).
const TMPFS_MAGIC: fs::FsWord = 0x0102_1994;
/// Only the owner may access files until they are complete.
const TEMPORARY_MODE: u32 = 0o600;

/// How modes and times are set.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keeping {
    /// `-p`: as at the source.
    Exact,
    /// Permissions reduced by this umask, no setuid or setgid, the time of writing.
    Ordinary {
        /// The process's umask.
        umask: u32,
    },
}

/// Makes distinct temporary names.
#[derive(Debug)]
pub(super) struct Names {
    next: u64,
}

impl Names {
    pub(super) fn new() -> Names {
        // Only a start, because names that exist are skipped; so it may fail.
        Names { next: getrandom::u64().unwrap_or(0) }
    }

    fn name_for(&mut self, name: &[u8]) -> Vec<u8> {
        let kept = &name[..name.len().min(NAME_LEN_MAX - DECORATION_LEN)];
        let mut temporary = Vec::with_capacity(kept.len() + DECORATION_LEN);
        temporary.push(b'.');
        temporary.extend_from_slice(kept);
        temporary.extend_from_slice(MARK);
        let mut number = self.next;
        self.next = self.next.wrapping_add(1);
        for _ in 0..SUFFIX_LEN {
            temporary.push(ALPHABET[(number % ALPHABET.len() as u64) as usize]);
            number /= ALPHABET.len() as u64;
        }
        temporary
    }

    /// Makes something under a name that does not exist.
    fn make<T>(
        &mut self,
        name: &[u8],
        mut make: impl FnMut(&[u8]) -> Result<T, Errno>,
    ) -> Result<(Vec<u8>, T), Errno> {
        for _ in 0..NAME_TRIES {
            let temporary = self.name_for(name);
            match make(&temporary) {
                Ok(made) => return Ok((temporary, made)),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }
}

/// Whether [`Names`] makes such names: of files that are being received, or were when their receiver was
/// killed.
pub(super) fn is_temporary(name: &[u8]) -> bool {
    let Some((kept, suffix)) = name.split_last_chunk::<SUFFIX_LEN>() else { return false };
    let named = kept.strip_suffix(MARK).and_then(|kept| kept.strip_prefix(b"."));
    named.is_some_and(|named| !named.is_empty()) && suffix.iter().all(|byte| ALPHABET.contains(byte))
}

/// A name in a directory that is removed on drop, unless it was renamed.
struct Temporary {
    directory: Arc<OwnedFd>,
    name: Vec<u8>,
    in_place: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.in_place {
            // An error cannot be reported here.
            let _ = fs::unlinkat(&self.directory, &self.name[..], AtFlags::empty());
        }
    }
}

impl Temporary {
    fn rename(&mut self, to: &[u8]) -> Result<(), Errno> {
        fs::renameat(&self.directory, &self.name[..], &self.directory, to)?;
        self.in_place = true;
        Ok(())
    }

    /// Moves it to `to` if that does not exist.
    fn rename_to_new(&mut self, to: &[u8]) -> Result<(), Errno> {
        let flags = RenameFlags::NOREPLACE;
        fs::renameat_with(&self.directory, &self.name[..], &self.directory, to, flags)?;
        self.in_place = true;
        Ok(())
    }

    /// The existing file at `to`: only regular files and links are replaced.
    fn replaced(&self, to: &[u8]) -> Result<Replaced, Errno> {
        match fs::statat(&self.directory, to, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(Replaced::Nothing),
            Err(errno) => Err(errno),
            Ok(stat) => match kind(&stat) {
                FileType::RegularFile => Ok(Replaced::File { mode: stat.st_mode }),
                FileType::Symlink => Ok(Replaced::Nothing),
                FileType::Directory => Err(Errno::ISDIR),
                // Devices and the like are never sent, so they are not replaced.
                _ => Err(Errno::EXIST),
            },
        }
    }
}

enum Replaced {
    /// Nothing whose mode would be kept.
    Nothing,
    /// A file, whose mode is kept as cp does.
    File { mode: u32 },
}

/// Preallocates a file and returns how many bytes. A full disk is an error at once rather than after the last
/// gigabyte; other errors mean that the file system does not support it.
fn reserve(file: &OwnedFd, len: u64) -> Result<u64, Errno> {
    if let Ok(stat) = fs::fstatfs(file)
        && stat.f_type == TMPFS_MAGIC
    {
        // On tmpfs preallocation has no benefit and clears every page first: 0.3 s per GB, during which the
        // transfer waits.
        let room = stat.f_bavail.saturating_mul(u64::try_from(stat.f_bsize).unwrap_or(1));
        return if stat.f_blocks > 0 && len > room { Err(Errno::NOSPC) } else { Ok(0) };
    }
    match fs::fallocate(file, FallocateFlags::empty(), 0, len) {
        Ok(()) => Ok(len),
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(errno),
        Err(_) => Ok(0),
    }
}

/// A file being written.
pub(super) struct TemporaryFile {
    file: OwnedFd,
    temporary: Temporary,
    preallocated: u64,
}

impl TemporaryFile {
    /// Makes a file that is to become `name` in `directory`, of about `size_hint` bytes.
    pub(super) fn create(
        names: &mut Names,
        directory: Arc<OwnedFd>,
        name: &[u8],
        size_hint: u64,
    ) -> Result<TemporaryFile, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(TEMPORARY_MODE);
        let (name, file) =
            names.make(name, |name| open_inside(&directory, name, flags, mode, Links::Refuse))?;
        let temporary = Temporary { directory, name, in_place: false };
        let preallocated = if size_hint > PREALLOCATE_MIN { reserve(&file, size_hint)? } else { 0 };
        Ok(TemporaryFile { file, temporary, preallocated })
    }

    /// Writes all of `data` at `offset`.
    pub(super) fn write(&self, mut data: &[u8], mut offset: u64) -> Result<(), Errno> {
        while !data.is_empty() {
            match pwrite(&self.file, data, offset) {
                Ok(0) => return Err(Errno::IO),
                Ok(written) => {
                    data = &data[written..];
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Its directory.
    pub(super) fn directory(&self) -> &Arc<OwnedFd> {
        &self.temporary.directory
    }

    /// Fsyncs the file.
    pub(super) fn sync(&self) -> Result<(), Errno> {
        fs::fsync(&self.file)
    }

    /// Sets mode and time of the file, now of `len` bytes, and renames it to `name`. `Ok(Err(_))`: renamed,
    /// but mode or time could not be set.
    pub(super) fn commit(
        mut self,
        name: &[u8],
        len: u64,
        meta: Meta,
        keeping: Keeping,
    ) -> Result<Result<(), Errno>, Errno> {
        if self.preallocated > len {
            fs::ftruncate(&self.file, len)?;
        }
        let mut kept = set_meta(&self.file, TEMPORARY_MODE, meta, keeping);
        // Nearly always `name` does not exist, and a check first would cost one call per small file.
        match self.temporary.rename_to_new(name) {
            Ok(()) => return Ok(kept),
            // INVAL: a file system without this kind of rename.
            Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
        if let (Replaced::File { mode }, Keeping::Ordinary { .. }) = (self.temporary.replaced(name)?, keeping)
        {
            kept = kept.and(fs::fchmod(&self.file, Mode::from_raw_mode(mode & 0o777)));
        }
        self.temporary.rename(name)?;
        Ok(kept)
    }
}

/// Makes a symbolic link to `target` and moves it to `name`.
pub(super) fn place_symlink(
    names: &mut Names,
    directory: &Arc<OwnedFd>,
    name: &[u8],
    target: &[u8],
    meta: Meta,
    keeping: Keeping,
) -> Result<(), Errno> {
    let (temporary, ()) = names.make(name, |temporary| fs::symlinkat(target, directory, temporary))?;
    let mut temporary = Temporary { directory: Arc::clone(directory), name: temporary, in_place: false };
    if let Keeping::Exact = keeping {
        // The time of a link does not matter enough to fail.
        let times = timestamps(meta);
        let _ = fs::utimensat(directory, &temporary.name[..], &times, AtFlags::SYMLINK_NOFOLLOW);
    }
    match temporary.rename_to_new(name) {
        Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS) => {
            temporary.replaced(name)?;
            temporary.rename(name)
        }
        result => result,
    }
}

/// Sets mode and time of an open file or directory, which now has `mode`.
pub(super) fn set_meta(file: impl AsFd, mode: u32, meta: Meta, keeping: Keeping) -> Result<(), Errno> {
    let wanted = match keeping {
        Keeping::Exact => meta.mode & 0o7777,
        Keeping::Ordinary { umask } => meta.mode & 0o777 & !umask,
    };
    let changed = match wanted == mode {
        true => Ok(()),
        false => fs::fchmod(file.as_fd(), Mode::from_raw_mode(wanted)),
    };
    match keeping {
        Keeping::Exact => changed.and(fs::futimens(file.as_fd(), &timestamps(meta))),
        Keeping::Ordinary { .. } => changed,
    }
}

/// Sets the modification time, not the access time.
fn timestamps(meta: Meta) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: meta.mtime_s, tv_nsec: meta.mtime_ns.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_fit_and_differ() {
        let mut names = Names { next: u64::MAX };
        let long = [b'n'; NAME_LEN_MAX];
        let (first, second) = (names.name_for(&long), names.name_for(&long));
        assert_eq!(first.len(), NAME_LEN_MAX);
        assert_ne!(first, second);
        assert!(names.name_for(b"x").starts_with(b".x.fobs-"));
        assert_eq!(names.name_for(b"x").len(), 1 + DECORATION_LEN);
    }

    #[test]
    fn temporary_names_are_recognised() {
        let mut names = Names::new();
        for name in [&b"x"[..], b".fobs-", b".x.fobs-abc123", &[b'n'; NAME_LEN_MAX]] {
            assert!(is_temporary(&names.name_for(name)));
        }
        for name in
            ["", ".", "x.fobs-abc123", "..fobs-abc123", ".x.fobs-abc12", ".x.fobs-ABC123", ".x.fob-abc123"]
        {
            assert!(!is_temporary(name.as_bytes()), "{name}");
        }
    }
}
