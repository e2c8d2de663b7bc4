//! The hash tree of the beginning of a file on this host.

use std::os::fd::OwnedFd;

use rustix::io::{Errno, pread};

use crate::looked::Looked;
use crate::tree_hash::{FileTree, GROUP, Tail, hash_extent};

/// Bytes read and hashed at once: as much as a chunk.
const STEP: u64 = 4 << 20;

/// Hashes the first `len` bytes, a multiple of [`GROUP`]. `None`: the file is shorter, or `stop` says that
/// nobody waits for the result.
pub(crate) fn hash_prefix(
    file: &OwnedFd,
    len: u64,
    looked: &Looked,
    stop: &dyn Fn() -> bool,
) -> Result<Option<FileTree>, Errno> {
    hash_on(file, FileTree::default(), len, looked, stop)
}

/// Likewise, where `tree` has the beginning.
pub(crate) fn hash_on(
    file: &OwnedFd,
    mut tree: FileTree,
    len: u64,
    looked: &Looked,
    stop: &dyn Fn() -> bool,
) -> Result<Option<FileTree>, Errno> {
    debug_assert!(len.is_multiple_of(GROUP));
    let mut buffer = Vec::new();
    let step = STEP.min(len.saturating_sub(tree.len())) as usize;
    buffer.try_reserve_exact(step).map_err(|_| Errno::NOMEM)?;
    buffer.resize(step, 0);
    let mut values = Vec::new();
    while tree.len() < len {
        if stop() {
            return Ok(None);
        }
        let wanted = (len - tree.len()).min(STEP);
        let part = &mut buffer[..wanted as usize];
        if !read_exactly(file, part, tree.len())? {
            return Ok(None);
        }
        looked.add(wanted);
        values.clear();
        hash_extent(part, tree.len(), Tail::Continues, &mut values);
        tree.extend(wanted, Tail::Continues, &mut values.iter().copied()).expect("every piece has its value");
    }
    Ok(Some(tree))
}

/// Whether the file holds as many bytes at `offset`.
fn read_exactly(file: &OwnedFd, part: &mut [u8], offset: u64) -> Result<bool, Errno> {
    let mut filled = 0;
    while filled < part.len() {
        match pread(file, &mut part[filled..], offset + filled as u64) {
            Ok(0) => return Ok(false),
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> OwnedFd {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("f");
        std::fs::write(&path, content).expect("a file");
        std::fs::File::open(path).expect("it was written").into()
    }

    #[test]
    fn a_prefix_hashed_here_is_what_a_copy_hashed() {
        let content: Vec<u8> = (0..(9 << 20) + 5_u32).map(|index| (index % 251) as u8).collect();
        let file = file(&content);
        for groups in [1, 2, 63, 64, 65, 144] {
            let len = groups * GROUP;
            let hashed = hash_prefix(&file, len, &Looked::default(), &|| false)
                .expect("it can be read")
                .expect("it is so long");
            let mut tree = FileTree::resume(len, hashed.stack().expect("whole groups")).expect("its own");
            let rest = &content[len as usize..];
            let mut values = Vec::new();
            hash_extent(rest, len, Tail::EndsFile, &mut values);
            tree.extend(rest.len() as u64, Tail::EndsFile, &mut values.into_iter()).expect("values");
            assert_eq!(tree.root(), *blake3::hash(&content).as_bytes(), "{groups} groups");
        }
    }

    #[test]
    fn a_short_file_and_a_stop_give_nothing() {
        let file = file(&[7; GROUP as usize]);
        assert!(
            hash_prefix(&file, 2 * GROUP, &Looked::default(), &|| false).expect("it can be read").is_none()
        );
        assert!(hash_prefix(&file, GROUP, &Looked::default(), &|| true).expect("it can be read").is_none());
    }
}
