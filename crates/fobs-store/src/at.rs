//! The calls of the kernel that take a name: the only place of this crate that makes them.
//!
//! A name is a [`Component`], so it stays in its directory, and no call but [`open_beneath`] resolves a path.
//! That one stays below its directory whatever the path is. No call follows a link at the name.
//!
//! By a name something is opened, looked at, made, renamed or removed, and nothing else: what gets a mode, an
//! owner, an attribute, a time or another name is held open, so that it is what was looked at (`cargo xtask
//! tidy` knows the functions here that take a name).

mod steps;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{
    self, Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Statx,
    StatxFlags, Timestamps, Uid,
};
use rustix::io::Errno;

use crate::charset::{in_transfer, on_disk};
#[cfg(test)]
use crate::faults;
#[cfg(test)]
use crate::recorder;
use fobs_model::name::Component;

/// Which symbolic links may be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Those that stay below the root.
    Inside,
    /// None.
    Refuse,
}

/// Opens `path` below `directory`; no `..`, absolute path or symbolic link may leave it. The empty path is
/// the directory itself.
pub(super) fn open_beneath(
    directory: impl AsFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> Result<OwnedFd, Errno> {
    let directory = directory.as_fd();
    let path = &*on_disk(path)?;
    match open_below(directory, path, flags, mode, links) {
        Err(errno) if openat2_is_missing(errno) => steps::open(directory, path, flags, mode, links),
        opened => opened,
    }
}

fn open_below(
    directory: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if links == Links::Refuse {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    // EAGAIN: a rename raced with a `..`, so the kernel could not check it (openat2(2)).
    const TRIES: usize = 16;
    let mut result = Err(Errno::AGAIN);
    for _ in 0..TRIES {
        result = fs::openat2(directory, or_dot(path), flags | OFlags::CLOEXEC, mode, resolve);
        if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    result
}

/// Whether an error means that there is no `openat2`: before Linux 5.6, or in a container whose filter of
/// system calls is older than that (it answers with `EPERM`).
fn openat2_is_missing(errno: Errno) -> bool {
    static MISSING: OnceLock<bool> = OnceLock::new();
    let can_mean_that = matches!(errno, Errno::NOSYS | Errno::PERM);
    can_mean_that
        && *MISSING.get_or_init(|| {
            let tried =
                fs::openat2(CWD, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::empty());
            matches!(tried, Err(Errno::NOSYS | Errno::PERM))
        })
}

/// Opens one component, or `.`, `..` or `/`; a link is not followed.
fn one(directory: BorrowedFd<'_>, name: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    fs::openat(directory, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)
}

/// Opens a path that this process's own user named, relative to the working directory.
pub(super) fn open_ambient(path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    fs::openat(CWD, or_dot(path), flags | OFlags::CLOEXEC, Mode::empty())
}

fn or_dot(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"." } else { path }
}

/// The status of what has the name.
pub(super) fn stat(directory: impl AsFd, name: Component<'_>) -> Result<Stat, Errno> {
    fs::statat(directory, &*on_disk(name.as_bytes())?, AtFlags::SYMLINK_NOFOLLOW)
}

/// More of the status of an open file.
pub(super) fn status(file: impl AsFd, wanted: StatxFlags) -> Result<Statx, Errno> {
    fs::statx(file, "", AtFlags::EMPTY_PATH, wanted)
}

/// The target of the link that has the name.
pub(super) fn read_link(directory: impl AsFd, name: Component<'_>) -> Result<Vec<u8>, Errno> {
    // Room for most targets; the call makes more where it is needed.
    let target = fs::readlinkat(directory, &*on_disk(name.as_bytes())?, Vec::with_capacity(256))?;
    Ok(in_transfer(target.as_bytes())?.into_owned())
}

/// Removes a name that is no directory's.
pub(super) fn unlink(directory: impl AsFd, name: Component<'_>) -> Result<(), Errno> {
    let directory = directory.as_fd();
    #[cfg(test)]
    faults::strike(faults::Call::Unlink)?;
    let done = fs::unlinkat(directory, &*on_disk(name.as_bytes())?, AtFlags::empty());
    #[cfg(test)]
    recorder::unlinked(&done, directory, name);
    done
}

/// Removes an empty directory.
pub(super) fn remove_directory(directory: impl AsFd, name: Component<'_>) -> Result<(), Errno> {
    let directory = directory.as_fd();
    #[cfg(test)]
    faults::strike(faults::Call::RemoveDirectory)?;
    let done = fs::unlinkat(directory, &*on_disk(name.as_bytes())?, AtFlags::REMOVEDIR);
    #[cfg(test)]
    recorder::unlinked(&done, directory, name);
    done
}

/// Gives an entry another name in its directory, in place of what has that name.
pub fn rename(directory: impl AsFd, from: Component<'_>, to: Component<'_>) -> Result<(), Errno> {
    let directory = directory.as_fd();
    #[cfg(test)]
    faults::strike(faults::Call::Rename)?;
    let done = fs::renameat(directory, &*on_disk(from.as_bytes())?, directory, &*on_disk(to.as_bytes())?);
    #[cfg(test)]
    recorder::renamed(&done, (directory, from), (directory, to));
    done
}

/// Gives an entry another name in its directory that nothing has.
///
/// # Errors
/// `EXIST` if something has it, `INVAL` or `NOSYS` on a file system without this kind of rename.
pub(super) fn rename_new(directory: impl AsFd, from: Component<'_>, to: Component<'_>) -> Result<(), Errno> {
    let directory = directory.as_fd();
    #[cfg(test)]
    faults::strike(faults::Call::Rename)?;
    let done = fs::renameat_with(
        directory,
        &*on_disk(from.as_bytes())?,
        directory,
        &*on_disk(to.as_bytes())?,
        RenameFlags::NOREPLACE,
    );
    #[cfg(test)]
    recorder::renamed(&done, (directory, from), (directory, to));
    done
}

/// Moves an entry to another directory of the same file system, in place of what has the name there.
pub(super) fn move_to(
    from: impl AsFd,
    name: Component<'_>,
    to: impl AsFd,
    new: Component<'_>,
) -> Result<(), Errno> {
    let (from, to) = (from.as_fd(), to.as_fd());
    #[cfg(test)]
    faults::strike(faults::Call::Rename)?;
    let done = fs::renameat(from, &*on_disk(name.as_bytes())?, to, &*on_disk(new.as_bytes())?);
    #[cfg(test)]
    recorder::renamed(&done, (from, name), (to, new));
    done
}

/// Moves an entry to a name that nothing has.
///
/// # Errors
/// As [`rename_new`].
pub(super) fn move_to_new(
    from: impl AsFd,
    name: Component<'_>,
    to: impl AsFd,
    new: Component<'_>,
) -> Result<(), Errno> {
    let (from, to) = (from.as_fd(), to.as_fd());
    #[cfg(test)]
    faults::strike(faults::Call::Rename)?;
    let done = fs::renameat_with(
        from,
        &*on_disk(name.as_bytes())?,
        to,
        &*on_disk(new.as_bytes())?,
        RenameFlags::NOREPLACE,
    );
    #[cfg(test)]
    recorder::renamed(&done, (from, name), (to, new));
    done
}

/// Gives what is held one more name, a link itself and not what it leads to.
///
/// # Errors
/// `EXIST` if something has the name, `NOENT` if what is held has no name any more.
pub(super) fn link_held(held: impl AsFd, to: impl AsFd, new: Component<'_>) -> Result<(), Errno> {
    let (held, to) = (held.as_fd(), to.as_fd());
    #[cfg(test)]
    faults::strike(faults::Call::Link)?;
    let done = match fs::linkat(CWD, place_of(held), to, &*on_disk(new.as_bytes())?, AtFlags::SYMLINK_FOLLOW)
    {
        // Without `/proc`; by descriptor alone only root may.
        Err(Errno::NOENT) => fs::linkat(held, "", to, &*on_disk(new.as_bytes())?, AtFlags::EMPTY_PATH),
        linked => linked,
    };
    #[cfg(test)]
    recorder::linked(&done, held, to, new);
    done
}

/// Makes a symbolic link to any target, which is not looked at.
pub(super) fn symlink(target: &[u8], directory: impl AsFd, name: Component<'_>) -> Result<(), Errno> {
    let directory = directory.as_fd();
    #[cfg(test)]
    faults::strike(faults::Call::MakeLink)?;
    let done = fs::symlinkat(&*on_disk(target)?, directory, &*on_disk(name.as_bytes())?);
    #[cfg(test)]
    recorder::made(&done, directory, name, recorder::Made::Symlink(target.to_vec()), || {
        found(hold(directory, name))
    });
    done
}

/// Makes a device, fifo or socket.
pub(super) fn make_node(
    directory: impl AsFd,
    name: Component<'_>,
    kind: FileType,
    mode: Mode,
    device: u64,
) -> Result<(), Errno> {
    #[cfg(test)]
    faults::strike(faults::Call::MakeNode)?;
    fs::mknodat(directory, &*on_disk(name.as_bytes())?, kind, mode, device)
}

/// Makes a directory.
pub(super) fn make_directory(directory: impl AsFd, name: Component<'_>, mode: Mode) -> Result<(), Errno> {
    let directory = directory.as_fd();
    #[cfg(test)]
    faults::strike(faults::Call::MakeDirectory)?;
    let done = fs::mkdirat(directory, &*on_disk(name.as_bytes())?, mode);
    #[cfg(test)]
    recorder::made(&done, directory, name, recorder::Made::Directory, || found(hold(directory, name)));
    done
}

/// Sets the times of a directory that may be open for lookups only.
pub(super) fn set_own_times(directory: impl AsFd, times: &Timestamps) -> Result<(), Errno> {
    let directory = directory.as_fd();
    #[cfg(test)]
    faults::strike(faults::Call::Times)?;
    let done = fs::utimensat(directory, ".", times, AtFlags::empty());
    #[cfg(test)]
    recorder::times(&done, directory);
    done
}

/// Sets the times of a file, or of a link itself, that is open for lookups only.
pub(super) fn set_times_of_held(file: BorrowedFd<'_>, times: &Timestamps) -> Result<(), Errno> {
    #[cfg(test)]
    faults::strike(faults::Call::Times)?;
    let done = fs::utimensat(CWD, place_of(file), times, AtFlags::empty());
    #[cfg(test)]
    recorder::times(&done, file);
    done
}

/// Opens what has the name for lookups only, a link itself and not what it leads to.
pub(super) fn hold(directory: impl AsFd, name: Component<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    open_beneath(directory, name.as_bytes(), flags, Mode::empty(), Links::Refuse)
}

/// Opens what is held for reading or writing: the same file, whatever became of its name.
pub(super) fn reopen(held: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    fs::openat(CWD, place_of(held), flags | OFlags::CLOEXEC, Mode::empty())
}

/// The target of a symbolic link that is held.
pub(super) fn target_of_held(held: impl AsFd) -> Result<Vec<u8>, Errno> {
    Ok(in_transfer(&target_on_disk(held)?)?.into_owned())
}

/// Likewise as the kernel has it.
fn target_on_disk(held: impl AsFd) -> Result<Vec<u8>, Errno> {
    Ok(fs::readlinkat(held, "", Vec::with_capacity(256))?.into_bytes())
}

/// What addresses in memory, and what places and lengths must be multiples of where a file is read or written
/// past the page cache (`STATX_DIOALIGN`, Linux 6.1), bytes; `None` where that is not possible, or not known.
pub(super) fn direct_alignment(held: impl AsFd) -> Option<(usize, usize)> {
    const ALIGNMENT: StatxFlags = StatxFlags::from_bits_retain(0x2000);
    let known = fs::statx(held, "", AtFlags::EMPTY_PATH, ALIGNMENT).ok()?;
    let says = StatxFlags::from_bits_retain(known.stx_mask).contains(ALIGNMENT);
    let [memory, place] = [known.stx_dio_mem_align, known.stx_dio_offset_align]
        .map(|align| usize::try_from(align).unwrap_or(0));
    (says && memory > 0 && place > 0).then_some((memory, place))
}

/// When a file was made, seconds and nanoseconds since 1970; `None` where its file system does not say.
pub(super) fn birth(held: impl AsFd) -> Option<(i64, u32)> {
    #[cfg(test)]
    if let Some(birth) = recorder::birth(&held) {
        return Some(birth);
    }
    let known = fs::statx(held, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let says = StatxFlags::from_bits_retain(known.stx_mask).contains(StatxFlags::BTIME);
    says.then_some((known.stx_btime.tv_sec, known.stx_btime.tv_nsec))
}

/// What was made just now, and is held.
#[cfg(test)]
pub(super) fn found(made: Result<OwnedFd, Errno>) -> (Stat, recorder::Birth) {
    let held = made.expect("it was made");
    (fs::fstat(&held).expect("it is held"), birth(&held))
}

/// Where `/proc` leads to what is held, whatever became of its name. Calls that refuse a descriptor that is
/// open for lookups only go this way; the last step follows no symbolic link, and is one even to a link.
pub(super) fn place_of(held: impl AsFd) -> String {
    format!("/proc/self/fd/{}", held.as_fd().as_raw_fd())
}

/// The absolute path of what is held, as it is now. Of what has no name any more nothing is there.
pub(super) fn name_of(held: impl AsFd) -> Result<Vec<u8>, Errno> {
    Ok(fs::readlinkat(CWD, place_of(held), Vec::with_capacity(256))?.into_bytes())
}

/// Whether this process may make names in a directory that may be open for lookups only.
pub(super) fn may_write(directory: impl AsFd) -> Result<(), Errno> {
    fs::accessat(directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty())
}

/// Sets the owner of a file that may be open for lookups only.
pub(super) fn set_owner(file: BorrowedFd<'_>, user: Option<Uid>, group: Option<Gid>) -> Result<(), Errno> {
    fs::chownat(file, "", user, group, AtFlags::EMPTY_PATH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn no_path_leads_out_of_its_directory() {
        let top = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(top.path().join("in")).expect("a directory");
        std::fs::write(top.path().join("secret"), "s").expect("a file");
        std::os::unix::fs::symlink("../secret", top.path().join("in/link")).expect("a link");
        let inside = File::open(top.path().join("in")).expect("own directory");
        for path in [&b"../secret"[..], b"/etc/passwd", b"link", b"../in/../secret", b"x/../../secret"] {
            for links in [Links::Inside, Links::Refuse] {
                let opened = open_beneath(&inside, path, OFlags::RDONLY, Mode::empty(), links);
                assert!(opened.is_err(), "{}", String::from_utf8_lossy(path));
            }
        }
        assert!(open_beneath(&inside, b"", OFlags::RDONLY, Mode::empty(), Links::Refuse).is_ok());
    }
}
