//! Paths at which this process's own user has something written, resolved so that no third user decides where
//! that is: a symbolic link on the way is followed only if it belongs to root or to this user.
//!
//! A plain user also follows a link whose owner owns its directory, as the kernel's `protected_symlinks`
//! does: a colleague's own directory is as trustworthy as its owner. Root does not, since the owner of a
//! directory could otherwise choose among all files of the host.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, fstatfs};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::at;
use super::charset::convert_names;
use super::stat::kind;
use fobs_model::name::Component;

/// Most links that are followed, as the kernel's limit (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// File system type of `/proc`, whose links are the kernel's own (`linux/magic.h`).
const PROC_MAGIC: rustix::fs::FsWord = 0x9fa0;
/// For a directory on the way.
const ON_THE_WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// Opens a path relative to the working directory.
///
/// # Errors
/// `LOOP` for a link of a third user, beside those of the kernel.
pub(super) fn open_trusted(path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    // It is this host's.
    let _as_they_are = convert_names(None);
    match at::open_without_links(rustix::fs::CWD, path, flags, mode) {
        // There is a link: the way is gone step by step.
        Err(Errno::LOOP) => Way::of(path)?.open(flags, mode),
        opened => opened,
    }
}

/// Opens a file that this process's own user named, to read it: not through a symbolic link that belongs to a
/// third user.
///
/// # Errors
/// Those of the kernel, and one for such a link.
pub fn open_named(path: &Path) -> io::Result<File> {
    opened(open_trusted(path.as_os_str().as_bytes(), OFlags::RDONLY, Mode::empty()))
}

/// Likewise makes a file or empties it, to write it.
///
/// # Errors
/// As [`open_named`].
pub fn create_named(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    opened(open_trusted(path.as_os_str().as_bytes(), flags, Mode::from_raw_mode(0o666)))
}

fn opened(file: Result<OwnedFd, Errno>) -> io::Result<File> {
    match file {
        Ok(file) => Ok(file.into()),
        Err(Errno::LOOP) => Err(io::Error::other("it leads through a symbolic link of another user")),
        Err(errno) => Err(errno.into()),
    }
}

/// A path that is resolved, as far as it is.
struct Way {
    directory: OwnedFd,
    rest: VecDeque<Vec<u8>>,
    links: usize,
}

impl Way {
    fn of(path: &[u8]) -> Result<Way, Errno> {
        let start: &[u8] = if path.starts_with(b"/") { b"/" } else { b"." };
        let directory = at::open_without_links(rustix::fs::CWD, start, ON_THE_WAY, Mode::empty())?;
        let mut way = Way { directory, rest: VecDeque::new(), links: 0 };
        way.prepend(path);
        Ok(way)
    }

    /// Puts the components of a path before those that are left.
    fn prepend(&mut self, path: &[u8]) {
        if path.ends_with(b"/") {
            // What the path names is a directory.
            self.rest.push_front(b".".to_vec());
        }
        for component in path.split(|&byte| byte == b'/').rev().filter(|component| !component.is_empty()) {
            self.rest.push_front(component.to_vec());
        }
    }

    fn open(mut self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        while let Some(name) = self.rest.pop_front() {
            let is_last = self.rest.is_empty();
            let Ok(component) = Component::new(&name) else {
                // `.` and `..`, which are no links.
                let flags = if is_last { flags } else { ON_THE_WAY };
                self.directory = at::open_without_links(&self.directory, &name, flags, mode)?;
                continue;
            };
            match at::stat(&self.directory, component) {
                Ok(stat) if kind(&stat) == FileType::Symlink => {
                    if is_last && fstatfs(&self.directory)?.f_type == PROC_MAGIC {
                        return at::open_ambient_in(&self.directory, &name, flags);
                    }
                    self.follow(component, stat.st_uid)?;
                }
                // What is made, or an error that the call names.
                _ if is_last => return at::open_without_links(&self.directory, &name, flags, mode),
                Ok(_) => {
                    self.directory =
                        at::open_without_links(&self.directory, &name, ON_THE_WAY, Mode::empty())?;
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(self.directory)
    }

    fn follow(&mut self, link: Component<'_>, owner: u32) -> Result<(), Errno> {
        let user = geteuid();
        let owns_its_directory = || fstat(self.directory.as_fd()).is_ok_and(|stat| stat.st_uid == owner);
        let is_trusted = owner == 0 || owner == user.as_raw() || (!user.is_root() && owns_its_directory());
        if !is_trusted || self.links == LINKS_MAX {
            return Err(Errno::LOOP);
        }
        self.links += 1;
        let target = at::read_link(&self.directory, link)?;
        if target.starts_with(b"/") {
            self.directory = at::open_without_links(rustix::fs::CWD, b"/", ON_THE_WAY, Mode::empty())?;
        }
        self.prepend(&target);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::{lchown, symlink};

    fn read(path: &Path) -> Result<String, Errno> {
        let file = open_trusted(path.as_os_str().as_bytes(), OFlags::RDONLY, Mode::empty())?;
        let mut text = String::new();
        std::fs::File::from(file).read_to_string(&mut text).expect("it is text");
        Ok(text)
    }

    #[test]
    fn own_links_are_followed_wherever_they_stand() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |path: &str| top.path().join(path);
        std::fs::create_dir_all(at("d/e")).expect("directories");
        std::fs::write(at("d/e/f"), "text").expect("a file");
        symlink("d", at("to-d")).expect("a link");
        symlink(at("d/e"), at("to-e")).expect("a link");
        symlink("../to-d/e/f", at("d/to-f")).expect("a link");
        symlink("loop", at("loop")).expect("a link");
        for path in ["d/e/f", "to-d/e/f", "to-e/f", "d/to-f", "to-d/../d/./e//f"] {
            assert_eq!(read(&at(path)).as_deref(), Ok("text"), "{path}");
        }
        assert_eq!(read(&at("loop")), Err(Errno::LOOP));
        assert_eq!(read(&at("to-d/absent")), Err(Errno::NOENT));
        assert_eq!(read(&at("d/to-f/")), Err(Errno::NOTDIR));
        let made = open_trusted(
            at("to-d/new").as_os_str().as_bytes(),
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
            Mode::RUSR,
        );
        assert!(made.is_ok() && at("d/new").exists());
        let directory = open_trusted(at("to-d/").as_os_str().as_bytes(), ON_THE_WAY, Mode::empty());
        assert!(directory.is_ok());
        assert!(open_trusted(b"/dev/stdin", OFlags::PATH, Mode::empty()).is_ok(), "the kernel's own links");
    }

    #[test]
    fn links_of_a_third_user_are_not_followed_by_root() {
        if !geteuid().is_root() {
            println!("SKIPPED: only root can give a link to another user");
            return;
        }
        let top = tempfile::tempdir().expect("a directory");
        let at = |path: &str| top.path().join(path);
        std::fs::create_dir(at("d")).expect("a directory");
        std::fs::write(at("d/f"), "secret").expect("a file");
        for (link, target) in [("file", "d/f"), ("directory", "d")] {
            symlink(target, at(link)).expect("a link");
            lchown(at(link), Some(65_534), Some(65_534)).expect("root may");
        }
        symlink("file", at("own-to-other")).expect("a link");
        for path in ["file", "directory/f", "own-to-other"] {
            assert_eq!(read(&at(path)), Err(Errno::LOOP), "{path}");
        }
        let refused = create_named(&at("file")).expect_err("it belongs to another user");
        assert!(refused.to_string().contains("another user"), "{refused}");
        assert_eq!(std::fs::read(at("d/f")).expect("it is there"), b"secret");
    }
}
