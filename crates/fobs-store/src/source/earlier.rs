//! Earlier versions that the sender has of its files (`--basis`).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

use crate::at::open_beneath;
use crate::beneath::{Base, Links, kind, sentence};
use crate::delta::Earlier;
use fobs_filter::path::{show, split_first};
use fobs_model::error::{Error, ErrorKind, Result};

/// Where they are: a directory with files of the same paths, or the one file.
#[derive(Debug)]
pub enum EarlierFiles {
    /// The one file.
    File(Arc<OwnedFd>),
    /// A directory.
    Directory(OwnedFd),
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
            FileType::Directory => Ok(EarlierFiles::Directory(opened)),
            _ => {
                let shown = show(place);
                let message =
                    format!("cannot use '{shown}' for --basis: it is neither a file nor a directory");
                Err(Error::new(ErrorKind::NoSource, message))
            }
        }
    }

    /// The earlier version of the file at a path within the transfer, which may begin with the name of the
    /// one source.
    pub(super) fn of(&self, path: &[u8]) -> Option<Earlier> {
        let directory = match self {
            EarlierFiles::File(file) => return Some(file.clone()),
            EarlierFiles::Directory(directory) => directory,
        };
        let below = split_first(path).1;
        let below = below.strip_prefix(b"/").unwrap_or(below);
        [path, below].into_iter().filter(|path| !path.is_empty()).find_map(|path| {
            let file = open_beneath(directory, path, READ, Mode::empty(), Links::Refuse).ok()?;
            let is_file = fstat(&file).is_ok_and(|stat| kind(&stat) == FileType::RegularFile);
            is_file.then(|| Arc::new(file))
        })
    }
}
