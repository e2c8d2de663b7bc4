//! What is held open is what is dressed: which file a descriptor is, and who beside this user could have made
//! or changed it.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{self, FileType, Stat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use super::at;
use super::attributes::{ACL_ACCESS, Handle};
use super::stamp::name_count;
use super::stat::kind;
use fobs_model::name::Component;

/// Bits of a mode with which all others may write.
const WRITTEN_BY_ALL: u32 = 0o002;
/// Bits of a mode with which the group, or an account of an ACL, may write.
const WRITTEN_BY_GROUP: u32 = 0o020;
/// Both.
pub(crate) const WRITTEN_BY_OTHERS: u32 = WRITTEN_BY_ALL | WRITTEN_BY_GROUP;

/// Which file it is, whatever its name. Of a directory this holds while it is there: a number is given again
/// to what another user makes, and then the owner is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inode {
    device: u64,
    number: u64,
    owner: u32,
    kind: FileType,
}

impl Inode {
    pub(crate) fn of(stat: &Stat) -> Inode {
        Inode { device: stat.st_dev, number: stat.st_ino, owner: stat.st_uid, kind: kind(stat) }
    }

    /// Of what is open.
    pub(crate) fn of_held(held: impl AsFd) -> Result<Inode, Errno> {
        fs::fstat(held).map(|stat| Inode::of(&stat))
    }

    /// `STALE` unless it has the name; its owner may have become another one.
    pub(crate) fn has_name(&self, directory: impl AsFd, name: Component<'_>) -> Result<(), Errno> {
        let named = at::stat(directory, name)?;
        if (named.st_dev, named.st_ino) == (self.device, self.number) { Ok(()) } else { Err(Errno::STALE) }
    }
}

/// The bit of a directory's mode with which nobody removes or moves what is another one's.
const STICKY: u32 = 0o1000;

/// Whether what has a name now is what was looked at: a file has no further name since, as one that was put
/// in its place has.
pub(crate) fn is_unchanged(before: &Stat, now: &Stat) -> bool {
    let is_directory = kind(now) == FileType::Directory;
    Inode::of(before) == Inode::of(now) && (is_directory || name_count(before) == name_count(now))
}

/// Whether root or this process's user owns it: what it holds is not a third user's.
pub(crate) fn is_trusted(stat: &Stat) -> bool {
    stat.st_uid == 0 || stat.st_uid == geteuid().as_raw()
}

/// Whether another user may give names in this directory, or take them.
pub(crate) fn is_shared(directory: impl AsFd) -> bool {
    let directory = directory.as_fd();
    fs::fstat(directory).map_or(true, |stat| !is_trusted(&stat) || is_written_by_others(directory, &stat))
}

/// Whether others may write it. This process's own group counts as its user, but not the accounts of an ACL.
fn is_written_by_others(held: BorrowedFd<'_>, stat: &Stat) -> bool {
    let has_no_acl = || matches!(Handle::Held(held).value(ACL_ACCESS), Ok(None) | Err(Errno::OPNOTSUPP));
    let by_group = stat.st_mode & WRITTEN_BY_GROUP != 0;
    stat.st_mode & WRITTEN_BY_ALL != 0 || by_group && (stat.st_gid != getegid().as_raw() || !has_no_acl())
}

/// Whether this user alone can have written a file: it owns it, it has no name elsewhere, and no other may
/// write.
pub(crate) fn is_private(file: BorrowedFd<'_>, stat: &Stat) -> bool {
    kind(stat) == FileType::RegularFile
        && stat.st_uid == geteuid().as_raw()
        && name_count(stat) == 1
        && !is_written_by_others(file, stat)
}

/// Who may move what is not theirs within a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Movable {
    /// Root and this process's user.
    ByUs,
    /// A third user too.
    ByOthers,
}

impl Movable {
    pub(crate) fn in_directory(directory: impl AsFd) -> Movable {
        let directory = directory.as_fd();
        let is_sticky = || fs::fstat(directory).is_ok_and(|it| it.st_mode & STICKY != 0 && is_trusted(&it));
        if is_shared(directory) && !is_sticky() { Movable::ByOthers } else { Movable::ByUs }
    }
}

/// Whether a third user can have given a file the name that it has in this directory, also if it is another
/// user's.
pub(crate) fn may_be_put_there(directory: impl AsFd, stat: &Stat) -> bool {
    !is_trusted(stat) || name_count(stat) > 1 || Movable::in_directory(directory) == Movable::ByOthers
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, Permissions, hard_link, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn what_others_may_write_is_shared_and_not_private() {
        let top = tempfile::tempdir().expect("a directory");
        let path = top.path().join("f");
        write(&path, "f").expect("a file");
        let look = || {
            let file = File::open(&path).expect("own file");
            is_private(file.as_fd(), &fs::fstat(&file).expect("its status"))
        };
        let own_group = Some(getegid().as_raw());
        chown(&path, None, own_group).expect("own group");
        chown(top.path(), None, own_group).expect("own group");
        for (mode, alone) in [(0o600, true), (0o644, true), (0o664, true), (0o666, false), (0o602, false)] {
            set_permissions(&path, Permissions::from_mode(mode)).expect("own file");
            assert_eq!(look(), alone, "{mode:o}");
            set_permissions(top.path(), Permissions::from_mode(mode | 0o700)).expect("own directory");
            assert_eq!(is_shared(File::open(top.path()).expect("own directory")), !alone, "{mode:o}");
        }
        set_permissions(&path, Permissions::from_mode(0o600)).expect("own file");
        hard_link(&path, top.path().join("g")).expect("one file system");
        assert!(!look(), "it has another name");
        if geteuid().is_root() {
            let directory = File::open(top.path()).expect("own directory");
            set_permissions(top.path(), Permissions::from_mode(0o775)).expect("own directory");
            chown(top.path(), None, Some(1_234_567)).expect("root can");
            assert!(is_shared(&directory), "another group");
            set_permissions(top.path(), Permissions::from_mode(0o1777)).expect("own directory");
            assert!(is_shared(&directory) && Movable::in_directory(&directory) == Movable::ByUs, "sticky");
            chown(top.path(), Some(1_234_567), None).expect("root can");
            assert_eq!(Movable::in_directory(&directory), Movable::ByOthers, "its owner moves all");
        }
    }

    #[test]
    fn what_was_put_in_a_files_place_is_another_inode() {
        let top = tempfile::tempdir().expect("a directory");
        let (one, other) = (top.path().join("one"), top.path().join("other"));
        write(&one, "f").expect("a file");
        write(&other, "f").expect("a file");
        let directory = File::open(top.path()).expect("own directory");
        let name = Component::new(b"one").expect("a name");
        let held = at::hold(&directory, name).expect("own file");
        let before = fs::fstat(&held).expect("its status");
        let inode = Inode::of_held(&held).expect("its status");
        assert_eq!(inode.has_name(&directory, name), Ok(()));
        std::fs::rename(&other, &one).expect("own file");
        assert_eq!(inode.has_name(&directory, name), Err(Errno::STALE));
        assert!(!is_unchanged(&before, &at::stat(&directory, name).expect("it is there")));
        assert_eq!(
            at::link_held(&held, &directory, Component::new(b"x").expect("a name")),
            Err(Errno::NOENT)
        );
    }
}
