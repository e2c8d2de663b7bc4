//! The walk over the sources: one entry at a time, with at most two directories and one file open, and only
//! the names of directories still to be entered in memory.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{self, AtFlags, Dir, DirEntry, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::beneath::{self, Base, Links, kind, meta, open_inside, sentence};
use super::open_file::{Input, Stamp};
use super::path::{self, PATH_LEN_MAX, show};
use super::record::Meta;
use super::temporary::is_temporary;
use crate::event::FileError;

/// An entry of the walk. Paths are within the transfer.
pub(super) enum Entry {
    Directory { path: Vec<u8> },
    DirectoryEnd { path: Vec<u8>, meta: Meta },
    Symlink { path: Vec<u8>, target: Vec<u8>, meta: Meta },
    File { path: Vec<u8>, meta: Meta, size: u64, input: Input },
    Failed(FileError),
}

/// A source that exists and could be read when it was checked.
#[derive(Debug)]
pub(super) struct Named {
    /// Its path in the request.
    path: Vec<u8>,
    /// Its name in the transfer; empty for a directory's contents.
    name: Vec<u8>,
    kind: NamedKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedKind {
    File,
    Directory,
}

/// Flags for reading a file: do not wait for the writer of a fifo, do not acquire a terminal.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// Flags for reading a directory.
const READ_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// The walk.
pub(super) struct Walk {
    base: Base,
    /// The remaining sources, next first.
    named: std::vec::IntoIter<Named>,
    /// The source directory, while it is walked.
    root: Option<OwnedFd>,
    /// Length of the prefix of [`Level::path`] before the path below `root`.
    prefix_len: usize,
    /// From the source directory down to the current one.
    levels: Vec<Level>,
}

struct Level {
    path: Vec<u8>,
    meta: Meta,
    /// Open while its entries are read; closed before a subdirectory is entered.
    reading: Option<Dir>,
    /// Names of the subdirectories found.
    subdirectories: Vec<Vec<u8>>,
}

/// Why a source cannot be used.
pub(super) enum Unusable {
    /// It is a directory and `-r` was not given.
    NeedsRecursive,
    /// It leads out of the served root.
    Outside,
    /// Anything else.
    Other,
}

impl Named {
    /// Checks a source without opening a fifo or device, and that it can be read.
    pub(super) fn look(base: &Base, path: Vec<u8>, recursive: bool) -> Result<Named, (Unusable, FileError)> {
        let name = name_in_transfer(&path);
        let fail = |why, message| Err((why, FileError { path: name_for_messages(&path), message }));
        let failed = |errno| {
            let why = if errno == Errno::XDEV { Unusable::Outside } else { Unusable::Other };
            fail(why, sentence("read", &path, errno))
        };
        let stat = match base.open(&path, OFlags::PATH).and_then(|file| fs::fstat(&file)) {
            Ok(stat) => stat,
            Err(errno) => return failed(errno),
        };
        let kind = match kind(&stat) {
            FileType::RegularFile => NamedKind::File,
            FileType::Directory if recursive => NamedKind::Directory,
            FileType::Directory => {
                let message = format!("'{}' is a directory; give -r to copy it", show(&path));
                return fail(Unusable::NeedsRecursive, message);
            }
            _ => return fail(Unusable::Other, not_regular(&path)),
        };
        let flags = if kind == NamedKind::File { READ } else { READ_DIRECTORY };
        if let Err(errno) = base.open(&path, flags) {
            return failed(errno);
        }
        if path::check(&name).is_err() {
            // Only its length can be wrong, which the kernel excludes; but the name comes from a client.
            return fail(Unusable::Other, format!("cannot read '{}': its name is too long", show(&path)));
        }
        Ok(Named { name, path, kind })
    }
}

/// The last component of a source's path; empty where its contents are meant: `dir/`, `dir/.`, `.`, `..`,
/// `/`.
pub(super) fn name_in_transfer(path: &[u8]) -> Vec<u8> {
    match path::split(path).1 {
        b"" | b"." | b".." => Vec::new(),
        name => name.to_vec(),
    }
}

/// Whether a source's path means a directory's contents.
pub(super) fn means_contents(path: &[u8]) -> bool {
    name_in_transfer(path).is_empty()
}

/// The first two of `sources` that would have the same name in the transfer, earlier one first. The contents
/// of directories are not compared.
pub fn same_name(sources: &[Vec<u8>]) -> Option<(&[u8], &[u8])> {
    let mut named: HashMap<Vec<u8>, &[u8]> = HashMap::new();
    sources.iter().filter(|source| !means_contents(source)).find_map(|source| {
        let earlier = named.insert(name_in_transfer(source), source)?;
        Some((earlier, &source[..]))
    })
}

/// A path that fits a record and by which a user recognises the source.
fn name_for_messages(path: &[u8]) -> Vec<u8> {
    let mut components = path.split(|&byte| byte == b'/').rev();
    let name = components.find(|component| !matches!(*component, b"" | b"." | b".."));
    name.filter(|name| path::check(name).is_ok()).unwrap_or_default().to_vec()
}

fn not_regular(path: &[u8]) -> String {
    format!("'{}' is not a regular file, directory or symbolic link and is left out", show(path))
}

impl Walk {
    pub(super) fn new(base: Base, named: Vec<Named>) -> Walk {
        Walk { base, named: named.into_iter(), root: None, prefix_len: 0, levels: Vec::new() }
    }

    /// Whether the walk is at its end.
    pub(super) fn is_exhausted(&self) -> bool {
        self.levels.is_empty() && self.named.len() == 0
    }

    /// The next source: a file, or a directory to walk.
    fn next_named(&mut self, named: Named) -> Entry {
        let Named { path, name, kind } = named;
        let failed = |errno| {
            let message = sentence("read", &path, errno);
            Entry::Failed(FileError { path: name_for_messages(&path), message })
        };
        if kind == NamedKind::File {
            return match self.base.open(&path, READ) {
                Ok(file) => opened(name, file),
                Err(errno) => failed(errno),
            };
        }
        match self.base.open(&path, READ_DIRECTORY) {
            Ok(root) => {
                self.prefix_len = if name.is_empty() { 0 } else { name.len() + 1 };
                self.root = Some(root);
                self.enter(name)
            }
            Err(errno) => failed(errno),
        }
    }

    /// Opens a directory and begins to read it.
    fn enter(&mut self, path: Vec<u8>) -> Entry {
        let Some(root) = &self.root else {
            return failed(&path, "read", Errno::BADF);
        };
        let below = path.get(self.prefix_len..).unwrap_or_default();
        let opened = open_inside(root, below, READ_DIRECTORY, Mode::empty(), Links::Refuse)
            .and_then(|directory| Ok((fs::fstat(&directory)?, Dir::new(directory)?)));
        match opened {
            Ok((stat, directory)) => {
                self.levels.push(Level {
                    path: path.clone(),
                    meta: meta(&stat),
                    reading: Some(directory),
                    subdirectories: Vec::new(),
                });
                Entry::Directory { path }
            }
            Err(errno) => failed(&path, "read", errno),
        }
    }
}

impl Iterator for Walk {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        while let Some(level) = self.levels.last_mut() {
            match level.reading.as_mut().map(Dir::read) {
                Some(Some(Ok(entry))) => {
                    if let Some(entry) = level.child(&entry) {
                        return Some(entry);
                    }
                }
                Some(Some(Err(errno))) => {
                    level.reading = None;
                    return Some(failed(&level.path, "read all of", errno));
                }
                Some(None) => level.reading = None,
                None => {
                    if let Some(name) = level.subdirectories.pop() {
                        let path = path::join(&level.path, &name);
                        return Some(self.enter(path));
                    }
                    let level = self.levels.pop()?;
                    return Some(Entry::DirectoryEnd { path: level.path, meta: level.meta });
                }
            }
        }
        self.root = None;
        let named = self.named.next()?;
        Some(self.next_named(named))
    }
}

impl Level {
    /// The entry for a name in the current directory; none for a subdirectory, which is entered later, and
    /// for a file under a temporary name of a copy.
    fn child(&mut self, entry: &DirEntry) -> Option<Entry> {
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            return None;
        }
        let path = path::join(&self.path, name);
        if path.len() > PATH_LEN_MAX {
            let message =
                format!("cannot read '{}': its path is longer than {PATH_LEN_MAX} bytes", show(&path));
            return Some(Entry::Failed(FileError { path: self.path.clone(), message }));
        }
        let directory = self.reading.as_ref()?.fd().ok()?;
        let stat = || fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let file_type = match entry.file_type() {
            // Some file systems do not report the type.
            FileType::Unknown => match stat() {
                Ok(stat) => kind(&stat),
                Err(errno) => return Some(failed(&path, "read", errno)),
            },
            file_type => file_type,
        };
        match file_type {
            FileType::Directory => {
                self.subdirectories.push(name.to_vec());
                None
            }
            // What an interrupted copy left, or one that runs has not completed.
            FileType::RegularFile | FileType::Symlink if is_temporary(name) => None,
            FileType::RegularFile => {
                let file =
                    open_inside(directory, name, READ | OFlags::NOFOLLOW, Mode::empty(), Links::Refuse);
                Some(match file {
                    Ok(file) => opened(path, file),
                    Err(errno) => failed(&path, "read", errno),
                })
            }
            FileType::Symlink => Some(match read_link(directory, name) {
                Ok((target, meta)) => Entry::Symlink { path, target, meta },
                Err(errno) => failed(&path, "read", errno),
            }),
            _ => Some(Entry::Failed(FileError { message: not_regular(&path), path })),
        }
    }
}

fn read_link(directory: BorrowedFd<'_>, name: &[u8]) -> Result<(Vec<u8>, Meta), Errno> {
    let stat = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let target = fs::readlinkat(directory, name, Vec::with_capacity(256))?.into_bytes();
    match target.len() {
        1..=PATH_LEN_MAX => Ok((target, beneath::meta(&stat))),
        _ => Err(Errno::NAMETOOLONG),
    }
}

/// The entry of a newly opened file.
pub(super) fn opened(path: Vec<u8>, file: OwnedFd) -> Entry {
    match fs::fstat(&file) {
        // It may have been replaced since it was checked.
        Ok(stat) if kind(&stat) != FileType::RegularFile => {
            Entry::Failed(FileError { message: not_regular(&path), path })
        }
        Ok(stat) => {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            Entry::File { path, meta: meta(&stat), size, input: Input::File(file, Stamp::of(&stat)) }
        }
        Err(errno) => failed(&path, "read", errno),
    }
}

fn failed(path: &[u8], what: &str, errno: Errno) -> Entry {
    Entry::Failed(FileError { path: path.to_vec(), message: sentence(what, path, errno) })
}
