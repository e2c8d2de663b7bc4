//! What is in a directory of the destination.

use rustix::fs::{Dir, FileType, Mode, OFlags};

use crate::at;
use crate::at::{Links, open_beneath};
use crate::beneath::kind;
use crate::charset::in_transfer;
use crate::view::View;
use fobs_model::name::Component;
use fobs_model::name::ours::{is_journal, suffix_in};

const READ_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub(super) name: Vec<u8>,
    pub(super) size: u64,
    pub(super) mtime_s: i64,
}

/// What is in a directory.
#[derive(Debug, Default)]
pub(super) struct InDirectory {
    /// Files of which deltas are made.
    pub(super) files: Vec<Neighbour>,
    pub(super) directories: Vec<Vec<u8>>,
    /// Names of any kind.
    pub(super) count: usize,
}

/// What is in a directory at a path below the destination's top; none where it cannot be read, or has more
/// names than `most`. Files have at least `least` bytes.
pub(super) fn files_of(view: &mut View, directory: &[u8], most: usize, least: u64) -> Option<InDirectory> {
    let held = view.hold(directory).ok()?;
    let opened = open_beneath(&*held, b"", READ_DIRECTORY, Mode::empty(), Links::Refuse).ok()?;
    let mut found = InDirectory::default();
    for entry in Dir::new(opened).ok()? {
        let entry = entry.ok()?;
        let Ok(name) = in_transfer(entry.file_name().to_bytes()) else { continue };
        let name = &*name;
        found.count += 1;
        if found.count > most {
            return None;
        }
        if matches!(name, b"." | b"..") || suffix_in(name).is_some() || is_journal(name) {
            continue;
        }
        let Ok(stat) = Component::new(name).map_err(Into::into).and_then(|name| at::stat(&*held, name))
        else {
            continue;
        };
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        match kind(&stat) {
            FileType::RegularFile if size >= least => {
                found.files.push(Neighbour { name: name.to_vec(), size, mtime_s: stat.st_mtime });
            }
            FileType::Directory => found.directories.push(name.to_vec()),
            _ => {}
        }
    }
    Some(found)
}
