//! Sources on this host: where both ends are on one, the receiver reads a file that comes itself, so that no
//! byte of it goes through a pipe, and shares its blocks where the file system can.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::fstat;

use super::basis::basis_in_place;
use crate::view::View;

/// Most directories that are looked at for each file.
const DIRECTORIES_MAX: usize = 16;
/// Smallest file that is read so, bytes: below, opening it again costs more than a pipe.
const FILE_MIN: u64 = 256 << 10;

/// The directories in which sources lie. What a file in them has is only supposed, by its size and time: the
/// digest of each chunk says whether it is right.
#[derive(Debug, Clone, Default)]
pub struct SourcesHere(Vec<View>);

impl SourcesHere {
    /// Opens the directories, of which paths of the transfer are relative to one. One that cannot be opened
    /// is left out.
    pub fn open(directories: &[impl AsRef<Path>]) -> SourcesHere {
        let open = |directory: &Path| fobs_sys::named::open_directory(directory).ok();
        let opened = directories.iter().take(DIRECTORIES_MAX).filter_map(|it| open(it.as_ref()));
        SourcesHere(opened.map(|directory| View::new(Arc::new(directory), None)).collect())
    }

    /// The file of that path, size and time of change, seconds.
    pub(crate) fn file(&mut self, path: &[u8], (size, mtime_s): (u64, i64)) -> Option<OwnedFd> {
        if size < FILE_MIN {
            return None;
        }
        self.0.iter_mut().find_map(|view| {
            let (file, found) = basis_in_place(view, path, FILE_MIN)?;
            (found == size && fstat(&file).is_ok_and(|stat| stat.st_mtime == mtime_s)).then_some(file)
        })
    }
}
