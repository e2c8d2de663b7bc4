//! What a right to a path is tied to where the kernel keeps it: rules know open files and directories, not
//! names.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

use super::at;
use super::at::open_beneath;
use super::beneath::{Links, kind};
use fobs_filter::path;
use fobs_model::name::ours::journal_of;

/// What it is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// What is there is read.
    Reading,
    /// Something is stored there.
    Writing,
}

/// What stands at `path` below `root`; where nothing does, or where it may be replaced, the directory above.
/// A journal beside it belongs to a copy that goes on there, so it is the directory above, too. `None` where
/// the path leads through a link, or a directory that this user may not enter, so that no request gets there.
pub fn anchor(root: &OwnedFd, path: &[u8], purpose: Purpose) -> Result<Option<OwnedFd>, Errno> {
    let open = |path: &[u8]| open_beneath(root, path, OFlags::PATH, Mode::empty(), Links::Refuse);
    let mut path = path;
    loop {
        let (above, name) = path::split(path);
        let found = match open(path) {
            Err(Errno::NOENT | Errno::NOTDIR) => None,
            Err(Errno::LOOP | Errno::XDEV | Errno::ACCESS) => return Ok(None),
            Err(errno) => return Err(errno),
            Ok(found) => match (purpose, kind(&fstat(&found)?)) {
                _ if path.is_empty() => return Ok(Some(found)),
                (Purpose::Reading, _) => Some(found),
                (Purpose::Writing, FileType::Directory) => {
                    let beside = at::stat(open(above)?, journal_of(name).as_component());
                    beside.is_err().then_some(found)
                }
                (Purpose::Writing, _) => None,
            },
        };
        match found {
            Some(found) => return Ok(Some(found)),
            // It becomes shorter each time, and the root itself is there.
            None => path = above,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::stat;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_right_is_tied_to_what_is_there_or_the_directory_above() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path();
        fs::create_dir_all(top.join("in/ann")).unwrap();
        fs::create_dir_all(top.join("in/half")).unwrap();
        fs::write(top.join("in/.half.fobs-journal"), "").unwrap();
        fs::write(top.join("in/file"), "").unwrap();
        symlink("in", top.join("link")).unwrap();
        let root = OwnedFd::from(fs::File::open(top).unwrap());
        let inode = |path: &str| stat(top.join(path)).unwrap().st_ino;
        for (path, purpose, at) in [
            ("in/ann", Purpose::Writing, Some("in/ann")),
            ("in/ann", Purpose::Reading, Some("in/ann")),
            ("in/ann/not/yet", Purpose::Writing, Some("in/ann")),
            ("in/none", Purpose::Reading, Some("in")),
            ("in/half", Purpose::Writing, Some("in")),
            ("in/half", Purpose::Reading, Some("in/half")),
            ("in/file", Purpose::Reading, Some("in/file")),
            ("in/file", Purpose::Writing, Some("in")),
            ("none", Purpose::Writing, Some("")),
            ("", Purpose::Writing, Some("")),
            ("link/ann", Purpose::Writing, None),
        ] {
            let found = anchor(&root, path.as_bytes(), purpose).unwrap();
            let found = found.map(|found| fstat(&found).unwrap().st_ino);
            assert_eq!(found, at.map(inode), "{path} {purpose:?}");
        }
    }
}
