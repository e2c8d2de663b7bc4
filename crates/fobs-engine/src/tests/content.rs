//! What files have in them, and what is below a directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Everything below `top`: files with their content, directories with none.
pub fn tree(top: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let walk = walkdir::WalkDir::new(top).min_depth(1).into_iter();
    // Files that vanish meanwhile were temporary.
    walk.filter_map(|entry| entry.ok())
        .filter_map(|entry| {
            let content = if entry.file_type().is_dir() { None } else { Some(fs::read(entry.path()).ok()?) };
            Some((entry.path().strip_prefix(top).unwrap().to_owned(), content))
        })
        .collect()
}

/// Bytes that differ everywhere and do not compress.
pub fn content(len: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut data);
    data
}
