//! Files under a temporary name in their own directory until they are complete (and links until they are in
//! place).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{self, FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::at;
use super::attributes::{Applier, Attributes, Handle, Modes, Unset, executable_as, open_handle};
use super::beneath::kind;
use super::held::{Inode, Movable, is_trusted};
use super::keep;
use super::own::{OWN_MODE, open_own};
use super::record::Device;
use super::stat::Meta;
use super::uncached::{Devices, LargeFile, write_all};
#[cfg(test)]
use super::{faults, recorder};
use fobs_model::options::Overwrite;

mod elsewhere;
mod holes;
mod in_place;
mod left;
mod name;
mod names;
mod pen;
mod thing;

use holes::Zeros;
pub(super) use in_place::{InPlace, begin, is_begun};
pub(super) use pen::Pen;
#[cfg(test)]
pub(super) use pen::testing as beside;
pub(super) use thing::{Placed, Thing, is_made_here, place};

pub(super) use left::{ORPHANED_AFTER, age};
pub(super) use names::{Names, random_suffix, temporary_path};

use name::Temporary;

use fobs_model::name::Component;
use fobs_model::name::ours::{Suffix, suffix_in, temporary};

/// Smallest file that is preallocated, bytes: below, the call costs more than a contiguous extent saves.
const PREALLOCATE_MIN: u64 = 1 << 20;
/// Bytes that are copied by one call.
const COPIED: usize = 64 << 20;
/// File system type of tmpfs in `statfs` (`linux/magic.h`).
const TMPFS_MAGIC: fs::FsWord = 0x0102_1994;

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
    #[cfg(test)]
    if let Err(errno @ (Errno::NOSPC | Errno::DQUOT)) = faults::strike(faults::Call::Reserve) {
        return Err(errno);
    }
    // It grows as it is written: after a power cut a file of its full size would look complete.
    match fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
        Ok(()) => Ok(len),
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(errno),
        Err(_) => Ok(0),
    }
}

/// A file being written.
pub(super) struct TemporaryFile {
    file: Arc<OwnedFd>,
    temporary: Temporary,
    /// Room that was reserved for it, bytes.
    reserved: u64,
    zeros: Zeros,
    /// An earlier run began it, and it may be longer than what is written now.
    is_resumed: bool,
    /// What it stands for, where that is no file (`--fake-super`).
    stands_for: Option<(u32, Device)>,
    /// The directory of its place, and what makes its name there, while it lies in another one (`-T`).
    home: Option<(Arc<OwnedFd>, Names)>,
    /// How it is written, where it is large.
    large: Option<Arc<LargeFile>>,
}

impl TemporaryFile {
    /// Makes a file that is to become `name` in `directory`, of about `size_hint` bytes.
    pub(super) fn create(
        names: &Names,
        directory: Arc<OwnedFd>,
        name: Component<'_>,
        size_hint: u64,
    ) -> Result<TemporaryFile, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let (name, file) = names.make(&directory, name, |name| {
            let file = open_own(&directory, name, flags)?;
            if let Names::Alone(_) = names {
                left::lock_new(&file, &directory, name)?;
            }
            Ok(file)
        })?;
        let file = Arc::new(file);
        let temporary = Temporary { directory, name, held: Arc::clone(&file), in_place: false };
        let reserved = if size_hint > PREALLOCATE_MIN { reserve(&file, size_hint)? } else { 0 };
        Ok(TemporaryFile {
            file,
            temporary,
            reserved,
            is_resumed: false,
            stands_for: None,
            home: None,
            large: None,
            zeros: Zeros::Written,
        })
    }

    /// Goes on with the temporary file of `name`, in a journalled transfer, or, where names may be replaced,
    /// with the file of that name itself: the one that `is_meant`. `None`: neither is it.
    pub(super) fn resume(
        suffix: &Suffix,
        directory: Arc<OwnedFd>,
        name: Component<'_>,
        overwrite: Overwrite,
        is_meant: impl Fn(&OwnedFd) -> bool,
    ) -> Result<Option<TemporaryFile>, Errno> {
        let part = temporary(name, suffix);
        let held = match meant(&directory, part.as_component(), &is_meant)? {
            Some(held) => held,
            None if overwrite == Overwrite::Refuse => return Ok(None),
            // It was complete once, or is another program's.
            None => match meant(&directory, name, &is_meant)? {
                Some(held) => {
                    take_back(&directory, name, part.as_component(), &held)?;
                    held
                }
                None => return Ok(None),
            },
        };
        let file = Arc::new(at::reopen(&held, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?);
        let temporary = Temporary { directory, name: part, held: Arc::clone(&file), in_place: false };
        Ok(Some(TemporaryFile {
            file,
            temporary,
            reserved: 0,
            is_resumed: true,
            stands_for: None,
            home: None,
            large: None,
            zeros: Zeros::Written,
        }))
    }

    /// Writes all of `data` at `offset`.
    pub(super) fn write(&self, data: &[u8], offset: u64) -> Result<(), Errno> {
        match self.zeros {
            Zeros::Written => self.put(data, offset),
            Zeros::Left => holes::runs(data, offset).try_for_each(|run| match run {
                holes::Run::Data(data, at) => self.put(data, at),
                holes::Run::Zeros(len, at) => self.skip(at, len),
            }),
        }
    }

    fn put(&self, data: &[u8], offset: u64) -> Result<(), Errno> {
        match &self.large {
            Some(large) => large.write(data, offset),
            None => write_all(&self.file, data, offset),
        }
    }

    /// From now on it is written as a large file of this destination.
    pub(super) fn is_large(&mut self, devices: &Devices) {
        self.large = Some(Arc::new(devices.large_file(&self.file)));
    }

    /// From now on long runs of zeros become holes (`--sparse`): what is written comes in the file's order.
    pub(super) fn leave_zeros(&mut self) {
        self.zeros = Zeros::Left;
    }

    /// Makes what is at a place of another file that of `offset` here, sharing its blocks where the file
    /// system can. Returns how many bytes, which are fewer where that fails.
    pub(super) fn share(&self, from: &OwnedFd, place: u64, offset: u64, len: usize) -> usize {
        let (mut there, mut here, mut left) = (place, offset, len);
        while left > 0 {
            match fs::copy_file_range(from, Some(&mut there), &*self.file, Some(&mut here), left) {
                Ok(0) => break,
                Ok(copied) => left -= copied.min(left),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        len - left
    }

    /// Makes its first `len` bytes those of another file.
    pub(super) fn copy(&self, from: &OwnedFd, len: u64) -> Result<(), Errno> {
        let mut at = 0;
        while at < len {
            let piece = usize::try_from(len - at).unwrap_or(usize::MAX).min(COPIED);
            at += match self.share(from, at, at, piece) {
                0 => in_place::copy_piece(from, &self.file, at, piece.min(in_place::PIECE))?,
                shared => shared,
            } as u64;
        }
        Ok(())
    }

    /// From now on it stands for something of this type.
    pub(super) fn stand_for(&mut self, what: (u32, Device)) {
        self.stands_for = Some(what);
    }

    /// The end of its temporary name.
    pub(super) fn suffix(&self) -> Option<Suffix> {
        suffix_in(self.temporary.name.as_bytes())
    }

    /// The directory of its place.
    pub(super) fn directory(&self) -> &Arc<OwnedFd> {
        self.home.as_ref().map_or(&self.temporary.directory, |(directory, _)| directory)
    }

    /// The open file.
    pub(super) fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Fsyncs the file.
    pub(super) fn sync(&self) -> Result<(), Errno> {
        keep::file(&self.file)
    }

    /// Makes zeros of the `len` bytes from `offset` on, without writing them; nothing behind them has been
    /// written.
    pub(super) fn skip(&self, offset: u64, len: u64) -> Result<(), Errno> {
        // First shorter: a file that goes on may have something there.
        self.truncate(offset)?;
        self.truncate(offset + len)
    }

    fn truncate(&self, len: u64) -> Result<(), Errno> {
        #[cfg(test)]
        faults::strike(faults::Call::Truncate)?;
        let done = fs::ftruncate(&self.file, len);
        #[cfg(test)]
        recorder::truncated(&done, &self.file, len);
        done
    }

    /// Ends the file after `len` bytes, where it, or what is reserved for it, goes on, and fails where writes
    /// of it did. ext4 then records its
    /// length at once, and after a power cut it would look complete: so its content goes to the device first.
    fn cut_to(&self, len: u64) -> Result<(), Errno> {
        let is_longer = self.is_resumed && u64::try_from(fs::fstat(&self.file)?.st_size) != Ok(len);
        if self.reserved > len || is_longer {
            keep::content(&self.file)?;
            self.truncate(len)?;
        }
        keep::writes(&*self.file)
    }

    /// Gives a file of `len` bytes permissions and its name, that of another one only where it `replaces`.
    pub(super) fn take_name(
        &mut self,
        name: Component<'_>,
        len: u64,
        mode: u32,
        replaces: bool,
    ) -> Result<(), Errno> {
        self.cut_to(len)?;
        open_handle(&*self.file).set_mode(mode)?;
        let movable = Movable::in_directory(&self.temporary.directory);
        match self.temporary.rename_to_new(name, movable) {
            Err(Errno::EXIST) if replaces => self.temporary.rename(name, movable),
            Err(Errno::INVAL | Errno::NOSYS) if replaces => self.temporary.rename(name, movable),
            // A file system without this kind of rename; the temporary name goes on drop.
            Err(Errno::INVAL | Errno::NOSYS) => self.temporary.link_to_new(name),
            renamed => renamed,
        }
    }

    /// Leaves it under its temporary name.
    pub(super) fn keep(mut self) {
        self.temporary.in_place = true;
    }

    /// Leaves it under its own name in another directory of the same file system; given back where it cannot
    /// be moved there.
    pub(super) fn keep_as(mut self, directory: &OwnedFd, name: Component<'_>) -> Option<TemporaryFile> {
        let from = (&self.temporary.directory, self.temporary.name.as_component());
        self.temporary.in_place = at::move_to(from.0, from.1, directory, name).is_ok();
        if self.temporary.in_place { None } else { Some(self) }
    }

    /// Sets what is kept of the file, now of `len` bytes, and moves it to another directory of the same file
    /// system, where it waits for its name.
    pub(super) fn commit_into(
        &mut self,
        directory: &OwnedFd,
        name: Component<'_>,
        len: u64,
        meta: Meta,
        attributes: Option<&Attributes>,
        applier: &Applier,
    ) -> Result<Result<(), Unset>, Errno> {
        let mut kept = self.dressed(len, meta, attributes, applier)?;
        if let Some(mode) = self.temporary.kept_mode(name, false, meta, applier)? {
            kept = kept.and(set_mode(open_handle(&*self.file), mode));
        }
        at::move_to(&self.temporary.directory, self.temporary.name.as_component(), directory, name)?;
        self.temporary.in_place = true;
        Inode::of_held(&self.temporary.held)?.has_name(directory, name)?;
        Ok(kept)
    }

    /// Ends the file after `len` bytes and sets what is kept of it.
    fn dressed(
        &self,
        len: u64,
        meta: Meta,
        attributes: Option<&Attributes>,
        applier: &Applier,
    ) -> Result<Result<(), Unset>, Errno> {
        self.cut_to(len)?;
        let now = applier.made_in(self.directory(), Some(OWN_MODE));
        let file = open_handle(&*self.file);
        Ok(match self.stands_for {
            Some(what) => applier.dress_as(file, what, now, meta, attributes),
            None => applier.dress(file, now, meta, attributes),
        })
    }

    /// Sets what is kept of the file, now of `len` bytes, and renames it to `name`. `Ok(Err(_))`: renamed,
    /// but not all could be set.
    pub(super) fn commit(
        &mut self,
        name: Component<'_>,
        len: u64,
        meta: Meta,
        attributes: Option<&Attributes>,
        applier: &Applier,
        movable: Movable,
    ) -> Result<Result<(), Unset>, Errno> {
        let mut kept = self.dressed(len, meta, attributes, applier)?;
        if applier.keeping.overwrite == Overwrite::Refuse {
            return self.temporary.take_new(name, movable).map(|()| kept);
        }
        // Nearly always `name` does not exist, and a check first would cost one call per small file.
        match self.temporary.rename_to_new(name, movable) {
            Ok(()) => return Ok(kept),
            // INVAL: a file system without this kind of rename.
            Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
        if let Some(mode) = self.temporary.kept_mode(name, false, meta, applier)? {
            kept = kept.and(set_mode(open_handle(&*self.file), mode));
        }
        self.temporary.rename(name, movable)?;
        Ok(kept)
    }
}

/// Holds what has the name, if it `is_meant`.
fn meant(
    directory: &OwnedFd,
    name: Component<'_>,
    is_meant: impl Fn(&OwnedFd) -> bool,
) -> Result<Option<OwnedFd>, Errno> {
    match at::hold(directory, name) {
        Ok(held) => Ok(Some(held).filter(is_meant)),
        // A link is not followed, so it is held: `LOOP` does not come.
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Gives a file that has its name already its temporary one again, and the mode of temporary ones; it may
/// have none that lets us open it.
fn take_back(
    directory: &OwnedFd,
    name: Component<'_>,
    temporary: Component<'_>,
    held: &OwnedFd,
) -> Result<(), Errno> {
    at::rename(directory, name, temporary)?;
    if let Err(errno) = Inode::of_held(held)?.has_name(directory, temporary) {
        // Something else had the name by now, and gets it back.
        let _ = at::rename_new(directory, temporary, name);
        return Err(errno);
    }
    Handle::Held(held.as_fd()).set_mode(OWN_MODE)
}

fn set_mode(file: Handle<'_>, mode: u32) -> Result<(), Unset> {
    file.set_mode(mode).map_err(|errno| Unset { what: "the mode".to_owned(), errno })
}
