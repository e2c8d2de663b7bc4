//! Earlier versions that the sender has of its files: those that the user names (`--basis`), those in the
//! snapshots beside the source, and those that it remembers having sent.

mod remembered;
mod sent;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

use crate::at::open_beneath;
use crate::beneath::{Base, Links, kind, sentence};
use crate::delta::Earlier;
use crate::identity::Identity;
use crate::walk::means_contents;
use fobs_filter::path::{show, split, split_first};
use fobs_model::error::{Error, ErrorKind, Result};

pub use remembered::{Remembered, VersionPlace};
pub use sent::{SentVersion, SentVersions};

/// Where they are: directories with files of the same paths, or the one file.
#[derive(Debug)]
pub enum EarlierFiles {
    /// The one file.
    File(Arc<OwnedFd>),
    /// Directories; the first that has a file counts.
    Directories(Vec<OwnedFd>),
    /// Those that the destination got from this host.
    Remembered(Remembered),
}

/// A fifo there must not be waited for.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl EarlierFiles {
    /// At a path that the user named, on the host of the sources.
    ///
    /// # Errors
    /// `NoSource` where nothing can be read there.
    pub fn at(base: &Base, place: &[u8]) -> Result<EarlierFiles> {
        let failed =
            |errno: Errno| Error::new(ErrorKind::NoSource, sentence("use for --basis", place, errno));
        let opened = base.open_place(place, READ).map_err(failed)?;
        match kind(&fstat(&opened).map_err(failed)?) {
            FileType::RegularFile => Ok(EarlierFiles::File(Arc::new(opened))),
            FileType::Directory => Ok(EarlierFiles::Directories(vec![opened])),
            _ => {
                let shown = show(place);
                let message =
                    format!("cannot use '{shown}' for --basis: it is neither a file nor a directory");
                Err(Error::new(ErrorKind::NoSource, message))
            }
        }
    }

    /// Where the receiver's directories of `--link-dest` and its kin have their like beside the one source,
    /// as in a copy of snapshots: named from there, and reached by this user.
    pub fn beside(
        base: &Base,
        sources: &[Vec<u8>],
        named: &[Vec<u8>],
        reaches: impl Fn(&[u8]) -> bool,
    ) -> Option<EarlierFiles> {
        let [source] = sources else { return None };
        let own = base.open_place(source, READ).and_then(|own| fstat(&own)).ok()?;
        let from = if means_contents(source) { source } else { split(source).0 };
        let from = if from.is_empty() { b"." } else { from };
        let open = |name: &Vec<u8>| {
            let place = match base {
                _ if name.starts_with(b"/") => name.clone(),
                Base::Ambient => [from, b"/", name].concat(),
                Base::Beneath { .. } => resolved(from, name)?,
            };
            let opened =
                reaches(&place).then(|| base.open_place(&place, READ | OFlags::DIRECTORY).ok())??;
            let found = fstat(&opened).ok()?;
            ((found.st_dev, found.st_ino) != (own.st_dev, own.st_ino)).then_some(opened)
        };
        let found: Vec<_> = named.iter().filter_map(open).collect();
        (!found.is_empty()).then_some(EarlierFiles::Directories(found))
    }

    /// The earlier version of the file at a path within the transfer, which may begin with the name of the
    /// one source, and is `new` now.
    pub(super) fn of(&self, path: &[u8], new: Identity) -> Option<Earlier> {
        let directories = match self {
            EarlierFiles::File(file) => return Some(file.clone()),
            EarlierFiles::Directories(directories) => directories,
            EarlierFiles::Remembered(remembered) => return remembered.of(path, new),
        };
        let below = split_first(path).1;
        let below = below.strip_prefix(b"/").unwrap_or(below);
        let paths = [path, below];
        let in_one = |directory: &OwnedFd| {
            paths.into_iter().filter(|path| !path.is_empty()).find_map(|path| {
                let file = open_beneath(directory, path, READ, Mode::empty(), Links::Refuse).ok()?;
                let is_file = fstat(&file).is_ok_and(|stat| kind(&stat) == FileType::RegularFile);
                is_file.then(|| Arc::new(file))
            })
        };
        directories.iter().find_map(in_one)
    }
}

/// A name from a directory, without `.` and `..`; none above the root.
fn resolved(from: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in from.split(|&byte| byte == b'/').chain(name.split(|&byte| byte == b'/')) {
        match part {
            b"" | b"." => {}
            // Behind a link it may lead elsewhere; what is found there is only tried.
            b".." => match parts.pop() {
                Some(above) if above != b".." => {}
                _ => return None,
            },
            part => parts.push(part),
        }
    }
    let whole = parts.join(&b'/');
    Some(if from.starts_with(b"/") { [b"/", &whole[..]].concat() } else { whole })
}
