//! The trees: files of a range of sizes, a given number in a directory, with content that does not compress.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::path::Path;

use blake3::Hasher;

/// Written in pieces of this many bytes.
const PIECE_BYTES: usize = 1 << 20;

/// What a tree consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forest {
    /// Files.
    pub files: u64,
    /// Their sizes, bytes.
    pub sizes: RangeInclusive<u64>,
    /// Files in a directory.
    pub per_directory: u64,
}

impl Forest {
    /// Makes the tree; returns its bytes. Names, sizes and content follow from the numbers alone.
    ///
    /// # Errors
    /// The file system's.
    pub fn make(&self, root: &Path) -> io::Result<u64> {
        let mut total = 0;
        for index in 0..self.files {
            let directory = root.join(format!("d{:05}", index / self.per_directory));
            if index % self.per_directory == 0 {
                fs::create_dir_all(&directory)?;
            }
            total += self.make_file(&directory.join(format!("file-{index:07}")), index)?;
        }
        Ok(total)
    }

    fn make_file(&self, path: &Path, index: u64) -> io::Result<u64> {
        let mut random = Hasher::new().update(b"fobs-lab trees").update(&index.to_le_bytes()).finalize_xof();
        let mut draw = [0; 8];
        random.fill(&mut draw);
        let span = (self.sizes.end() - self.sizes.start()).saturating_add(1);
        let size = self.sizes.start() + u64::from_le_bytes(draw) % span;
        let mut file = File::create_new(path)?;
        let mut content = random.take(size);
        let mut piece = vec![0; PIECE_BYTES.min(size as usize)];
        loop {
            let length = content.read(&mut piece)?;
            if length == 0 {
                return Ok(size);
            }
            file.write_all(&piece[..length])?;
        }
    }
}

/// Files in a directory and below, and their bytes.
pub fn count(root: &Path) -> io::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                directories.push(entry.path());
            } else {
                files += 1;
                bytes += metadata.len();
            }
        }
    }
    Ok((files, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_its_files_and_sizes_and_is_the_same_each_time() {
        let forest = Forest { files: 25, sizes: 0..=100, per_directory: 10 };
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let made = folders.each_ref().map(|folder| forest.make(folder.path()).unwrap());
        for (folder, bytes) in folders.iter().zip(made) {
            assert_eq!(count(folder.path()).unwrap(), (25, bytes));
        }
        let read = |index: usize, name: &str| fs::read(folders[index].path().join(name)).unwrap();
        assert_eq!(made[0], made[1]);
        assert_eq!(read(0, "d00002/file-0000024"), read(1, "d00002/file-0000024"));
        assert_ne!(read(0, "d00000/file-0000001"), read(0, "d00000/file-0000002"));
        let one = Forest { files: 1, sizes: 3_000_000..=3_000_000, per_directory: 1 };
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(one.make(folder.path()).unwrap(), 3_000_000);
    }
}
