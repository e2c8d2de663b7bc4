//! Files under a temporary name in their own directory until they are complete (and links until they are in
//! place).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{self, FallocateFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, pwrite};

use super::at;
use super::at::open_beneath;
use super::attributes::{Applier, Attributes, HOLD, Handle, Modes, Unkept, Unset, open_handle, timestamps};
use super::beneath::{Links, kind};
use super::own::{OWN_MODE, is_marked, open_own};
use super::stat::Meta;
use fobs_model::options::Overwrite;

#[cfg(test)]
pub(super) mod faults;
mod names;

pub(super) use names::{Names, random_suffix, temporary_path};

use fobs_model::name::ours::{Suffix, suffix_in, temporary};
use fobs_model::name::{Component, ComponentBuf};

/// Smallest file that is preallocated, bytes: below, the call costs more than a contiguous extent saves.
const PREALLOCATE_MIN: u64 = 1 << 20;
/// File system type of tmpfs in `statfs` (`linux/magic.h`).
const TMPFS_MAGIC: fs::FsWord = 0x0102_1994;

/// A name in a directory that is removed on drop, unless it was renamed.
struct Temporary {
    directory: Arc<OwnedFd>,
    name: ComponentBuf,
    in_place: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.in_place {
            // An error cannot be reported here.
            let _ = at::unlink(&self.directory, self.name.as_component());
        }
    }
}

impl Temporary {
    /// Moves it to `to`, in place of what is there, unless that is another copy's unfinished file.
    fn rename(&mut self, to: Component<'_>) -> Result<(), Errno> {
        let is_in_use = suffix_in(to.as_bytes()).is_some()
            && at::stat(&self.directory, to).is_ok_and(|stat| is_marked(&stat));
        if is_in_use {
            return Err(Errno::BUSY);
        }
        at::rename(&self.directory, self.name.as_component(), to)?;
        self.in_place = true;
        Ok(())
    }

    /// Moves it to `to` if that does not exist.
    fn rename_to_new(&mut self, to: Component<'_>) -> Result<(), Errno> {
        #[cfg(test)]
        faults::strike(faults::Call::RenameToNew)?;
        at::rename_new(&self.directory, self.name.as_component(), to)?;
        self.in_place = true;
        Ok(())
    }

    /// Likewise, on a file system that cannot `rename` so: by one more name, which never replaces one.
    fn link_to_new(&mut self, to: Component<'_>) -> Result<(), Errno> {
        // On drop the temporary name goes.
        at::link(&self.directory, self.name.as_component(), &self.directory, to)
    }

    /// Moves it to `to`, where what has that name stays.
    fn take_new(&mut self, to: Component<'_>) -> Result<(), Errno> {
        match self.rename_to_new(to) {
            Err(Errno::INVAL | Errno::NOSYS) => self.link_to_new(to),
            moved => moved,
        }
    }

    /// The existing entry at `to`: only what may be sent is replaced.
    fn replaced(&self, to: Component<'_>, applier: &Applier) -> Result<Replaced, Errno> {
        match at::stat(&self.directory, to) {
            Err(Errno::NOENT) => Ok(Replaced::Nothing),
            Err(errno) => Err(errno),
            Ok(stat) => match kind(&stat) {
                FileType::RegularFile => Ok(Replaced::File { mode: stat.st_mode }),
                FileType::Symlink => Ok(Replaced::Nothing),
                FileType::Directory => Err(Errno::ISDIR),
                // A sync, which replaces what is not kept too.
                _ if applier.preserve.unkept == Unkept::LeftOut => {
                    Ok(Replaced::Special { mode: stat.st_mode })
                }
                _ if applier.preserve.devices || applier.preserve.specials => Ok(Replaced::Nothing),
                // By cp devices and the like are not sent, so they are not replaced.
                _ => Err(Errno::EXIST),
            },
        }
    }

    /// The permissions of what is replaced, as cp and rsync keep them where those of the source are not: a
    /// file takes those of a file, a special file those of either.
    fn kept_mode(
        &self,
        to: Component<'_>,
        is_special: bool,
        applier: &Applier,
    ) -> Result<Option<u32>, Errno> {
        match (self.replaced(to, applier)?, applier.keeping.modes) {
            (Replaced::File { mode }, Modes::Ordinary { .. }) => Ok(Some(mode & 0o777)),
            (Replaced::Special { mode }, Modes::Ordinary { .. }) if is_special => Ok(Some(mode & 0o777)),
            _ => Ok(None),
        }
    }
}

enum Replaced {
    /// Nothing whose mode would be kept.
    Nothing,
    /// A file with this mode.
    File { mode: u32 },
    /// A device, fifo or socket with this mode.
    Special { mode: u32 },
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
    file: Arc<OwnedFd>,
    temporary: Temporary,
    /// It may be longer than what was written.
    may_be_longer: bool,
}

impl TemporaryFile {
    /// Makes a file that is to become `name` in `directory`, of about `size_hint` bytes.
    pub(super) fn create(
        names: &mut Names,
        directory: Arc<OwnedFd>,
        name: Component<'_>,
        size_hint: u64,
    ) -> Result<TemporaryFile, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let made = names.make(&directory, name, |name| open_own(&directory, name, flags));
        let (name, file) = made?;
        let temporary = Temporary { directory, name, in_place: false };
        let reserved = if size_hint > PREALLOCATE_MIN { reserve(&file, size_hint)? } else { 0 };
        Ok(TemporaryFile { file: Arc::new(file), temporary, may_be_longer: reserved > 0 })
    }

    /// Goes on with the temporary file of `name`, in a journalled transfer, or, where names may be replaced,
    /// with the file of that name itself: the one that `is_meant`. `None`: neither is it.
    pub(super) fn resume(
        suffix: &Suffix,
        directory: Arc<OwnedFd>,
        name: Component<'_>,
        overwrite: Overwrite,
        is_meant: impl Fn(&Stat) -> bool,
    ) -> Result<Option<TemporaryFile>, Errno> {
        let part = temporary(name, suffix);
        let temporary = part.as_component();
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        if !is_file(&directory, temporary, &is_meant)? {
            if overwrite == Overwrite::Refuse || !is_file(&directory, name, &is_meant)? {
                return Ok(None);
            }
            // It was complete once, or is another program's.
            at::rename(&directory, name, temporary)?;
            make_private(&directory, temporary, &is_meant)?;
        }
        let file = open_beneath(&directory, temporary.as_bytes(), flags, Mode::empty(), Links::Refuse)?;
        if !is_meant(&fs::fstat(&file)?) {
            return Ok(None);
        }
        let temporary = Temporary { directory, name: part, in_place: false };
        Ok(Some(TemporaryFile { file: Arc::new(file), temporary, may_be_longer: true }))
    }

    /// Writes all of `data` at `offset`.
    pub(super) fn write(&self, mut data: &[u8], mut offset: u64) -> Result<(), Errno> {
        #[cfg(test)]
        faults::strike(faults::Call::Write)?;
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

    /// The open file.
    pub(super) fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Fsyncs the file.
    pub(super) fn sync(&self) -> Result<(), Errno> {
        #[cfg(test)]
        faults::strike(faults::Call::Sync)?;
        fs::fsync(&self.file)
    }

    /// Makes zeros of the `len` bytes from `offset` on, without writing them; nothing behind them has been
    /// written.
    pub(super) fn skip(&self, offset: u64, len: u64) -> Result<(), Errno> {
        // First shorter: a file that goes on may have something there.
        fs::ftruncate(&self.file, offset)?;
        fs::ftruncate(&self.file, offset + len)
    }

    /// Gives a file of `len` bytes permissions and its name, that of another one only where it `replaces`.
    pub(super) fn take_name(
        &mut self,
        name: Component<'_>,
        len: u64,
        mode: u32,
        replaces: bool,
    ) -> Result<(), Errno> {
        if self.may_be_longer {
            fs::ftruncate(&self.file, len)?;
        }
        fs::fchmod(&self.file, Mode::from_raw_mode(mode))?;
        match self.temporary.rename_to_new(name) {
            Err(Errno::EXIST) if replaces => self.temporary.rename(name),
            Err(Errno::INVAL | Errno::NOSYS) if replaces => self.temporary.rename(name),
            // A file system without this kind of rename; the temporary name goes on drop.
            Err(Errno::INVAL | Errno::NOSYS) => {
                let directory = &*self.temporary.directory;
                at::link(directory, self.temporary.name.as_component(), directory, name)
            }
            renamed => renamed,
        }
    }

    /// Leaves it under its temporary name.
    pub(super) fn keep(mut self) {
        self.temporary.in_place = true;
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
    ) -> Result<Result<(), Unset>, Errno> {
        if self.may_be_longer {
            fs::ftruncate(&self.file, len)?;
        }
        let now = applier.made_in(&self.temporary.directory, Some(OWN_MODE));
        let mut kept = applier.dress(open_handle(&*self.file), now, meta, attributes);
        if applier.keeping.overwrite == Overwrite::Refuse {
            return self.temporary.take_new(name).map(|()| kept);
        }
        // Nearly always `name` does not exist, and a check first would cost one call per small file.
        match self.temporary.rename_to_new(name) {
            Ok(()) => return Ok(kept),
            // INVAL: a file system without this kind of rename.
            Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
        if let Some(mode) = self.temporary.kept_mode(name, false, applier)? {
            kept = kept.and(set_mode(open_handle(&*self.file), mode));
        }
        self.temporary.rename(name)?;
        Ok(kept)
    }
}

/// Whether `name` is a regular file that `is_meant`.
fn is_file(
    directory: &OwnedFd,
    name: Component<'_>,
    is_meant: impl Fn(&Stat) -> bool,
) -> Result<bool, Errno> {
    match at::stat(directory, name) {
        Ok(stat) => Ok(kind(&stat) == FileType::RegularFile && is_meant(&stat)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Gives a file the mode of temporary ones; it may have none that lets us open it.
fn make_private(
    directory: &OwnedFd,
    name: Component<'_>,
    is_meant: impl Fn(&Stat) -> bool,
) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let file = open_beneath(directory, name.as_bytes(), flags, Mode::empty(), Links::Refuse)?;
    if !is_meant(&fs::fstat(&file)?) {
        return Err(Errno::STALE);
    }
    // By way of /proc, because such a handle cannot be changed itself, and the name may be a link by now.
    let handle = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::chmod(handle, Mode::from_raw_mode(OWN_MODE))
}

/// What is moved to its name in one step, when it has all that it is to have.
pub(super) enum Thing<'a> {
    /// A symbolic link to this target.
    Symlink(&'a [u8]),
    /// A device, fifo or socket, and the device's number.
    Special(FileType, u64),
    /// One more name of the file of this name in this directory.
    Name(&'a OwnedFd, Component<'a>),
}

/// Makes something other than a file under a temporary name and moves it to `name`. `Ok(Err(_))`: it is
/// there, but not all that is kept could be set.
pub(super) fn place(
    names: &mut Names,
    directory: &Arc<OwnedFd>,
    name: Component<'_>,
    thing: &Thing<'_>,
    meta: Meta,
    attributes: Option<&Attributes>,
    applier: &Applier,
) -> Result<Result<(), Unset>, Errno> {
    let mode = Mode::from_raw_mode(OWN_MODE & 0o777);
    let (made, ()) = names.make(directory, name, |made| match thing {
        Thing::Symlink(target) => at::symlink(target, directory, made),
        Thing::Special(kind, device) => at::make_node(directory, made, *kind, mode, *device),
        Thing::Name(from, name) => at::link(from, *name, directory, made),
    })?;
    let mut temporary = Temporary { directory: Arc::clone(directory), name: made, in_place: false };
    let hold =
        |name: &ComponentBuf| open_beneath(directory, name.as_bytes(), HOLD, Mode::empty(), Links::Refuse);
    let mut kept = match thing {
        Thing::Symlink(_) => {
            if applier.keeping.times {
                // The time of a link does not matter enough to fail.
                let times = timestamps(meta);
                let _ = at::set_times(directory, temporary.name.as_component(), &times);
            }
            match attributes {
                Some(attributes) => {
                    applier.dress_link(Handle::Held(hold(&temporary.name)?.as_fd()), attributes)
                }
                None => Ok(()),
            }
        }
        Thing::Special(..) => {
            let held = hold(&temporary.name)?;
            let now = applier.made_in(directory, None);
            applier.dress(Handle::Held(held.as_fd()), now, meta, attributes)
        }
        // Its first name has it all.
        Thing::Name(..) => Ok(()),
    };
    if applier.keeping.overwrite == Overwrite::Refuse {
        return temporary.take_new(name).map(|()| kept);
    }
    match temporary.rename_to_new(name) {
        Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS) => {
            let is_special = matches!(thing, Thing::Special(..));
            if let (true, Some(mode)) = (is_special, temporary.kept_mode(name, is_special, applier)?) {
                kept = kept.and(set_mode(Handle::Held(hold(&temporary.name)?.as_fd()), mode));
            }
            temporary.rename(name)?;
            // A rename of one name of a file to another leaves both: the temporary one is removed.
            temporary.in_place = !matches!(thing, Thing::Name(..));
        }
        result => result?,
    }
    Ok(kept)
}

fn set_mode(file: Handle<'_>, mode: u32) -> Result<(), Unset> {
    file.set_mode(mode).map_err(|errno| Unset { what: "the mode".to_owned(), errno })
}
