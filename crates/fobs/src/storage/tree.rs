//! The destination tree: directories, links and files, all opened below one directory.

use std::borrow::Cow;
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;

use super::beneath::{Links, open_inside, sentence};
use super::destination::HOLD_DIRECTORY;
use super::path::{self, show};
use super::record::Meta;
use super::temporary::{Keeping, Names, TemporaryFile, place_symlink, set_meta};
use super::walk::{means_contents, name_in_transfer};
use crate::error::{Error, ErrorKind};

/// Only the owner may access directories until they are complete.
const DIRECTORY_MODE: u32 = 0o700;

/// Why something was not stored.
#[derive(Debug)]
pub(super) enum Trouble {
    /// This path failed, the others go on. One sentence.
    Path(String),
    /// It is in a directory that failed, which has been reported.
    Skipped,
    /// The whole transfer failed.
    Transfer(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Transfer(error)
    }
}

pub(super) type Attempt<T> = Result<T, Trouble>;

/// A file under its temporary name.
pub(super) struct Placing {
    pub(super) file: TemporaryFile,
    /// Its last component there.
    pub(super) name: Vec<u8>,
}

/// The destination's tree.
pub(super) struct Tree {
    /// The directory that no path may leave.
    top: Arc<OwnedFd>,
    naming: Naming,
    keeping: Keeping,
    names: Names,
    /// First components that are accepted; empty accepts any.
    expected: Option<HashSet<Vec<u8>>>,
    /// The directory used last, with its path at the destination.
    held: Option<(Vec<u8>, Arc<OwnedFd>)>,
    /// Whether files and directories are fsynced.
    fsync: bool,
    /// The directory that was written last and is not fsynced yet.
    unsynced: Option<Arc<OwnedFd>>,
    /// The directories that have not ended, each below the one before: at most one per two bytes of path.
    levels: Vec<Level>,
}

/// How paths in the transfer map to paths at the destination.
enum Naming {
    /// Unchanged.
    Kept,
    /// The first component, which all have in common, becomes `name`.
    First { seen: Option<Vec<u8>>, name: Vec<u8> },
}

struct Level {
    path: Vec<u8>,
    state: LevelState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LevelState {
    Created,
    Existing,
    Skipped,
}

impl Tree {
    /// A tree below `top`; `name` is the new name of a single source.
    pub(super) fn new(top: OwnedFd, name: Option<Vec<u8>>, keeping: Keeping, fsync: bool) -> Tree {
        Tree {
            top: Arc::new(top),
            naming: name.map_or(Naming::Kept, |name| Naming::First { seen: None, name }),
            keeping,
            names: Names::new(),
            expected: None,
            held: None,
            fsync,
            unsynced: None,
            levels: Vec::new(),
        }
    }

    /// Refuses every name that these sources cannot contain.
    pub(super) fn expect_sources(&mut self, sources: &[Vec<u8>]) {
        let any_name = sources.iter().any(|source| means_contents(source));
        self.expected = (!any_name).then(|| sources.iter().map(|source| name_in_transfer(source)).collect());
    }

    /// A directory begins.
    pub(super) fn directory(&mut self, path: &[u8]) -> Attempt<()> {
        if self.levels.last().is_some_and(|outer| !path::is_inside(path, &outer.path)) {
            return Err(protocol("a directory begins outside the one that is open").into());
        }
        let made = self.check_skipped(path).and_then(|()| self.make_directory(path));
        let state = *made.as_ref().unwrap_or(&LevelState::Skipped);
        self.levels.push(Level { path: path.to_vec(), state });
        made.map(|_| ())
    }

    fn make_directory(&mut self, path: &[u8]) -> Attempt<LevelState> {
        let place = self.place(path)?.into_owned();
        let give_up = |message| Err(Trouble::Path(format!("{message}; what lies in it is left out")));
        if !place.is_empty() {
            let (parent, name) = path::split(&place);
            let made = self.hold(parent).and_then(|parent| {
                self.names_in(&parent)?;
                fs::mkdirat(parent, name, Mode::from_raw_mode(DIRECTORY_MODE))
            });
            match made {
                Ok(()) => return Ok(LevelState::Created),
                Err(Errno::EXIST) => {}
                Err(errno) => return give_up(sentence("make the directory", path, errno)),
            }
        }
        match self.hold(&place) {
            Ok(existing) => {
                self.make_writable(&existing);
                Ok(LevelState::Existing)
            }
            Err(Errno::NOTDIR) => {
                let shown = show(&place);
                let message = format!(
                    "cannot make the directory '{shown}': there is something else of that name; move it away"
                );
                match self.naming {
                    // The destination itself: nothing can be stored.
                    Naming::First { .. } if !place.contains(&b'/') => {
                        Err(Error::new(ErrorKind::Destination, message).into())
                    }
                    _ => give_up(message),
                }
            }
            Err(errno) => give_up(sentence("enter the directory", path, errno)),
        }
    }

    /// With `-p`, makes a directory writable that an earlier copy left read-only; its mode is set at its end.
    fn make_writable(&self, directory: &OwnedFd) {
        let Keeping::Exact = self.keeping else { return };
        let Ok(stat) = fs::fstat(directory) else { return };
        let mode = stat.st_mode & 0o7777;
        if mode & DIRECTORY_MODE != DIRECTORY_MODE {
            // If that fails, so do the writes in it, with a reason.
            let _ = open_self(directory)
                .and_then(|it| fs::fchmod(it, Mode::from_raw_mode(mode | DIRECTORY_MODE)));
        }
    }

    /// Ends the innermost directory.
    pub(super) fn directory_end(&mut self, path: &[u8], meta: Meta) -> Attempt<()> {
        let level = self.levels.pop().filter(|level| level.path == path);
        let Some(level) = level else {
            return Err(protocol("a directory ends that is not the one open").into());
        };
        let mode_now = match (level.state, self.keeping) {
            (LevelState::Skipped, _) => return Err(Trouble::Skipped),
            (LevelState::Existing, Keeping::Ordinary { .. }) => return Ok(()),
            // Not known, so it is always set.
            (LevelState::Existing, Keeping::Exact) => u32::MAX,
            (LevelState::Created, _) => DIRECTORY_MODE,
        };
        let place = self.place(path)?.into_owned();
        let keeping = self.keeping;
        self.hold(&place)
            .and_then(|directory| open_self(&directory))
            .and_then(|directory| set_meta(directory, mode_now, meta, keeping))
            .map_err(|errno| Trouble::Path(sentence("set the mode or time of", path, errno)))
    }

    /// Makes a symbolic link.
    pub(super) fn symlink(&mut self, path: &[u8], target: &[u8], meta: Meta) -> Attempt<()> {
        self.check_skipped(path)?;
        let place = self.place(path)?.into_owned();
        let (parent, name) = path::split(&place);
        self.hold(parent)
            .and_then(|parent| {
                self.names_in(&parent)?;
                place_symlink(&mut self.names, &parent, name, target, meta, self.keeping)
            })
            .map_err(|errno| Trouble::Path(sentence("make the symbolic link", path, errno)))
    }

    /// Makes a file under a temporary name.
    pub(super) fn create(&mut self, path: &[u8], size: u64) -> Attempt<Placing> {
        self.check_skipped(path)?;
        let place = self.place(path)?.into_owned();
        let (parent, name) = path::split(&place);
        self.hold(parent)
            .and_then(|parent| TemporaryFile::create(&mut self.names, parent, name, size))
            .map(|file| Placing { file, name: name.to_vec() })
            .map_err(|errno| Trouble::Path(sentence("write", path, errno)))
    }

    /// Fsyncs a file, and the directory written before if it is another one.
    pub(super) fn sync_file(&mut self, placing: &Placing, path: &[u8]) -> Attempt<()> {
        self.names_in(placing.file.directory())
            .and_then(|()| placing.file.sync())
            .map_err(|errno| Trouble::Path(sentence("have the device keep", path, errno)))
    }

    /// Records that `directory` is written; fsyncs the one written before if it is another one.
    fn names_in(&mut self, directory: &Arc<OwnedFd>) -> Result<(), Errno> {
        if !self.fsync || self.unsynced.as_ref().is_some_and(|last| Arc::ptr_eq(last, directory)) {
            return Ok(());
        }
        let synced = self.sync_names();
        self.unsynced = Some(Arc::clone(directory));
        synced
    }

    /// Fsyncs the directory that was written last.
    pub(super) fn sync_names(&mut self) -> Result<(), Errno> {
        self.unsynced.take().map_or(Ok(()), |directory| fs::fsync(open_self(&directory)?))
    }

    /// Renames a complete file of `len` bytes to its name.
    pub(super) fn commit(&self, placing: Placing, path: &[u8], len: u64, meta: Meta) -> Attempt<()> {
        match placing.file.commit(&placing.name, len, meta, self.keeping) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(errno)) => {
                Err(Trouble::Path(sentence("set the mode or time of (its content is complete)", path, errno)))
            }
            Err(errno) => Err(Trouble::Path(sentence("write", path, errno))),
        }
    }

    /// Whether files and directories are fsynced.
    pub(super) fn syncs(&self) -> bool {
        self.fsync
    }

    /// Whether every directory has ended.
    pub(super) fn is_complete(&self) -> bool {
        self.levels.is_empty()
    }

    /// The path at the destination, relative to `top`, of a path in the transfer.
    fn place<'a>(&mut self, path: &'a [u8]) -> Attempt<Cow<'a, [u8]>> {
        let (first, rest) = path::split_first(path);
        if self.expected.as_ref().is_some_and(|expected| !expected.contains(first)) {
            return Err(protocol(&format!("'{}' was not asked for", show(path))).into());
        }
        let Naming::First { seen, name } = &mut self.naming else { return Ok(Cow::Borrowed(path)) };
        match seen {
            _ if first.is_empty() => Err(protocol("contents come where one source was announced").into()),
            Some(seen) if seen != first => {
                Err(protocol("several sources come where one was announced").into())
            }
            _ => {
                seen.get_or_insert_with(|| first.to_vec());
                Ok(Cow::Owned([&name[..], rest].concat()))
            }
        }
    }

    /// The directory at `place`, cached or opened now; it must exist. No link is followed, because one of
    /// this transfer could lead out of the requested tree.
    fn hold(&mut self, place: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        match &self.held {
            _ if place.is_empty() => Ok(Arc::clone(&self.top)),
            Some((held, directory)) if held == place => Ok(Arc::clone(directory)),
            _ => {
                let directory = open_inside(&self.top, place, HOLD_DIRECTORY, Mode::empty(), Links::Refuse)?;
                let directory = Arc::new(directory);
                self.held = Some((place.to_vec(), Arc::clone(&directory)));
                Ok(directory)
            }
        }
    }

    fn check_skipped(&self, path: &[u8]) -> Attempt<()> {
        match self.levels.last() {
            Some(Level { path: outer, state: LevelState::Skipped }) if path::is_inside(path, outer) => {
                Err(Trouble::Skipped)
            }
            _ => Ok(()),
        }
    }
}

/// A directory reopened so that its mode and time can be set.
fn open_self(directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    open_inside(directory, b"", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty(), Links::Refuse)
}

/// The sender violated the protocol.
pub(super) fn protocol(what: &str) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("the sender's records make no sense: {what}; use the same version of fobs on both sides"),
    )
}
