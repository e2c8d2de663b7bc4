//! How much a job is to write, as far as a short look says.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Most entries that are looked at, and for how long: a submission returns at once. Of what is larger the
/// attempt itself says how much it is.
const ENTRIES_MAX: usize = 50_000;
/// See [`ENTRIES_MAX`].
const TIME_MAX: Duration = Duration::from_secs(1);

/// Bytes of the files below these paths; none where that takes too long, or something cannot be read.
pub fn of(paths: &[PathBuf]) -> Option<u64> {
    let begin = Instant::now();
    let (mut bytes, mut entries) = (0_u64, 0);
    let mut left: Vec<PathBuf> = Vec::new();
    for path in paths {
        // A link that is named is followed, as the copy does; those below it are not.
        left.push(fs::canonicalize(path).ok()?);
    }
    // Each entry is looked at once, so this ends.
    while let Some(path) = left.pop() {
        entries += 1;
        if entries > ENTRIES_MAX || begin.elapsed() > TIME_MAX {
            return None;
        }
        let found = fs::symlink_metadata(&path).ok()?;
        if found.is_file() {
            bytes = bytes.saturating_add(found.len());
        } else if found.is_dir() {
            for entry in fs::read_dir(&path).ok()? {
                left.push(entry.ok()?.path());
            }
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_added_up_and_links_count_nothing() {
        let home = tempfile::tempdir().expect("a directory");
        let path = |name: &str| home.path().join(name);
        fs::create_dir(path("tree")).expect("own");
        fs::write(path("tree/a"), [0; 1000]).expect("room");
        fs::write(path("b"), [0; 24]).expect("room");
        std::os::unix::fs::symlink(path("b"), path("tree/link")).expect("own");
        std::os::unix::fs::symlink(path("tree"), path("named")).expect("own");
        assert_eq!(of(&[path("tree"), path("b")]), Some(1024));
        assert_eq!(of(&[path("named")]), Some(1000));
        assert_eq!(of(&[path("gone")]), None);
        assert_eq!(of(&[]), Some(0));
    }
}
