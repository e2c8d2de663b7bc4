//! Pieces of a file: a power of two of bytes that begins at a multiple of it, so a whole subtree of the
//! file's BLAKE3 tree. The values of all pieces give the file's hash, and verify each piece alone.

use super::Base;
use super::names::{entry, refused};
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::listing::{Entry, EntryKind};
use rustix::fs::{self, OFlags};
use rustix::io::{Errno, pread};

/// Smallest piece, bytes.
pub const PIECE_MIN: u64 = 64 << 10;
/// Largest piece, bytes: a receiver holds one until it is verified.
pub const PIECE_MAX: u64 = 64 << 20;
/// Most pieces of a file that is hashed: their values take 128 MiB.
const PIECES_MAX: u64 = 1 << 22;
/// Bytes that are read at once to be hashed: less than a CPU's own cache.
const READ_MAX: usize = 256 << 10;
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// How many values a file of `size` bytes has: none if it is one piece, whose value is the file's hash.
pub fn value_count(size: u64, piece: u64) -> u64 {
    if size > piece { size.div_ceil(piece) } else { 0 }
}

/// A file's hash from the values of its pieces; `None` for fewer than two.
pub fn join(values: &[ChainingValue]) -> Option<[u8; 32]> {
    if values.len() < 2 {
        return None;
    }
    let (left, right) = halves(values);
    Some(*merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash).as_bytes())
}

fn subtree(values: &[ChainingValue]) -> ChainingValue {
    if let [value] = values {
        return *value;
    }
    let (left, right) = halves(values);
    merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
}

/// As BLAKE3 cuts: the left half is the largest power of two that leaves something.
fn halves(values: &[ChainingValue]) -> (&[ChainingValue], &[ChainingValue]) {
    values.split_at(1 << (values.len() - 1).ilog2())
}

/// Refuses a length that no piece can have.
pub fn check(piece: u64) -> Result<()> {
    if piece.is_power_of_two() && (PIECE_MIN..=PIECE_MAX).contains(&piece) {
        return Ok(());
    }
    let message = format!("a piece is a power of two of {PIECE_MIN} to {PIECE_MAX} bytes, not {piece}");
    Err(Error::new(ErrorKind::Usage, message))
}

/// Hashes the file `name`, handing the value of each piece to `take`; returns what it is, with its root.
/// `go_on` is called before each piece.
pub fn hash(
    base: &Base,
    name: &[u8],
    piece: u64,
    go_on: &mut dyn FnMut() -> Result<()>,
    take: &mut dyn FnMut(ChainingValue) -> Result<()>,
) -> Result<Entry> {
    let refuse = |errno| refused("hash", name, errno);
    let file = base.open(name, READ).map_err(refuse)?;
    let before = fs::fstat(&file).map_err(refuse)?;
    let found = entry(fobs_filter::path::split(name).1, &before);
    if found.kind != EntryKind::File {
        return Err(refuse(if found.kind == EntryKind::Directory { Errno::ISDIR } else { Errno::INVAL }));
    }
    if value_count(found.size, piece) > PIECES_MAX {
        let shown = fobs_filter::path::show(name);
        let message =
            format!("'{shown}' has more than {PIECES_MAX} pieces of {piece} bytes; ask for larger ones");
        return Err(Error::new(ErrorKind::Usage, message));
    }
    // Of small files there are many: a buffer of the full length costs more than their bytes.
    let buffer_len = usize::try_from(found.size).unwrap_or(READ_MAX).min(READ_MAX);
    let (mut values, mut buffer) = (Vec::new(), vec![0; buffer_len]);
    let (mut at, is_one) = (0, found.size <= piece);
    let root = loop {
        go_on()?;
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(at);
        let end = found.size.min(at + piece);
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(buffer_len).min(buffer_len);
            match pread(&file, &mut buffer[..want], at).map_err(refuse)? {
                0 => return Err(changed(name)),
                count => {
                    hasher.update(&buffer[..count]);
                    at += count as u64;
                }
            }
        }
        if is_one {
            break Some(*hasher.finalize().as_bytes());
        }
        let value = hasher.finalize_non_root();
        values.push(value);
        take(value)?;
        if at == found.size {
            break join(&values);
        }
    };
    let after = fs::fstat(&file).map_err(refuse)?;
    let time = |stat: &fs::Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    if time(&before) != time(&after) {
        return Err(changed(name));
    }
    Ok(Entry { root, ..found })
}

fn changed(name: &[u8]) -> Error {
    let message = format!("'{}' changed while it was hashed; try again", fobs_filter::path::show(name));
    Error::new(ErrorKind::FileIo, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn values_of_any_length_join_to_the_standard_hash() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let data: Vec<u8> = (0..9 * PIECE_MIN + 17).map(|at| (at * 31 % 251) as u8).collect();
        for len in
            [0, 1, PIECE_MIN - 1, PIECE_MIN, PIECE_MIN + 1, 2 * PIECE_MIN, 5 * PIECE_MIN, 9 * PIECE_MIN + 17]
        {
            let content = &data[..len as usize];
            std::fs::write(&path, content).unwrap();
            let mut values = Vec::new();
            let mut take = |value| {
                values.push(value);
                Ok(())
            };
            let name = path.as_os_str().as_bytes();
            let found = hash(&Base::Ambient, name, PIECE_MIN, &mut || Ok(()), &mut take).unwrap();
            assert_eq!(found.root, Some(*blake3::hash(content).as_bytes()), "{len}");
            assert_eq!((found.size, values.len() as u64), (len, value_count(len, PIECE_MIN)));
            assert_eq!(join(&values), found.root.filter(|_| len > PIECE_MIN));
        }
    }

    #[test]
    fn a_file_of_too_many_pieces_is_refused_before_it_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sparse");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(PIECE_MIN * PIECES_MAX + 1).unwrap();
        let name = path.as_os_str().as_bytes();
        let mut take = |_| panic!("nothing is read");
        let refused = hash(&Base::Ambient, name, PIECE_MIN, &mut || Ok(()), &mut take).unwrap_err();
        assert!(refused.message.contains("ask for larger ones"), "{refused}");
    }

    #[test]
    fn a_file_that_changes_while_it_is_hashed_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let name = path.as_os_str().as_bytes();
        for (len, again) in [(3 * PIECE_MIN, 2 * PIECE_MIN), (2 * PIECE_MIN, 3 * PIECE_MIN)] {
            std::fs::write(&path, vec![1; len as usize]).unwrap();
            let mut take = |_| {
                std::fs::write(&path, vec![1; again as usize]).unwrap();
                Ok(())
            };
            let outcome = hash(&Base::Ambient, name, PIECE_MIN, &mut || Ok(()), &mut take);
            assert!(outcome.unwrap_err().message.contains("changed while it was hashed"));
        }
    }
}
