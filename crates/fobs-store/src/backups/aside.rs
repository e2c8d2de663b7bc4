//! The directory of `--backup-dir`: what is replaced or deleted lies there under the path that it had.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, Mode, OFlags, fchmod, fstat, futimens};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::at::{self, open_beneath};
use crate::attributes::{Handle, timestamps};
use crate::beneath::{Base, HOLD_DIRECTORY, Links, kind, meta};
use crate::destination::make_above;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::name::Component;

/// To read a directory's status and set it.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

/// A directory for backups, which is made when the first one comes.
#[derive(Debug)]
pub(crate) struct Aside {
    base: Base,
    /// Its path as a path of the request, without `..` where a root is served.
    path: Vec<u8>,
    opened: Mutex<Option<Arc<OwnedFd>>>,
}

impl Aside {
    pub(crate) fn new(base: Base, path: Vec<u8>) -> Aside {
        Aside { base, path, opened: Mutex::new(None) }
    }

    /// Its path, as a path of the request.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The directory, made if it does not exist.
    ///
    /// # Errors
    /// `Destination`: it cannot be made or opened.
    pub(crate) fn open(&self) -> Result<Arc<OwnedFd>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(directory) = &*opened {
            return Ok(Arc::clone(directory));
        }
        make_above(&self.base, &[&self.path[..], b"/."].concat())?;
        let directory = self.base.open_place(&self.path, HOLD_DIRECTORY).map_err(|errno| {
            let message = crate::beneath::sentence("use for --backup-dir", &self.path, errno);
            Error::new(ErrorKind::Destination, message)
        })?;
        Ok(Arc::clone(opened.insert(Arc::new(directory))))
    }

    /// The directory for what lies in `parent` below `top`, made with the modes and owners that those there
    /// have.
    pub(super) fn directory_of(&self, top: &OwnedFd, parent: &[u8]) -> std::result::Result<OwnedFd, Errno> {
        let root = self.open().map_err(|_| Errno::NOENT)?;
        let mut here = open_beneath(&*root, b"", DIRECTORY, Mode::empty(), Links::Refuse)?;
        let mut there = open_beneath(top, b"", HOLD_DIRECTORY, Mode::empty(), Links::Refuse).ok();
        for name in parent.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            there = there.and_then(|it| {
                open_beneath(&it, name, HOLD_DIRECTORY | OFlags::NOFOLLOW, Mode::empty(), Links::Refuse).ok()
            });
            // Without one to take after, it gets what its parent gives.
            let mode = Mode::from_raw_mode(if there.is_some() { 0o700 } else { 0o777 });
            let is_new = match at::make_directory(&here, Component::new(name)?, mode) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(errno),
            };
            let next = open_beneath(&here, name, DIRECTORY, Mode::empty(), Links::Refuse)?;
            if is_new && let Some(stat) = there.as_ref().map(fstat).transpose()? {
                fchmod(&next, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
                if geteuid().is_root() {
                    own(next.as_fd(), &stat)?;
                }
            }
            here = next;
        }
        Ok(here)
    }
}

fn own(file: std::os::fd::BorrowedFd<'_>, stat: &rustix::fs::Stat) -> std::result::Result<(), Errno> {
    use rustix::fs::{Gid, Uid};
    at::set_owner(file, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))
}

/// Makes a copy of what is held where no name of the same file can be: on another file system.
pub(super) fn copy(held: &OwnedFd, to: &OwnedFd, name: Component<'_>) -> std::result::Result<(), Errno> {
    let stat = fstat(held)?;
    match kind(&stat) {
        FileType::RegularFile => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let new = open_beneath(to, name.as_bytes(), flags, Mode::from_raw_mode(0o600), Links::Refuse)?;
            let old = at::reopen(held, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
            let (mut old, mut new) = (std::fs::File::from(old), std::fs::File::from(new));
            let copied = std::io::copy(&mut old, &mut new);
            let done =
                copied.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)).and_then(|_| {
                    if geteuid().is_root() {
                        own(new.as_fd(), &stat)?;
                    }
                    fchmod(&new, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
                    futimens(&new, &timestamps(meta(&stat)))
                });
            if done.is_err() {
                // The first failure is the one that is reported.
                let _ = at::unlink(to, name);
            }
            done
        }
        FileType::Symlink => at::symlink(&at::target_of_held(held)?, to, name),
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => {
            let mode = Mode::from_raw_mode(0o600);
            at::make_node(to, name, kind(&stat), mode, stat.st_rdev)?;
            let done = dress_node(to, name, &stat);
            if done.is_err() {
                // The first failure is the one that is reported.
                let _ = at::unlink(to, name);
            }
            done
        }
        _ => Err(Errno::XDEV),
    }
}

/// Gives a fifo, socket or device that was made the owner, mode and time of another one.
fn dress_node(to: &OwnedFd, name: Component<'_>, stat: &rustix::fs::Stat) -> std::result::Result<(), Errno> {
    let made = at::hold(to, name)?;
    let is_it = fstat(&made).map(|found| (kind(&found), found.st_rdev));
    if is_it != Ok((kind(stat), stat.st_rdev)) {
        return Err(Errno::STALE);
    }
    let node = Handle::Held(made.as_fd());
    if geteuid().is_root() {
        node.set_owner(Some(stat.st_uid), Some(stat.st_gid))?;
    }
    node.set_mode(stat.st_mode & 0o7777)?;
    node.set_times(&timestamps(meta(stat)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::backups::Backups;
    use fobs_model::budget::MemoryBudget;

    fn held(path: &std::path::Path) -> OwnedFd {
        OwnedFd::from(fs::File::open(path).expect("own directory"))
    }

    #[test]
    fn backups_lie_under_the_paths_of_their_files_and_nowhere_else() {
        let place = tempfile::tempdir().expect("a directory");
        let top = place.path();
        for path in ["root/data/d/e", "root/data/out", "outside"] {
            fs::create_dir_all(top.join(path)).expect("a directory");
        }
        fs::set_permissions(top.join("root/data/d"), fs::Permissions::from_mode(0o750)).expect("our own");
        fs::write(top.join("root/data/d/e/file"), "old").expect("a file");
        fs::write(top.join("root/data/out/file"), "old").expect("a file");
        let base = Base::Beneath { root: held(&top.join("root")), links: Links::Refuse };
        let aside = Arc::new(Aside::new(base, b"kept".to_vec()));
        let data = Arc::new(held(&top.join("root/data")));
        let backups = Backups::aside(None, Arc::clone(&aside), data, &MemoryBudget::default());
        let name = Component::new(b"file").expect("a name");
        let keep = |path: &str| {
            let directory = held(&top.join("root/data").join(path));
            backups.keep(format!("{path}/file").as_bytes(), &directory, name, |_| false)
        };
        assert!(!top.join("root/kept").exists(), "it is made with the first backup");
        keep("d/e").expect("a backup");
        keep("d/e").expect("in place of the one before");
        assert_eq!(fs::read(top.join("root/kept/d/e/file")).expect("a backup"), b"old");
        let mode = fs::metadata(top.join("root/kept/d")).expect("a directory").mode();
        assert_eq!(mode & 0o7777, 0o750);
        // A directory that is reached by a link at the destination has none to take after.
        symlink("d", top.join("root/data/l")).expect("a link");
        fs::set_permissions(top.join("root/kept"), fs::Permissions::from_mode(0o2750)).expect("our own");
        keep("l/e").expect("a backup");
        fs::create_dir(top.join("root/kept/by hand")).expect("a directory");
        let mode = |name: &str| fs::metadata(top.join("root/kept").join(name)).expect("a directory").mode();
        assert_eq!(mode("l"), mode("by hand"));
        // Somebody puts a link into the directory of backups.
        symlink(top.join("outside"), top.join("root/kept/out")).expect("a link");
        keep("out").expect_err("it leads out");
        let directory = held(&top.join("root/data/out"));
        backups.take(b"out/file", &directory, name).expect_err("it leads out");
        assert_eq!(fs::read_dir(top.join("outside")).expect("a directory").count(), 0);
        assert!(top.join("root/data/out/file").exists());
    }

    #[test]
    fn a_directory_of_backups_lies_below_the_root() {
        let place = tempfile::tempdir().expect("a directory");
        fs::create_dir(place.path().join("in")).expect("a directory");
        let base = Base::Beneath { root: held(place.path()), links: Links::Refuse };
        let path = |directory: &[u8]| crate::basis::place_of(&base, b"in", directory, "--backup-dir");
        assert_eq!(path(b"../old/./x").expect("it is inside"), b"old/x");
        assert_eq!(path(b"/old").expect("the root is that of the server"), b"/old");
        for bad in [&b"../../old"[..], b"/../old", b"x/../../../old"] {
            assert_eq!(path(bad).expect_err("it is outside").kind, ErrorKind::Denied);
        }
    }
}
