//! The sources as a request names them.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{self, FileType, OFlags};
use rustix::io::Errno;

use super::entry::{CommonFacts, found, not_regular};
use super::followed::leads_out;
use super::following::Following;
use super::look::look;
use super::overlay::Place;
use super::{Entry, Opening, READ, READ_DIRECTORY, Unopened, Walk, opened};
use crate::at;
use crate::attributes::open_handle;
use crate::beneath::{Base, HOLD_DIRECTORY, kind, kind as kind_of, sentence};
use crate::charset::in_transfer;
use fobs_filter::path;
use fobs_filter::path::show;
use fobs_model::event::FileError;
use fobs_model::name::ComponentBuf;
use fobs_model::shape::SourceShape;

/// A source that exists and could be read when it was checked.
#[derive(Debug)]
pub(crate) struct Named {
    /// Its path in the request.
    pub(super) path: Vec<u8>,
    /// Its number there.
    pub(super) index: usize,
    /// Its name in the transfer; empty for a directory's contents.
    pub(super) name: Vec<u8>,
    pub(super) kind: NamedKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamedKind {
    File,
    Directory,
    /// A symbolic link that is a source itself, not what it leads to; a device, fifo or socket.
    Link,
}

/// What a symbolic link stands for that is named as a source without a slash at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedLinks {
    /// What it leads to: of a copy, as of cp and scp.
    Followed,
    /// Itself: of a sync, as of rsync.
    Themselves,
    /// The directory that it leads to, and else itself (`-k`).
    ButDirectories,
    /// What it leads to where that is outside, and else itself (`--copy-unsafe-links`).
    ButLeadingOut,
}

/// Why a source cannot be used.
pub(crate) enum Unusable {
    /// Nothing has its name.
    Missing,
    /// It is a directory and `-r` was not given.
    NeedsRecursive,
    /// It leads out of the served root.
    Outside,
    /// Anything else.
    Other,
}

impl Walk {
    /// The next source: a file, or a directory to walk.
    pub(super) fn next_named(&mut self, named: Named) -> Entry {
        let Named { path, name, kind, index: _ } = named;
        let failed = |errno| {
            let message = sentence("read", &path, errno);
            Entry::Failed(FileError { path: name_for_messages(&path), message })
        };
        if kind == NamedKind::Link {
            return self.named_link(&path, name).unwrap_or_else(failed);
        }
        if kind == NamedKind::File {
            let found_file = |file: OwnedFd| {
                let stat = fs::fstat(&file)?;
                Ok((self.collector.seen(open_handle(&file), &stat)?, file))
            };
            let (stat, file) = match self.base.open(&path, READ).and_then(found_file) {
                Ok(found) => found,
                Err(errno) => return failed(errno),
            };
            if kind_of(&stat) != FileType::RegularFile {
                // It stands for something else (`--fake-super`).
                return self.named_link(&path, name).unwrap_or_else(failed);
            }
            let place = Unopened::Named(self.base.clone(), path);
            let origin = self.origins.of(&stat, Some(&place));
            if let Some(first) = self.search().first_name(&stat, &name) {
                let shared = CommonFacts::of(&stat, FileType::RegularFile, &self.collector);
                return Entry::Hardlink { path: name, first, shared, origin };
            }
            let entry = match self.opening {
                Opening::AtOnce => opened(name, file, &self.collector),
                Opening::Later => {
                    let kept = self.collector.attributes(open_handle(&file), &stat);
                    found(name, &stat, kept, place, origin, &self.collector)
                }
            };
            self.search().forget_failed(&entry, &stat);
            return entry;
        }
        match self.base.open(&path, READ_DIRECTORY) {
            Ok(root) => {
                self.prefix_len = if name.is_empty() { 0 } else { name.len() + 1 };
                self.root = Some(Arc::new(root));
                self.following =
                    Some(Following::below(self.collector.preserve.follow, &self.base, &path, &name));
                self.enter(name)
            }
            Err(errno) => failed(errno),
        }
    }

    /// A symbolic link that is a source itself.
    fn named_link(&mut self, path: &[u8], name: Vec<u8>) -> Result<Entry, Errno> {
        let (directory, link) = in_parent(&self.base, path)?;
        let place = Unopened::Named(self.base.clone(), path.to_vec());
        Ok(look(directory.as_fd(), link.as_bytes(), name, FileType::Symlink, Some(&place), &self.search()))
    }
}

impl Named {
    /// Whether its contents are meant, and not itself.
    pub(crate) fn means_contents(&self) -> bool {
        self.name.is_empty()
    }

    /// Whether it is a directory itself, and not its contents, and there is nothing in it.
    pub(crate) fn is_empty_directory(&self, base: &Base) -> bool {
        let entries = || fs::Dir::new(base.open(&self.path, READ_DIRECTORY).ok()?).ok();
        let is_entry = |entry: &fs::DirEntry| !matches!(entry.file_name().to_bytes(), b"." | b"..");
        let is_empty = |entries: fs::Dir| !entries.map_while(Result::ok).any(|entry| is_entry(&entry));
        self.is_directory() && !self.name.is_empty() && entries().is_some_and(is_empty)
    }

    /// Checks a source without opening a fifo or device, and that it can be read.
    pub(crate) fn look(
        base: &Base,
        (index, path): (usize, Vec<u8>),
        recursive: bool,
        links: NamedLinks,
    ) -> Result<Named, (Unusable, FileError)> {
        let name = match in_transfer(&name_in_transfer(&path)) {
            Ok(name) => name.into_owned(),
            Err(errno) => {
                let message = sentence("convert the name of", &path, errno);
                return Err((Unusable::Other, FileError { path: Vec::new(), message }));
            }
        };
        let fail = |why, message| Err((why, FileError { path: name_for_messages(&path), message }));
        let failed = |errno| {
            let why = match errno {
                Errno::XDEV => Unusable::Outside,
                Errno::NOENT => Unusable::Missing,
                _ => Unusable::Other,
            };
            fail(why, sentence("read", &path, errno))
        };
        let stands_for_itself = match links {
            NamedLinks::Followed => false,
            NamedLinks::Themselves => is_link(base, &path),
            NamedLinks::ButDirectories => is_link(base, &path) && base.open(&path, READ_DIRECTORY).is_err(),
            NamedLinks::ButLeadingOut => is_link(base, &path) && !is_leading_out(base, &path, &name),
        };
        if stands_for_itself && path::check(&name).is_ok() {
            return Ok(Named { name, path, index, kind: NamedKind::Link });
        }
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
            // Of a sync, which lists it; it is not opened.
            _ if links != NamedLinks::Followed && path::check(&name).is_ok() => {
                return Ok(Named { name, path, index, kind: NamedKind::Link });
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
        Ok(Named { name, path, index, kind })
    }

    /// Where it is, for a look at what it has in common with others.
    pub(super) fn place(&self) -> Place {
        Place::new(&self.path, self.index, &self.name)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == NamedKind::Directory
    }

    /// The directory that its paths in the transfer are relative to, as a path of the request.
    pub(crate) fn above(&self) -> &[u8] {
        if self.name.is_empty() { &self.path } else { path::split(&self.path).0 }
    }
}

/// Whether a path is a symbolic link by itself.
/// Whether a link leads out of the transfer, in which it has this name.
fn is_leading_out(base: &Base, path: &[u8], name: &[u8]) -> bool {
    in_parent(base, path)
        .and_then(|(parent, own)| at::read_link(&parent, own.as_component()))
        .is_ok_and(|target| leads_out(name, &target))
}

fn is_link(base: &Base, path: &[u8]) -> bool {
    in_parent(base, path)
        .and_then(|(parent, name)| at::stat(&parent, name.as_component()))
        .is_ok_and(|stat| kind(&stat) == FileType::Symlink)
}

/// The directory in which a path of the request lies, and its last component.
pub(super) fn in_parent(base: &Base, path: &[u8]) -> Result<(OwnedFd, ComponentBuf), Errno> {
    let (parent, name) = path::split_name(path)?;
    let parent = if parent.is_empty() && path.starts_with(b"/") { b"/" } else { parent };
    let name = ComponentBuf::new(in_transfer(name.as_bytes())?.into_owned())?;
    Ok((base.open(parent, HOLD_DIRECTORY)?, name))
}

/// The last component of a source's path; empty where its contents are meant: `dir/`, `dir/.`, `.`, `..`,
/// `/`.
pub(crate) fn name_in_transfer(path: &[u8]) -> Vec<u8> {
    match path::split(path).1 {
        b"" | b"." | b".." => Vec::new(),
        name => name.to_vec(),
    }
}

/// Whether a source's path means a directory's contents.
pub fn means_contents(path: &[u8]) -> bool {
    name_in_transfer(path).is_empty()
}

/// What these sources look like.
pub fn shape_of(paths: &[Vec<u8>]) -> SourceShape {
    SourceShape::Paths {
        count: u32::try_from(paths.len()).unwrap_or(u32::MAX),
        contents: paths.iter().any(|path| means_contents(path)),
    }
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
pub(super) fn name_for_messages(path: &[u8]) -> Vec<u8> {
    let mut components = path.split(|&byte| byte == b'/').rev();
    let name = components.find(|component| !matches!(*component, b"" | b"." | b".."));
    name.filter(|name| path::check(name).is_ok()).unwrap_or_default().to_vec()
}
