//! `--inplace`: what came, once all of it is verified, is written into the file that has its name, where the
//! two differ. The file stays the same one, with its further names; a reader meanwhile sees a mixture.

use rustix::fs::{FallocateFlags, FileType, OFlags, fallocate, fdatasync, fstat, ftruncate};
use rustix::io::{Errno, pread};

use super::*;
use crate::attributes::ModeNow;
use crate::held::Movable;
use crate::stat::meta;

/// Bytes that are compared at a time: what differs is written in such pieces, so that the blocks of a
/// snapshot that stay the same are shared.
pub(super) const PIECE: usize = 128 << 10;

/// The extended attribute of a file that has a backup and is being written: a run that ends meanwhile leaves
/// it, and the next one then makes no backup of the mixture. Its value is what the file is to become.
const MARK: &[u8] = b"user.fobs.writing";

/// The file that is there, and how it is written.
#[derive(Debug)]
pub(crate) struct InPlace {
    pub(crate) old: OwnedFd,
    /// The device keeps it before it counts as stored.
    pub(crate) syncs: bool,
    pub(crate) is_marked: bool,
}

/// Whether an earlier run began to write a file, and did not end.
pub(crate) fn is_begun(file: &OwnedFd) -> Result<bool, Errno> {
    let stat = fstat(file)?;
    let marked = match open_handle(file).value(MARK) {
        // The file system has no such thing.
        Err(Errno::OPNOTSUPP | Errno::PERM) => None,
        marked => marked?,
    };
    let now = becoming(u64::try_from(stat.st_size).unwrap_or(0), meta(&stat));
    Ok(marked.is_some_and(|marked| marked != now))
}

/// Marks a file that is about to be written; false where that is not possible.
pub(crate) fn begin(file: &OwnedFd, len: u64, comes: Meta) -> bool {
    open_handle(file).set_value(MARK, &becoming(len, comes)).is_ok()
}

fn becoming(len: u64, meta: Meta) -> Vec<u8> {
    format!("{len} {} {}", meta.mtime_s, meta.mtime_ns / 1000).into_bytes()
}

impl TemporaryFile {
    /// Sets what is kept of the file of `len` bytes, and writes it into `old`, which has its name.
    pub(crate) fn commit_in_place(
        &mut self,
        InPlace { old, syncs, is_marked }: InPlace,
        len: u64,
        meta: Meta,
        attributes: Option<&Attributes>,
        applier: &Applier,
    ) -> Result<Result<(), Unset>, Errno> {
        let new = at::reopen(&*self.temporary.held, OFlags::RDONLY)?;
        write_differences(&new, &old, len, self.zeros)?;
        keep::writes(&old)?;
        if syncs {
            fdatasync(&old)?;
        }
        let now = match applier.keeping.modes {
            Modes::Exact => ModeNow::Unknown,
            Modes::Ordinary { .. } => ModeNow::Stays,
        };
        let there = fstat(&old)?.st_mode;
        let mut kept = applier.dress(open_handle(&old), now, meta, attributes);
        if now == ModeNow::Stays && applier.keeping.executability {
            kept = kept.and(set_mode(open_handle(&old), executable_as(meta.mode, there)));
        }
        if is_marked {
            if syncs {
                fdatasync(&old)?;
            }
            // One that stays is known to be stale by size and time.
            let _ = open_handle(&old).remove_value(MARK);
        }
        // What came goes with its temporary name.
        self.file = Arc::new(old);
        Ok(kept)
    }

    /// Gives the file that is held under an old name of the same file system this one's, if nothing has that,
    /// and what is kept of it. `None`: that is not possible.
    pub(crate) fn commit_moved(
        &mut self,
        (directory, old, held): (&OwnedFd, Component<'_>, &OwnedFd),
        name: Component<'_>,
        meta: Meta,
        attributes: Option<&Attributes>,
        applier: &Applier,
    ) -> Result<Option<Result<(), Unset>>, Errno> {
        let Ok(file) = at::reopen(held, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY) else {
            return Ok(None);
        };
        let to = &self.temporary.directory;
        if at::move_to_new(directory, old, to, name).is_err() {
            return Ok(None);
        }
        Inode::of_held(held)?.has_name(to, name)?;
        let kept = applier.dress(open_handle(&file), ModeNow::Unknown, meta, attributes);
        // The empty one goes with its temporary name.
        self.file = Arc::new(file);
        Ok(Some(kept))
    }

    /// The file of that name, open: a regular one of this user's or root's, which nobody else can have put
    /// there.
    pub(crate) fn replaceable(
        &self,
        name: Component<'_>,
        writes_devices: bool,
    ) -> Result<Option<OwnedFd>, Errno> {
        let directory = &self.temporary.directory;
        let held = match at::hold(directory, name) {
            Ok(held) => held,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let stat = fstat(&held)?;
        let is_written = match kind(&stat) {
            FileType::RegularFile => true,
            FileType::BlockDevice | FileType::CharacterDevice => writes_devices,
            _ => false,
        };
        let is_ours = is_written && is_trusted(&stat);
        if !is_ours || Movable::in_directory(directory) == Movable::ByOthers {
            return Ok(None);
        }
        match at::reopen(&held, OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY) {
            Ok(file) => Ok(Some(file)),
            // It may not be written, or runs: it is replaced, as without the option.
            Err(Errno::ACCESS | Errno::PERM | Errno::TXTBSY) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

/// Makes `old` equal to the first `len` bytes of `new`, with holes for its zeros where those are left.
fn write_differences(new: &OwnedFd, old: &OwnedFd, len: u64, zeros: Zeros) -> Result<(), Errno> {
    let is_file = kind(&fstat(old)?) == FileType::RegularFile;
    let (mut wanted, mut there) = (vec![0; PIECE], vec![0; PIECE]);
    let mut at = 0;
    while at < len {
        let piece = usize::try_from(len - at).unwrap_or(PIECE).min(PIECE);
        let count = read_all(new, &mut wanted[..piece], at)?;
        if count < piece {
            return Err(Errno::IO);
        }
        let known = read_all(old, &mut there[..piece], at)?;
        let (wanted, there) = (&wanted[..piece], &there[..known]);
        match zeros {
            Zeros::Left if is_file => write_around_zeros(old, wanted, there, at)?,
            _ if wanted != there => write_all(old, wanted, at)?,
            _ => {}
        }
        at += piece as u64;
    }
    // A device has the length that it has.
    if is_file { ftruncate(old, len) } else { Ok(()) }
}

/// Makes a piece of `old` that has `there` now equal to `wanted`, with holes for zeros. Behind its end, where
/// there is less, zeros need nothing.
fn write_around_zeros(old: &OwnedFd, wanted: &[u8], there: &[u8], at: u64) -> Result<(), Errno> {
    let part = |of: u64, len: usize| {
        let from = usize::try_from(of - at).unwrap_or(0).min(there.len());
        &there[from..from.saturating_add(len).min(there.len())]
    };
    for run in holes::runs(wanted, at) {
        match run {
            holes::Run::Data(data, place) if part(place, data.len()) != data => write_all(old, data, place)?,
            holes::Run::Data(..) => {}
            holes::Run::Zeros(len, place) => {
                let known = part(place, usize::try_from(len).unwrap_or(usize::MAX));
                // To the end of a block, which only the last run does not reach: the file is cut there.
                let hole = known.len().next_multiple_of(holes::BLOCK) as u64;
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let punched = if hole == 0 { Ok(()) } else { fallocate(old, flags, place, hole) };
                match punched {
                    // The file system has no holes.
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) if known.iter().any(|&byte| byte != 0) => {
                        write_all(old, &vec![0; known.len()], place)?;
                    }
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                    done => done?,
                }
            }
        }
    }
    Ok(())
}

/// Copies up to `len` bytes to the same place of another file.
pub(super) fn copy_piece(from: &OwnedFd, to: &OwnedFd, at: u64, len: usize) -> Result<usize, Errno> {
    let mut bytes = vec![0; len];
    let count = read_all(from, &mut bytes, at)?;
    if count == 0 {
        // It was longer when it was read before.
        return Err(Errno::STALE);
    }
    write_all(to, &bytes[..count], at)?;
    Ok(count)
}

/// Reads until the buffer or the file ends.
fn read_all(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut count = 0;
    while count < buffer.len() {
        match pread(file, &mut buffer[count..], offset + count as u64) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_equal_and_stays_the_same_one() {
        let top = tempfile::tempdir().expect("a directory");
        let open = |name: &str, content: &[u8]| {
            let path = top.path().join(name);
            std::fs::write(&path, content).expect("a file");
            let file = std::fs::File::options().read(true).write(true).open(&path).expect("our own");
            (path, OwnedFd::from(file))
        };
        let long = |byte: u8, len: usize| vec![byte; len];
        for (old, new) in [
            (long(1, 3 * PIECE), [long(1, PIECE), long(2, PIECE), long(1, PIECE + 5)].concat()),
            (long(1, 2 * PIECE + 7), long(1, 10)),
            (Vec::new(), long(3, PIECE)),
            (long(1, 3 * PIECE), [long(0, PIECE), long(2, 5), long(0, PIECE + 9)].concat()),
            (long(1, 70_000), [long(1, 8192), long(0, 3 * PIECE + 1)].concat()),
            (long(0, PIECE), [long(7, 3), long(0, PIECE), long(8, 1), long(0, 4000)].concat()),
            (long(1, 5), Vec::new()),
        ] {
            for zeros in [Zeros::Written, Zeros::Left] {
                let ((path, there), (_, wanted)) = (open("old", &old), open("new", &new));
                write_differences(&wanted, &there, new.len() as u64, zeros).expect("both can be read");
                let case = (old.len(), new.len(), zeros);
                assert!(std::fs::read(path).expect("our own") == new, "{case:?}");
            }
        }
    }
}
