//! Holes of files (`-S`): found at the sender, hashed by both sides as the zeros that they are.

use std::os::fd::AsFd;

use blake3::hazmat::ChainingValue;
use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::Errno;

use crate::tree_hash::{ExtentHasher, GROUP, Tail};

/// Most bytes of holes in a chunk (protocol 7.3): both sides hash them, which takes about as long as a chunk
/// of data takes to arrive at 1 Gbit/s.
pub(crate) const HOLES_MAX: u64 = 256 << 20;
/// Unit of `st_blocks`, bytes.
const BLOCK: u64 = 512;
/// Zeros that are hashed at once.
static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// The next part of a file that may have holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Zeros, of which no byte is stored.
    Hole {
        /// Bytes: whole groups unless the file ends there.
        len: u64,
        /// Whether the file ends there.
        tail: Tail,
    },
    /// Data, to be read.
    Data {
        /// Bytes up to where the next part may begin: whole groups, or more than the file has.
        len: u64,
    },
}

/// Whether less of a file is stored than its size.
pub(crate) fn may_have_holes(file: impl AsFd) -> bool {
    fstat(file).is_ok_and(|stat| {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        size > GROUP && u64::try_from(stat.st_blocks).unwrap_or(u64::MAX).saturating_mul(BLOCK) < size
    })
}

/// The part of a file of `size` bytes that begins at `offset`, a multiple of [`GROUP`]; a hole of at most
/// `hole_max` bytes, at least [`GROUP`]. Where the file system does not tell, all is data.
pub(crate) fn part_at(file: impl AsFd, offset: u64, size: u64, hole_max: u64) -> Part {
    let file = file.as_fd();
    let to_end = Part::Data { len: u64::MAX };
    if offset >= size {
        return to_end;
    }
    let data = match seek(file, SeekFrom::Data(offset)) {
        Ok(data) => data.min(size),
        // No data follows.
        Err(Errno::NXIO) => size,
        Err(_) => return to_end,
    };
    let hole = data.saturating_sub(offset);
    let whole = hole - hole % GROUP;
    let allowed = hole_max - hole_max % GROUP;
    match (data == size, whole) {
        (true, _) if hole <= allowed => return Part::Hole { len: hole, tail: Tail::EndsFile },
        (_, 1..) => return Part::Hole { len: whole.min(allowed), tail: Tail::Continues },
        _ => {}
    }
    match seek(file, SeekFrom::Hole(data)) {
        Ok(end) if end < size => {
            Part::Data { len: end.saturating_sub(offset).max(1).next_multiple_of(GROUP) }
        }
        _ => to_end,
    }
}

/// Hashes a hole like an extent of zeros: appends the values of its pieces.
pub(crate) fn hash_hole(offset: u64, len: u64, tail: Tail, values: &mut Vec<ChainingValue>) {
    let mut hasher = ExtentHasher::new(offset, len, tail);
    let mut left = len;
    while left > 0 {
        let now = left.min(ZEROS.len() as u64);
        hasher.update(&ZEROS[..now as usize]);
        left -= now;
    }
    values.append(&mut hasher.finish().expect("the whole hole was given"));
}

/// Writes `len` zeros, for what has no holes.
pub(crate) fn write_zeros<E>(mut len: u64, mut write: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    while len > 0 {
        let now = len.min(ZEROS.len() as u64);
        write(&ZEROS[..now as usize])?;
        len -= now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::tree_hash::{FileTree, hash_extent};

    /// A file with holes and its parts up to its end; none where the file system has no holes.
    fn parts(size: u64, data: &[u64], hole_max: u64) -> Option<Vec<(u64, Part)>> {
        let file: File = tempfile::tempfile().expect("a file");
        file.set_len(size).expect("it can be long");
        for &at in data {
            file.write_all_at(b"x", at).expect("it can be written");
        }
        if size > GROUP && data.len() < 4 && !may_have_holes(&file) {
            return None;
        }
        let (mut parts, mut at) = (Vec::new(), 0);
        while at < size {
            let part = part_at(&file, at, size, hole_max);
            parts.push((at, part));
            at = match part {
                Part::Hole { len, .. } => at + len,
                Part::Data { len } => at.saturating_add(len),
            };
        }
        Some(parts)
    }

    #[test]
    fn holes_are_whole_groups_or_end_the_file() {
        let size = 40 * GROUP + 5;
        let hole = |len, tail| Part::Hole { len, tail };
        let Some(empty) = parts(size, &[], u64::MAX) else { return };
        assert_eq!(empty, [(0, hole(size, Tail::EndsFile))]);
        let bounded = parts(size, &[], 16 * GROUP + 7).expect("it has holes");
        assert_eq!(
            bounded,
            [
                (0, hole(16 * GROUP, Tail::Continues)),
                (16 * GROUP, hole(16 * GROUP, Tail::Continues)),
                (32 * GROUP, hole(8 * GROUP + 5, Tail::EndsFile)),
            ]
        );
        let middle = parts(size, &[20 * GROUP + 70_000], u64::MAX).expect("it has holes");
        assert_eq!(middle[0], (0, hole(21 * GROUP, Tail::Continues)));
        assert_eq!(middle[1], (21 * GROUP, Part::Data { len: GROUP }));
        assert_eq!(middle[2], (22 * GROUP, hole(18 * GROUP + 5, Tail::EndsFile)));
        let end = parts(size, &[size - 1], u64::MAX).expect("it has holes");
        assert_eq!(end, [(0, hole(40 * GROUP, Tail::Continues)), (40 * GROUP, Part::Data { len: u64::MAX })]);
    }

    #[test]
    fn a_hole_hashes_as_its_zeros() {
        for (offset, len, tail) in [
            (0, 5, Tail::EndsFile),
            (0, 3 * GROUP, Tail::Continues),
            (4 * GROUP, 5 * GROUP, Tail::Continues),
            (4 * GROUP, 9 * GROUP + 1, Tail::EndsFile),
        ] {
            let (mut expected, mut values) = (Vec::new(), Vec::new());
            hash_extent(&vec![0; len as usize], offset, tail, &mut expected);
            hash_hole(offset, len, tail, &mut values);
            assert_eq!(values, expected, "{offset} {len} {tail:?}");
        }
        let mut tree = FileTree::default();
        for (len, tail) in [(4 * GROUP, Tail::Continues), (3 * GROUP + 9, Tail::EndsFile)] {
            let mut values = Vec::new();
            hash_hole(tree.len(), len, tail, &mut values);
            tree.extend(len, tail, &mut values.into_iter()).expect("enough values");
        }
        assert_eq!(tree.root(), *blake3::hash(&vec![0; 7 * GROUP as usize + 9]).as_bytes());
    }
}
