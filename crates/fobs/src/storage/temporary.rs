//! Files under a temporary name in their own directory until they are complete (and links until they are in place).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{
    self, AtFlags, FallocateFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT,
};
use rustix::io::{Errno, pwrite};

use super::beneath::{Links, kind, open_inside};
use super::record::Meta;

/// Longest name that Linux's file systems take, bytes.
const NAME_LEN_MAX: usize = 255;
/// `.` before the name, `.fobs-XXXXXX` behind it, bytes.
const DECORATION_LEN: usize = 1 + 6 + SUFFIX_LEN;
/// Characters that tell temporary names apart.
const SUFFIX_LEN: usize = 6;
/// The characters: legal everywhere, and no two alike on file systems without case.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// Names tried before giving up; 36^6 exist.
const NAME_TRIES: usize = 100;
/// Files above this size are preallocated, bytes: below, the call costs more than one extent on disk saves.
const PREALLOCATE_MIN: u64 = 1 << 20;
/// What `statfs` says of a file system in memory (`linux/magic.h`).
const TMPFS_MAGIC: fs::FsWord = 0x0102_1994;
/// Files are their owner's only until they are complete.
const TEMPORARY_MODE: u32 = 0o600;

/// How modes and times end up.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keeping {
    /// `-p`: exactly the source's.
    Exact,
    /// Permissions less this umask, no setuid or setgid, the time of writing.
    Ordinary {
        /// The process's umask.
        umask: u32,
    },
}

/// Makes temporary names, different ones each.
#[derive(Debug)]
pub(super) struct Names {
    next: u64,
}

impl Names {
    pub(super) fn new() -> Names {
        // Only a start: a name that is taken is passed over. So no randomness is no trouble.
        Names { next: getrandom::u64().unwrap_or(0) }
    }

    fn name_for(&mut self, name: &[u8]) -> Vec<u8> {
        let kept = &name[..name.len().min(NAME_LEN_MAX - DECORATION_LEN)];
        let mut temporary = Vec::with_capacity(kept.len() + DECORATION_LEN);
        temporary.push(b'.');
        temporary.extend_from_slice(kept);
        temporary.extend_from_slice(b".fobs-");
        let mut number = self.next;
        self.next = self.next.wrapping_add(1);
        for _ in 0..SUFFIX_LEN {
            temporary.push(ALPHABET[(number % ALPHABET.len() as u64) as usize]);
            number /= ALPHABET.len() as u64;
        }
        temporary
    }

    /// Makes something under a name that is not taken.
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

/// A name in a directory that is removed unless it is moved into place.
struct Temporary {
    directory: Arc<OwnedFd>,
    name: Vec<u8>,
    in_place: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.in_place {
            // Nobody is left to be told.
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

    /// What stands at `to`: only regular files and links are ever replaced.
    fn replaced(&self, to: &[u8]) -> Result<Replaced, Errno> {
        match fs::statat(&self.directory, to, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(Replaced::Nothing),
            Err(errno) => Err(errno),
            Ok(stat) => match kind(&stat) {
                FileType::RegularFile => Ok(Replaced::File { mode: stat.st_mode }),
                FileType::Symlink => Ok(Replaced::Nothing),
                FileType::Directory => Err(Errno::ISDIR),
                // Its like is never sent, so it is not ours to remove.
                _ => Err(Errno::EXIST),
            },
        }
    }
}

enum Replaced {
    /// Nothing whose mode is kept.
    Nothing,
    /// A file: cp keeps its mode.
    File { mode: u32 },
}

/// Reserves room for a file and returns how much was reserved. Full is full, and better known now than after the last
/// gigabyte; anything else that goes wrong only means that this file system cannot.
fn reserve(file: &OwnedFd, len: u64) -> Result<u64, Errno> {
    if let Ok(stat) = fs::fstatfs(file)
        && stat.f_type == TMPFS_MAGIC
    {
        // In memory there is nothing to lay out well, and reserving means clearing every page before anything is
        // stored: 0.3 s for each GB, in which the whole transfer stands still.
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
    /// Makes a file that shall become `name` in `directory`, of about `size_hint` bytes.
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

    /// Where it is.
    pub(super) fn directory(&self) -> &Arc<OwnedFd> {
        &self.temporary.directory
    }

    /// Has the device keep what was written.
    pub(super) fn sync(&self) -> Result<(), Errno> {
        fs::fsync(&self.file)
    }

    /// Gives the file, now of `len` bytes, its mode and time and moves it to `name`. `Ok(Err(_))`: it is in place,
    /// but could not be given those.
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
        // Nearly always there is nothing at `name`, and asking first would cost each small file a call.
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
        // A link's time is no one's loss where it cannot be set.
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

/// Gives an open file or directory, which has `mode` now, its mode and time.
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

/// The modification time; the access time stays.
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
}
