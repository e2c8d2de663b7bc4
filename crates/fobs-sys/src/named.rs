//! Paths that this process's own user names: files, directories, logs, keys, lists. All are opened here, so
//! that no third user decides where they lead: a symbolic link on the way is followed only if it belongs to
//! root or to this user.
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
use std::sync::OnceLock;

use rustix::fs::{
    self, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, fstatfs, readlinkat, statat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Most links that are followed, as the kernel's limit (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// Most components that wait, those of links included: a path has at most 4096 bytes.
const COMPONENTS_MAX: usize = 4096 * (LINKS_MAX + 1);
/// File system type of `/proc`, whose links are the kernel's own (`linux/magic.h`).
const PROC_MAGIC: fs::FsWord = 0x9fa0;
/// For a directory on the way.
const ON_THE_WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// The mode of a file that is nobody's secret, of which the umask takes.
pub const USUAL: u32 = 0o666;

/// Whose links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkOwners {
    /// Root's and this user's.
    Trusted,
    /// Everyone's (`--insecure-links`).
    Anyone,
}

/// What this process was started with.
static OWNERS: OnceLock<LinkOwners> = OnceLock::new();

/// Has this process follow the links of these owners, once and for its life: before it opens anything.
pub fn follow_links_of(owners: LinkOwners) {
    OWNERS.get_or_init(|| owners);
}

/// Opens a path relative to the working directory.
///
/// # Errors
/// `LOOP` for a link of a third user, beside those of the kernel.
pub fn open_at(path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let path: &[u8] = if path.is_empty() { b"." } else { path };
    if OWNERS.get() == Some(&LinkOwners::Anyone) {
        return fs::openat(CWD, path, flags, mode);
    }
    match fs::openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS) {
        // There is a link, or no such call (before Linux 5.6, and in some containers): step by step.
        Err(Errno::LOOP | Errno::NOSYS | Errno::PERM) => Way::of(path)?.open(flags, mode),
        opened => opened,
    }
}

/// Opens a file to read it.
///
/// # Errors
/// Those of the kernel, and one for a link of a third user.
pub fn open(path: &Path) -> io::Result<File> {
    opened(path, OFlags::RDONLY, Mode::empty())
}

/// Makes a file or empties it, to write it. The umask takes from the mode, here and below.
///
/// # Errors
/// As [`open`].
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    opened(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, Mode::from_raw_mode(mode))
}

/// Opens a file, or makes it, to write behind what it has.
///
/// # Errors
/// As [`open`].
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    opened(path, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND, Mode::from_raw_mode(mode))
}

/// Likewise, to read it too.
///
/// # Errors
/// As [`open`].
pub fn read_and_append(path: &Path, mode: u32) -> io::Result<File> {
    opened(path, OFlags::RDWR | OFlags::CREATE | OFlags::APPEND, Mode::from_raw_mode(mode))
}

/// Makes a file that must not be there, to write it.
///
/// # Errors
/// As [`open`].
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    opened(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(mode))
}

/// Opens a directory.
///
/// # Errors
/// As [`open`].
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    opened(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).map(OwnedFd::from)
}

fn opened(path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
    match open_at(path.as_os_str().as_bytes(), flags, mode) {
        Ok(file) => Ok(file.into()),
        Err(Errno::LOOP) => Err(io::Error::other(
            "it leads through a symbolic link of another user; name the place that the link leads to",
        )),
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
        let directory = fs::openat(CWD, start, ON_THE_WAY | OFlags::CLOEXEC, Mode::empty())?;
        let mut way = Way { directory, rest: VecDeque::new(), links: 0 };
        way.prepend(path)?;
        Ok(way)
    }

    /// Puts the components of a path before those that are left.
    fn prepend(&mut self, path: &[u8]) -> Result<(), Errno> {
        if path.ends_with(b"/") {
            // What the path names is a directory.
            self.rest.push_front(b".".to_vec());
        }
        for component in path.split(|&byte| byte == b'/').rev().filter(|component| !component.is_empty()) {
            self.rest.push_front(component.to_vec());
        }
        if self.rest.len() > COMPONENTS_MAX { Err(Errno::NAMETOOLONG) } else { Ok(()) }
    }

    fn open(mut self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        while let Some(name) = self.rest.pop_front() {
            let is_last = self.rest.is_empty();
            match statat(&self.directory, &*name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if is_link(&stat) => {
                    if is_last && fstatfs(&self.directory)?.f_type == PROC_MAGIC {
                        return fs::openat(&self.directory, &*name, flags, Mode::empty());
                    }
                    self.follow(&name, stat.st_uid)?;
                }
                // What is made, or an error that the call names.
                _ if is_last => return self.one(&name, flags, mode),
                Ok(_) => self.directory = self.one(&name, ON_THE_WAY | OFlags::CLOEXEC, Mode::empty())?,
                Err(errno) => return Err(errno),
            }
        }
        // A path that ends in a link to nothing but slashes.
        self.one(b".", flags, mode)
    }

    /// Opens one component that is no link.
    fn one(&self, name: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let file = fs::openat(&self.directory, name, flags | OFlags::NOFOLLOW, mode)?;
        // One that has become a link meanwhile: only a path descriptor opens it.
        if flags.contains(OFlags::PATH) && is_link(&fstat(&file)?) { Err(Errno::LOOP) } else { Ok(file) }
    }

    fn follow(&mut self, link: &[u8], owner: u32) -> Result<(), Errno> {
        let user = geteuid();
        let owns_its_directory = || fstat(self.directory.as_fd()).is_ok_and(|stat| stat.st_uid == owner);
        let is_trusted = owner == 0 || owner == user.as_raw() || (!user.is_root() && owns_its_directory());
        if !is_trusted || self.links == LINKS_MAX {
            return Err(Errno::LOOP);
        }
        self.links += 1;
        // What it is by now: the owner is looked at again on what is read.
        let held = fs::openat(
            &self.directory,
            link,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        if fstat(&held)?.st_uid != owner {
            return Err(Errno::LOOP);
        }
        let target = readlinkat(&held, c"", Vec::new())?.into_bytes();
        if target.starts_with(b"/") {
            self.directory = fs::openat(CWD, c"/", ON_THE_WAY | OFlags::CLOEXEC, Mode::empty())?;
        }
        self.prepend(&target)
    }
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::{lchown, symlink};

    fn read(path: &Path) -> Result<String, Errno> {
        let file = open_at(path.as_os_str().as_bytes(), OFlags::RDONLY, Mode::empty())?;
        let mut text = String::new();
        File::from(file).read_to_string(&mut text).expect("it is text");
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
        symlink("/", at("to-top")).expect("a link");
        for path in ["d/e/f", "to-d/e/f", "to-e/f", "d/to-f", "to-d/../d/./e//f"] {
            assert_eq!(read(&at(path)).as_deref(), Ok("text"), "{path}");
        }
        assert_eq!(read(&at("loop")), Err(Errno::LOOP));
        assert_eq!(read(&at("to-d/absent")), Err(Errno::NOENT));
        assert_eq!(read(&at("d/to-f/")), Err(Errno::NOTDIR));
        create_new(&at("to-d/new"), 0o600).expect("it is not there");
        assert!(at("d/new").exists() && create_new(&at("to-d/new"), 0o600).is_err());
        open_directory(&at("to-d/")).expect("a directory");
        open_directory(&at("to-top")).expect("a directory");
        assert!(open_at(b"/dev/stdin", OFlags::PATH, Mode::empty()).is_ok(), "the kernel's own links");
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
        for (link, target) in [("file", "d/f"), ("directory", "d"), ("none", "d/none")] {
            symlink(target, at(link)).expect("a link");
            lchown(at(link), Some(65_534), Some(65_534)).expect("root may");
        }
        symlink("file", at("own-to-other")).expect("a link");
        for path in ["file", "directory/f", "own-to-other"] {
            assert_eq!(read(&at(path)), Err(Errno::LOOP), "{path}");
        }
        let no_directory = open_directory(&at("directory")).map(|_| ());
        let refusals =
            [create(&at("file"), USUAL).map(|_| ()), append(&at("file"), USUAL).map(|_| ()), no_directory];
        for refused in refusals.map(|opened| opened.expect_err("it belongs to another user")) {
            assert!(refused.to_string().contains("another user"), "{refused}");
        }
        for name in ["none", "directory/new"] {
            append(&at(name), USUAL).expect_err("nothing is made there");
        }
        assert_eq!(std::fs::read(at("d/f")).expect("it is there"), b"secret");
        assert_eq!(std::fs::read_dir(at("d")).expect("it is there").count(), 1);
    }
}
