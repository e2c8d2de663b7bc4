//! Paths without `openat2`, which older kernels lack and some containers refuse: one component at a time, and
//! no link is left to the kernel. Directories on the way are held open, so that a `..` goes back to where the
//! walk came from, whatever is renamed meanwhile.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Links, one, target_on_disk};
use crate::stat::kind;

/// Most links that are followed, as the kernel's limit (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// Most components, links' included: a path has at most 4096 bytes.
const STEPS_MAX: usize = 4096 * (LINKS_MAX + 1);

struct Walk<'a> {
    start: BorrowedFd<'a>,
    follows: Links,
    /// Directories entered, from the start down.
    held: Vec<OwnedFd>,
    /// Components that are left, the next one last.
    rest: Vec<Vec<u8>>,
    links: usize,
}

/// Opens a path as `openat2` would, with the errors that it would give.
pub(super) fn open(
    start: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> Result<OwnedFd, Errno> {
    let mut walk = Walk { start, follows: links, held: Vec::new(), rest: Vec::new(), links: 0 };
    walk.prepend(path)?;
    walk.go(flags, mode)
}

impl Walk<'_> {
    fn at(&self) -> BorrowedFd<'_> {
        self.held.last().map_or(self.start, AsFd::as_fd)
    }

    /// A path, or a link's target, comes before what is left.
    fn prepend(&mut self, path: &[u8]) -> Result<(), Errno> {
        if path.starts_with(b"/") {
            return Err(Errno::XDEV);
        }
        let mut parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
        // What a slash or a dot follows is entered, and is not the last component.
        let enters = parts.last().is_some_and(|last| matches!(*last, b"" | b"."));
        parts.retain(|part| !matches!(*part, b"" | b"."));
        if enters && self.rest.is_empty() {
            parts.push(b".");
        }
        self.rest.extend(parts.into_iter().rev().map(<[u8]>::to_vec));
        if self.rest.len() > STEPS_MAX { Err(Errno::NAMETOOLONG) } else { Ok(()) }
    }

    fn up(&mut self) -> Result<(), Errno> {
        self.held.pop().map(drop).ok_or(Errno::XDEV)
    }

    /// Takes the target of a link that was opened.
    fn follow(&mut self, link: &OwnedFd) -> Result<(), Errno> {
        self.links += 1;
        if self.follows == Links::Refuse || self.links > LINKS_MAX {
            return Err(Errno::LOOP);
        }
        self.prepend(&target_on_disk(link)?)
    }

    fn go(mut self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        while let Some(name) = self.rest.pop() {
            if name == b"." {
                continue;
            }
            if name == b".." {
                self.up()?;
                continue;
            }
            if self.rest.is_empty() {
                match self.last(&name, flags, mode)? {
                    Some(file) => return Ok(file),
                    None => continue,
                }
            }
            let entry = one(self.at(), &name, OFlags::PATH, Mode::empty())?;
            match kind(&rustix::fs::fstat(&entry)?) {
                FileType::Directory => self.held.push(entry),
                FileType::Symlink => self.follow(&entry)?,
                _ => return Err(Errno::NOTDIR),
            }
        }
        // The directory where the walk stands.
        one(self.at(), b".", flags, mode)
    }

    /// Opens the last component; nothing if it is a link, which is followed.
    fn last(&mut self, name: &[u8], flags: OFlags, mode: Mode) -> Result<Option<OwnedFd>, Errno> {
        let of_the_link = flags.contains(OFlags::NOFOLLOW);
        let makes_new = flags.contains(OFlags::CREATE | OFlags::EXCL);
        if !of_the_link && !makes_new {
            match one(self.at(), name, OFlags::PATH, Mode::empty()) {
                Ok(entry) if kind(&rustix::fs::fstat(&entry)?) == FileType::Symlink => {
                    self.follow(&entry)?;
                    return Ok(None);
                }
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        let opened = one(self.at(), name, flags, mode)?;
        // A link that has come meanwhile: only a path descriptor opens one.
        let is_link = || Ok::<_, Errno>(kind(&rustix::fs::fstat(&opened)?) == FileType::Symlink);
        if !of_the_link && flags.contains(OFlags::PATH) && is_link()? {
            return Err(Errno::LOOP);
        }
        Ok(Some(opened))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Links, open_below, openat2_is_missing};
    use super::*;
    use proptest::prelude::*;
    use rustix::fs::{ResolveFlags, fstat, openat2};
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A tree with every kind of link.
    fn tree() -> tempfile::TempDir {
        let top = tempfile::tempdir().expect("a directory");
        let at = |name: &str| top.path().join(name);
        fs::create_dir_all(at("root/a/b/c")).expect("our own");
        fs::write(at("root/a/file"), "f").expect("our own");
        fs::write(at("secret"), "s").expect("our own");
        for (target, link) in [
            ("a/b", "root/inside"),
            ("../a", "root/a/up"),
            ("../../secret", "root/a/out"),
            ("../secret", "root/out"),
            ("/etc", "root/absolute"),
            ("loop", "root/loop"),
            ("file", "root/a/link"),
            ("a/b/", "root/slash"),
            ("nowhere", "root/dangling"),
            (".", "root/dot"),
            ("..", "root/a/b/parent"),
        ] {
            symlink(target, at(link)).expect("our own");
        }
        top
    }

    fn identity(opened: Result<OwnedFd, Errno>) -> Result<(u64, u64), Errno> {
        let stat = fstat(opened?)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    fn part() -> impl Strategy<Value = &'static str> {
        prop::sample::select(&[
            "a", "b", "c", "file", "link", "up", "out", "inside", "absolute", "loop", "slash", "dangling",
            "dot", "parent", "..", ".", "", "none",
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn steps_lead_where_the_kernel_leads(
            parts in prop::collection::vec(part(), 0..6),
            inside in any::<bool>(),
            flags in prop::sample::select(vec![
                OFlags::PATH,
                OFlags::PATH | OFlags::NOFOLLOW,
                OFlags::RDONLY,
                OFlags::RDONLY | OFlags::DIRECTORY,
                OFlags::RDONLY | OFlags::NOFOLLOW,
            ]),
        ) {
            thread_local!(static TREE: tempfile::TempDir = tree());
            TREE.with(|top| {
                let root = fs::File::open(top.path().join("root")).expect("our own");
                let path = parts.join("/");
                let (links, mut resolve) = (
                    if inside { Links::Inside } else { Links::Refuse },
                    ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
                );
                if !inside {
                    resolve |= ResolveFlags::NO_SYMLINKS;
                }
                let kernel_path = if path.is_empty() { "." } else { &path };
                let theirs = openat2(&root, kernel_path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
                let ours = open(root.as_fd(), path.as_bytes(), flags, Mode::empty(), links);
                let (theirs, ours) = (identity(theirs), identity(ours));
                match (theirs, ours) {
                    (Ok(theirs), ours) => assert_eq!(ours, Ok(theirs), "{path:?} {flags:?} {links:?}"),
                    (Err(_), ours) => assert!(ours.is_err(), "{path:?} {flags:?} {links:?}: {theirs:?}, {ours:?}"),
                }
            });
        }
    }

    #[test]
    fn nothing_is_made_through_a_link() {
        let top = tree();
        let root = fs::File::open(top.path().join("root")).expect("our own");
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let make =
            |path: &str, links| open(root.as_fd(), path.as_bytes(), new, Mode::from_raw_mode(0o600), links);
        make("a/new", Links::Refuse).expect("a new name");
        assert_eq!(make("a/new", Links::Refuse).map(drop), Err(Errno::EXIST));
        assert_eq!(make("dangling", Links::Inside).map(drop), Err(Errno::EXIST));
        assert_eq!(make("inside/new", Links::Refuse).map(drop), Err(Errno::LOOP));
        make("inside/new", Links::Inside).expect("it stays inside");
        assert!(!top.path().join("root/nowhere").exists());
    }

    #[test]
    fn a_kernel_that_has_the_call_is_used() {
        assert!(!openat2_is_missing(Errno::PERM), "the tests' own kernel has it");
        let root = fs::File::open(tree().path().join("root")).expect("our own");
        assert_eq!(
            open_below(root.as_fd(), b"../x", OFlags::PATH, Mode::empty(), Links::Inside).map(drop),
            Err(Errno::XDEV)
        );
    }
}
