//! What a walk finds, and how it is opened.

use std::io::Read;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::following::Following;
use super::{READ, READ_ONE};
use crate::at;
use crate::at::open_beneath;
use crate::attributes::{Account, Attributes, Collector, open_handle};
use crate::beneath::{Base, Links, kind, sentence};
use crate::identity::Identity;
use crate::input::Input;
use crate::record::{Device, Meta, SpecialKind};
use crate::select::Contents;
use crate::stamp::Stamp;
use fobs_filter::XattrRules;
use fobs_filter::path::{PATH_LEN_MAX, show};
use fobs_model::event::{EntryFacts, FileError, LeftOut};
use fobs_model::name::Component;

/// An entry of the walk. Paths are within the transfer.
pub(crate) enum Entry {
    Directory {
        path: Vec<u8>,
        meta: Meta,
        /// Whose it is to be, before anything comes to lie in it.
        owner: Kept,
    },
    DirectoryEnd {
        path: Vec<u8>,
        meta: Meta,
        /// Bytes of the directory itself.
        size: u64,
        attributes: Kept,
        contents: Contents,
    },
    Symlink {
        path: Vec<u8>,
        target: Vec<u8>,
        meta: Meta,
        attributes: Kept,
        origin: MaybeOrigin,
    },
    File {
        path: Vec<u8>,
        meta: Meta,
        attributes: Kept,
        size: u64,
        input: Input,
    },
    /// A file that a walk with [`Walk::postpone_opening`] left closed.
    Found {
        path: Vec<u8>,
        meta: Meta,
        attributes: Kept,
        identity: Identity,
        unopened: Unopened,
        origin: MaybeOrigin,
    },
    Special {
        path: Vec<u8>,
        kind: SpecialKind,
        device: Device,
        meta: Meta,
        attributes: Kept,
        origin: MaybeOrigin,
    },
    /// One more name of the entry that has the path `first`.
    Hardlink {
        path: Vec<u8>,
        first: Vec<u8>,
        shared: CommonFacts,
        origin: MaybeOrigin,
    },
    /// A name that was asked for and does not exist, where the receiver is to delete it.
    Missing {
        path: Vec<u8>,
    },
    Failed(FileError),
}

/// What is said of an entry by each of its names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommonFacts {
    pub(crate) meta: Meta,
    /// Those of its type.
    pub(crate) bits: u32,
    pub(crate) size: u64,
}

impl CommonFacts {
    pub(super) fn of(stat: &fs::Stat, file_type: FileType, collector: &Collector) -> CommonFacts {
        let is_sized = matches!(file_type, FileType::RegularFile | FileType::Symlink);
        let size = if is_sized { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 };
        CommonFacts { meta: collector.meta(stat), bits: file_type.as_raw_mode(), size }
    }
}

impl Entry {
    /// What is kept of it beside mode and time.
    pub(crate) fn attributes(&self) -> Option<&Attributes> {
        match self {
            Entry::DirectoryEnd { attributes, .. }
            | Entry::Symlink { attributes, .. }
            | Entry::File { attributes, .. }
            | Entry::Found { attributes, .. }
            | Entry::Special { attributes, .. } => attributes.as_deref(),
            Entry::Directory { .. } | Entry::Hardlink { .. } | Entry::Missing { .. } | Entry::Failed(_) => {
                None
            }
        }
    }

    /// Its path within the transfer.
    pub(crate) fn path(&self) -> &[u8] {
        match self {
            Entry::Directory { path, .. }
            | Entry::DirectoryEnd { path, .. }
            | Entry::Symlink { path, .. }
            | Entry::File { path, .. }
            | Entry::Found { path, .. }
            | Entry::Special { path, .. }
            | Entry::Hardlink { path, .. }
            | Entry::Missing { path } => path,
            Entry::Failed(failure) => &failure.path,
        }
    }

    /// What is said of it to people; of one that is reported.
    pub(crate) fn facts(&self, stays: Stays) -> EntryFacts {
        const FILE: u32 = 0o100_000;
        let (meta, bits, size) = match self {
            Entry::Directory { meta, .. } => (*meta, 0o040_000, 0),
            Entry::DirectoryEnd { meta, size, .. } => (*meta, 0o040_000, *size),
            Entry::Symlink { meta, target, .. } => (*meta, 0o120_000, target.len() as u64),
            Entry::File { meta, size, .. } => (*meta, FILE, *size),
            Entry::Found { meta, identity, .. } => {
                (Meta { mtime_s: identity.mtime_s, ..*meta }, FILE, identity.size)
            }
            Entry::Special { meta, kind, .. } => (*meta, type_bits(*kind), 0),
            Entry::Hardlink { shared: CommonFacts { meta, bits, size }, .. } => (*meta, *bits, *size),
            Entry::Missing { .. } | Entry::Failed(_) => (Meta::default(), FILE, 0),
        };
        facts(meta, bits, size, self.attributes(), stays)
    }

    /// Where it is, if the walk keeps that; of anything but directories and open files.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        match self {
            Entry::Symlink { origin, .. }
            | Entry::Found { origin, .. }
            | Entry::Special { origin, .. }
            | Entry::Hardlink { origin, .. } => origin.as_deref(),
            Entry::Directory { .. } | Entry::DirectoryEnd { .. } | Entry::File { .. } => None,
            Entry::Missing { .. } | Entry::Failed(_) => None,
        }
    }
}

/// Whether an entry stays as it is at the destination, and by which rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stays {
    pub(crate) unchanged: bool,
    pub(crate) left_out: Option<LeftOut>,
}

/// What is said of an entry, with its type's bits.
pub(crate) fn facts(
    meta: Meta,
    bits: u32,
    size: u64,
    attributes: Option<&Attributes>,
    Stays { unchanged, left_out }: Stays,
) -> EntryFacts {
    let number = |account: &Option<Account>| account.as_ref().map(|account| account.id);
    let (owner, group) = attributes.map_or((None, None), |it| (number(&it.user), number(&it.group)));
    let mode = bits | meta.mode & 0o7777;
    EntryFacts { size, mode, mtime_s: meta.mtime_s, owner, group, unchanged, left_out }
}

/// The bits of a device's type, fifo's or socket's, as `stat` has them.
pub(crate) fn type_bits(kind: SpecialKind) -> u32 {
    match kind {
        SpecialKind::Fifo => 0o010_000,
        SpecialKind::Socket => 0o140_000,
        SpecialKind::CharacterDevice => 0o020_000,
        SpecialKind::BlockDevice => 0o060_000,
    }
}

/// Where an entry is, and what it was when it was listed: what its removal needs.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) stamp: Stamp,
    pub(crate) place: Unopened,
}

/// Kept only where sources are removed.
pub(crate) type MaybeOrigin = Option<Box<Origin>>;

/// What the transfer keeps of an entry beside mode and time.
pub(crate) type Kept = Option<Box<Attributes>>;

/// The owner alone, if it is kept.
pub(super) fn owner_in(attributes: &Result<Kept, Errno>) -> Kept {
    let user = attributes.as_ref().ok()?.as_ref()?.user.clone();
    user.map(|user| Box::new(Attributes { user: Some(user), ..Attributes::default() }))
}

/// How a file that was found is opened later.
#[derive(Clone)]
pub(crate) enum Unopened {
    /// A source by itself, and its path in the request.
    Named(Arc<Base>, Vec<u8>),
    /// Below a source directory: what is left of the path in the transfer after this many bytes.
    Below(Arc<OwnedFd>, usize),
    /// Likewise, where links on the way are followed.
    Followed(Box<Following>),
    /// In a directory with rules of its own for names of extended attributes.
    Ruled(Box<Unopened>, XattrRules),
}

impl Unopened {
    /// Whether both are of the same source.
    pub(crate) fn is_same(&self, other: &Unopened) -> bool {
        match (self.place(), other.place()) {
            (Unopened::Below(one, _), Unopened::Below(other, _)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Where it is, whatever rules hold there.
    pub(crate) fn place(&self) -> &Unopened {
        match self {
            Unopened::Ruled(place, _) => place,
            place => place,
        }
    }

    /// Opens the file; `path` is its path within the transfer. The entry is a `File` or `Failed`.
    pub(crate) fn open(&self, path: Vec<u8>, collector: &Collector) -> Entry {
        if let Unopened::Ruled(place, rules) = self {
            return place.open(path, &collector.ruled_by(rules));
        }
        let open = |with: OFlags| match self {
            Unopened::Ruled(..) => Err(Errno::OPNOTSUPP),
            Unopened::Named(base, named) => base.open(named, READ | with),
            Unopened::Followed(following) => following.base.open(&following.place(&path), READ | with),
            Unopened::Below(root, prefix_len) => {
                let below = path.get(*prefix_len..).unwrap_or_default();
                open_beneath(root, below, READ_ONE | with, Mode::empty(), Links::Refuse)
            }
        };
        let untouched = collector.preserve.open_noatime.then(|| open(OFlags::NOATIME));
        let file = match untouched {
            // Only a file's owner and root may read it so.
            None | Some(Err(Errno::PERM)) => open(OFlags::empty()),
            Some(file) => file,
        };
        match file {
            Ok(file) => opened(path, file, collector),
            Err(errno) => lost(&path, errno),
        }
    }
}

pub(super) fn not_regular(path: &[u8]) -> String {
    format!("'{}' is not a regular file, directory or symbolic link and is left out", show(path))
}

pub(super) fn special_kind(file_type: FileType) -> Option<SpecialKind> {
    match file_type {
        FileType::Fifo => Some(SpecialKind::Fifo),
        FileType::Socket => Some(SpecialKind::Socket),
        FileType::CharacterDevice => Some(SpecialKind::CharacterDevice),
        FileType::BlockDevice => Some(SpecialKind::BlockDevice),
        _ => None,
    }
}

/// The numbers of a device; none of what is none.
pub(super) fn device_of(kind: SpecialKind, stat: &fs::Stat) -> Device {
    if kind.is_device() {
        Device { major: fs::major(stat.st_rdev), minor: fs::minor(stat.st_rdev) }
    } else {
        Device::default()
    }
}

pub(super) fn read_link(
    directory: BorrowedFd<'_>,
    name: &[u8],
    collector: &Collector,
) -> Result<Vec<u8>, Errno> {
    let target = collector.preserve.target_read(at::read_link(directory, Component::new(name)?)?);
    match target.len() {
        1..=PATH_LEN_MAX => Ok(target),
        _ => Err(Errno::NAMETOOLONG),
    }
}

/// The target of a link for which a file stands (`--fake-super`): what is in that.
pub(super) fn read_noted_link(
    directory: BorrowedFd<'_>,
    name: &[u8],
    collector: &Collector,
) -> Result<Vec<u8>, Errno> {
    let file = open_beneath(directory, name, READ_ONE, Mode::empty(), Links::Refuse)?;
    let mut target = vec![0; PATH_LEN_MAX + 1];
    let len = rustix::io::pread(&file, &mut target[..], 0)?;
    target.truncate(len);
    let target = collector.preserve.target_read(target);
    match target.len() {
        1..=PATH_LEN_MAX if !target.contains(&0) => Ok(target),
        _ => Err(Errno::NAMETOOLONG),
    }
}

/// The entry of a file that is left closed.
pub(super) fn found(
    path: Vec<u8>,
    stat: &fs::Stat,
    kept: Result<Kept, Errno>,
    unopened: Unopened,
    origin: MaybeOrigin,
    collector: &Collector,
) -> Entry {
    match (kind(stat), kept) {
        (FileType::RegularFile, Ok(attributes)) => {
            let (meta, identity) = (collector.meta(stat), Identity::of_source(stat));
            Entry::Found { path, meta, attributes, identity, unopened, origin }
        }
        (FileType::RegularFile, Err(errno)) => no_attributes(&path, errno),
        // It may have been replaced since it was checked.
        _ => Entry::Failed(FileError { message: not_regular(&path), path }),
    }
}

/// The entry of a newly opened file.
pub(crate) fn opened(path: Vec<u8>, file: OwnedFd, collector: &Collector) -> Entry {
    let stat = match fs::fstat(&file) {
        // It may have been replaced since it was checked.
        Ok(stat) if kind(&stat) != FileType::RegularFile && !collector.reads_as_file(&stat) => {
            return Entry::Failed(FileError { message: not_regular(&path), path });
        }
        Ok(stat) => stat,
        Err(errno) => return failed(&path, "read", errno),
    };
    let is_device = kind(&stat) != FileType::RegularFile;
    let seen = if is_device {
        collector.device_as_file(&file, &stat)
    } else {
        collector.seen(open_handle(&file), &stat)
    };
    let seen = match seen {
        Ok(seen) => seen,
        Err(errno) => return failed(&path, "read", errno),
    };
    match collector.attributes(open_handle(&file), &seen) {
        Ok(attributes) => {
            let (meta, size) = (collector.meta(&seen), u64::try_from(seen.st_size).unwrap_or(0));
            let input = if is_device {
                // It may have no end.
                Input::Stream(Box::new(std::fs::File::from(file).take(size)))
            } else {
                Input::File(file, Stamp::of(&stat))
            };
            Entry::File { path, meta, attributes, size, input }
        }
        Err(errno) => no_attributes(&path, errno),
    }
}

pub(super) fn no_attributes(path: &[u8], errno: Errno) -> Entry {
    match errno {
        Errno::TOOBIG => {
            let message = format!(
                "cannot copy '{}': its extended attributes are longer than 192 KiB; copy it without them",
                show(path)
            );
            Entry::Failed(FileError { path: path.to_vec(), message })
        }
        _ => failed(path, "read the attributes of", errno),
    }
}

/// The entry of something that was found, and cannot be read now.
pub(super) fn lost(path: &[u8], errno: Errno) -> Entry {
    if errno != Errno::NOENT {
        return failed(path, "read", errno);
    }
    let message = format!("{}'{}'", FileError::VANISHED, show(path));
    Entry::Failed(FileError { path: path.to_vec(), message })
}

pub(super) fn failed(path: &[u8], what: &str, errno: Errno) -> Entry {
    Entry::Failed(FileError { path: path.to_vec(), message: sentence(what, path, errno) })
}
