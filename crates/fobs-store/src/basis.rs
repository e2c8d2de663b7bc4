//! `--link-dest` and its kin: directories with earlier copies, whose unchanged files get one more name at the
//! destination instead of being sent, or are left out, or are what a delta is made of.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use super::beneath::{Base, HOLD_DIRECTORY, sentence};
use super::identity::Identity;
use super::view::View;
use fobs_filter::path;
use fobs_filter::path::show;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::name::ComponentBuf;
use fobs_model::options::sync::BASES_MAX;

/// Most bytes of links that wait for the end of their directory; past it entries are sent.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// The options that name such directories, for messages.
const OPTIONS: &str = "--link-dest, --compare-dest or --copy-dest";

/// A directory of one of these options.
#[derive(Debug, Clone)]
pub struct Basis {
    /// Its path as a path of the request, without `..` where a root is served.
    pub path: Vec<u8>,
    opened: Result<Found>,
}

/// What a path of these options leads to.
#[derive(Debug, Clone)]
enum Found {
    Directory(View),
    /// No directory: nothing is compared with it.
    Nothing,
    /// Through a link of a third user. As in rsync nothing is compared with it, and that is said.
    OthersLink,
}

impl Basis {
    /// What is in it; `None` if there is no such directory. For a caller that may know.
    ///
    /// # Errors
    /// `Destination` if it cannot be opened.
    pub(super) fn view(&self) -> Result<Option<View>> {
        self.opened.clone().map(|found| match found {
            Found::Directory(view) => Some(view),
            Found::Nothing | Found::OthersLink => None,
        })
    }

    /// That it can be used, or is not there. For a caller that may know.
    ///
    /// # Errors
    /// `Destination` if it cannot be opened.
    pub fn check(&self) -> Result<()> {
        self.opened.as_ref().map(|_| ()).map_err(Error::clone)
    }

    /// What is said of it where it is not used. For a caller that may know.
    pub(super) fn unused(&self) -> Option<&'static str> {
        match &self.opened {
            Ok(Found::Nothing) => Some("does not exist at the destination, or is no directory"),
            Ok(Found::OthersLink) => {
                Some("leads through a symbolic link of another user, which is not followed")
            }
            Ok(Found::Directory(_)) | Err(_) => None,
        }
    }
}

/// Opens directories. A relative one is relative to the destination's directory `into`; a single source has
/// the name `name` in each.
///
/// # Errors
/// `Usage` for too many, `Denied` for one outside the root that is served. Whether one exists is said later,
/// to those who have the right to its path.
pub(super) fn open_all(
    base: &Base,
    into: &[u8],
    name: Option<&[u8]>,
    directories: &[Vec<u8>],
) -> Result<Vec<Basis>> {
    if directories.len() > BASES_MAX {
        let message = format!("{OPTIONS} name more than {BASES_MAX} directories: give fewer");
        return Err(Error::new(ErrorKind::Usage, message));
    }
    directories.iter().map(|directory| open(base, into, name, directory)).collect()
}

/// The path of a directory that an option names, relative to `into`: without `..` where a root is served.
///
/// # Errors
/// `Denied` for one outside that root.
pub(super) fn place_of(base: &Base, into: &[u8], directory: &[u8], option: &str) -> Result<Vec<u8>> {
    let joined = joined(into, directory);
    match base {
        // The rights of a key are by name, so the name says where it is.
        Base::Beneath { .. } => without_dots(&joined).ok_or_else(|| outside(directory, option)),
        Base::Ambient => Ok(joined),
    }
}

fn joined(into: &[u8], directory: &[u8]) -> Vec<u8> {
    if directory.starts_with(b"/") || into.is_empty() {
        directory.to_vec()
    } else {
        [into, b"/", directory].concat()
    }
}

fn outside(directory: &[u8], option: &str) -> Error {
    let shown = show(directory);
    let message = format!("cannot use '{shown}' for {option}: it leads outside the directory that is served");
    Error::new(ErrorKind::Denied, message)
}

fn open(base: &Base, into: &[u8], name: Option<&[u8]>, directory: &[u8]) -> Result<Basis> {
    let outside = || outside(directory, OPTIONS);
    let joined = joined(into, directory);
    let plain = without_dots(&joined);
    let (path, opened) = match base {
        // The rights of a key are by name, so the name says where it is.
        Base::Beneath { .. } => {
            let plain = plain.ok_or_else(outside)?;
            let opened = base.open_place(&plain, HOLD_DIRECTORY);
            (plain, opened)
        }
        Base::Ambient => {
            let opened = match (base.open_place(&joined, HOLD_DIRECTORY), plain) {
                // Of a dry run, whose destination need not exist.
                (Err(Errno::NOENT), Some(plain)) => base.open_place(&plain, HOLD_DIRECTORY),
                (opened, _) => opened,
            };
            (joined, opened)
        }
    };
    let opened = match opened {
        Ok(directory) => Ok(Found::Directory(View::new(Arc::new(directory), name.map(<[u8]>::to_vec)))),
        // Something else of that name has nothing in it either.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(Found::Nothing),
        Err(Errno::LOOP) if matches!(base, Base::Ambient) => Ok(Found::OthersLink),
        Err(Errno::XDEV) => return Err(outside()),
        Err(errno) => Err(Error::new(ErrorKind::Destination, sentence("compare with", &path, errno))),
    };
    Ok(Basis { path, opened })
}

/// A path without `.`, `..` and empty components; `None` if it leads above its beginning.
fn without_dots(path: &[u8]) -> Option<Vec<u8>> {
    let mut components: Vec<&[u8]> = Vec::new();
    for component in path.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => drop(components.pop()?),
            name => components.push(name),
        }
    }
    let start: &[u8] = if path.starts_with(b"/") { b"/" } else { b"" };
    Some([start, &components.join(&b'/')].concat())
}

/// An entry that is to get a name at the destination.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// Its path within the transfer.
    pub(super) path: Vec<u8>,
    /// The directory in which it is now, and its name there.
    pub(super) directory: Arc<OwnedFd>,
    pub(super) name: ComponentBuf,
    /// What it was when it was compared.
    pub(super) identity: Identity,
}

/// Links that wait until their directory is there: what compares entries is ahead of what stores them.
#[derive(Debug, Clone)]
pub struct Links(Arc<Mutex<Waiting>>);

#[derive(Debug)]
struct Waiting {
    by_directory: HashMap<Vec<u8>, Vec<Link>>,
    bytes: Charge,
}

impl Links {
    pub(super) fn within(budget: &MemoryBudget) -> Links {
        Links(Arc::new(Mutex::new(Waiting {
            by_directory: HashMap::new(),
            bytes: budget.charge(Keeps::Links),
        })))
    }

    /// Takes a link; false if there is no room for it.
    pub(super) fn add(&self, link: Link) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = link.bytes();
        if waiting.bytes.bytes() + bytes > WAITING_BYTES_MAX || waiting.bytes.grow(bytes).is_err() {
            return false;
        }
        waiting.by_directory.entry(path::split(&link.path).0.to_vec()).or_default().push(link);
        true
    }

    /// Hands out the links in a directory, which is complete.
    pub(super) fn take_in(&self, directory: &[u8]) -> Vec<Link> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let links = waiting.by_directory.remove(directory).unwrap_or_default();
        waiting.bytes.shrink(links.iter().map(Link::bytes).sum::<usize>());
        links
    }

    /// Hands out the link with this path.
    pub(super) fn take(&self, path: &[u8]) -> Option<Link> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let links = waiting.by_directory.get_mut(path::split(path).0)?;
        let at = links.iter().position(|link| link.path == path)?;
        let link = links.swap_remove(at);
        waiting.bytes.shrink(link.bytes());
        Some(link)
    }

    /// Hands out all that are left: those of sources that are no directories.
    pub(super) fn take_all(&self) -> Vec<Link> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.bytes.shrink(usize::MAX);
        waiting.by_directory.drain().flat_map(|(_, links)| links).collect()
    }
}

impl Link {
    fn bytes(&self) -> usize {
        // The path of its directory, too, which may have no other link; and what the tables add.
        2 * size_of::<Link>() + 2 * self.path.len() + self.name.as_bytes().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_resolved_by_name_and_do_not_leave_the_root() {
        for (path, plain) in [
            (&b"a/../b"[..], Some(&b"b"[..])),
            (b"/a/./b//../c/", Some(b"/a/c")),
            (b"a/..", Some(b"")),
            (b"..", None),
            (b"a/../../b", None),
            (b"/..", None),
        ] {
            assert_eq!(without_dots(path).as_deref(), plain, "{}", show(path));
        }
    }

    #[test]
    fn links_wait_by_directory_and_within_their_bound() {
        let directory = Arc::new(OwnedFd::from(std::fs::File::open("/").expect("the root")));
        let identity = Identity { size: 0, mtime_s: 0, mtime_ns: 0, inode: 0 };
        let link = |path: &[u8]| Link {
            path: path.to_vec(),
            directory: Arc::clone(&directory),
            name: ComponentBuf::new(b"n".to_vec()).expect("a name"),
            identity,
        };
        let links = Links::within(&MemoryBudget::default());
        for path in [&b"a"[..], b"d/a", b"d/b", b"d/e/a"] {
            assert!(links.add(link(path)));
        }
        let paths = |links: Vec<Link>| links.into_iter().map(|link| link.path).collect::<Vec<_>>();
        assert_eq!(links.take(b"d/b").map(|link| link.path), Some(b"d/b".to_vec()));
        assert!(links.take(b"d/b").is_none() && links.take(b"x/y").is_none());
        assert_eq!(paths(links.take_in(b"d")), [b"d/a"]);
        assert_eq!(links.take_all().len(), 2);
        let long = vec![b'p'; 1 << 20];
        let taken = (0..100).take_while(|_| links.add(link(&long))).count();
        assert!((30..=32).contains(&taken), "{taken}");
        links.take_all();
        assert!(links.add(link(&long)));
    }
}
