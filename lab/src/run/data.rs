//! The files that are moved: random content from a seed, in memory, compared after each run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use blake3::{Hash, Hasher, OutputReader};

use super::group::{is_leftover, own_prefix};

/// Where files in memory are.
const MEMORY: &str = "/dev/shm";
/// Bytes that stay free beside the files: the system needs memory, too.
const RESERVE_BYTES: u64 = 512 << 20;
/// Written and read in pieces of this many bytes.
const PIECE_BYTES: usize = 1 << 20;

/// Our own directory in memory, and the files in it that flows send; all gone when it is dropped.
pub struct Data {
    folder: tempfile::TempDir,
    seed: u64,
    /// By size.
    sources: BTreeMap<u64, Source>,
}

/// A file to send.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    hash: Hash,
}

impl Data {
    /// A new directory in memory.
    pub fn new(seed: u64) -> Result<Data, String> {
        let made = tempfile::Builder::new().prefix(&own_prefix()).tempdir_in(MEMORY);
        let folder = made.map_err(|error| format!("cannot make a directory in {MEMORY}: {error}"))?;
        Ok(Data { folder, seed, sources: BTreeMap::new() })
    }

    /// The directory.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where the file of `bytes` bytes is, once [`Data::source`] has made it.
    pub fn path(&self, bytes: u64) -> PathBuf {
        self.folder.path().join(format!("data-{bytes}"))
    }

    /// The file of `bytes` bytes, made at the first call. `copies` are the copies that the run will make of
    /// it.
    pub fn source(&mut self, bytes: u64, copies: u64) -> Result<Source, String> {
        let have = self.sources.contains_key(&bytes);
        let needed = bytes.saturating_mul(copies + u64::from(!have));
        self.make_room(needed, bytes)?;
        if let Some(source) = self.sources.get(&bytes) {
            return Ok(source.clone());
        }
        let path = self.path(bytes);
        let hash = write_random(&path, bytes, self.seed)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let source = Source { path, bytes, hash };
        self.sources.insert(bytes, source.clone());
        Ok(source)
    }

    /// Removes files that are not in use, the largest first, until `needed` bytes are free.
    fn make_room(&mut self, needed: u64, keep: u64) -> Result<(), String> {
        loop {
            let free = free_bytes(self.folder.path())?;
            if free >= needed.saturating_add(RESERVE_BYTES) {
                return Ok(());
            }
            let Some(largest) = self.sources.keys().rev().find(|bytes| **bytes != keep).copied() else {
                return Err(format!(
                    "{MEMORY} has {} MB free and the run needs {} MB: make bytes smaller",
                    free / 1_000_000,
                    (needed + RESERVE_BYTES) / 1_000_000
                ));
            };
            if let Some(source) = self.sources.remove(&largest) {
                let _ = fs::remove_file(source.path);
            }
        }
    }
}

impl Source {
    /// Whether a file has the same content; if not, one sentence on how it differs.
    pub fn compare(&self, copy: &Path) -> Result<(), String> {
        let mut file = File::open(copy).map_err(|error| format!("no file arrived: {error}"))?;
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        if bytes != self.bytes {
            return Err(format!("{bytes} bytes arrived instead of {}", self.bytes));
        }
        let mut hasher = Hasher::new();
        hasher.update_reader(&mut file).map_err(|error| format!("what arrived cannot be read: {error}"))?;
        if hasher.finalize() == self.hash {
            Ok(())
        } else {
            Err("the received data differs from the data sent".to_owned())
        }
    }
}

/// Removes the files of runners that were killed.
pub fn remove_leftovers() {
    let entries = fs::read_dir(MEMORY).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_leftover(&entry.file_name().to_string_lossy())) {
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Bytes of all files in a directory and below, of whatever arrived.
pub fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    });
    sizes.sum()
}

fn free_bytes(folder: &Path) -> Result<u64, String> {
    let stat = rustix::fs::statvfs(folder)
        .map_err(|error| format!("cannot read the free space of {MEMORY}: {error}"))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Writes content that does not compress, the same for the same seed and length; returns its hash.
fn write_random(path: &Path, bytes: u64, seed: u64) -> io::Result<Hash> {
    let mut random = content(bytes, seed).take(bytes);
    let mut file = BufWriter::with_capacity(0, File::create(path)?);
    let mut hasher = Hasher::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = random.read(&mut piece)?;
        if length == 0 {
            break;
        }
        hasher.update(&piece[..length]);
        file.write_all(&piece[..length])?;
    }
    file.flush()?;
    Ok(hasher.finalize())
}

/// Endless random bytes: BLAKE3's extended output of the seed and the length.
fn content(bytes: u64, seed: u64) -> OutputReader {
    Hasher::new()
        .update(b"fobs-lab data")
        .update(&seed.to_le_bytes())
        .update(&bytes.to_le_bytes())
        .finalize_xof()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_random_the_same_for_a_seed_and_compared_whole() {
        let mut data = Data::new(7).unwrap();
        let source = data.source(100_001, 1).unwrap();
        let copy = data.folder().join("copy");
        fs::copy(&source.path, &copy).unwrap();
        assert_eq!(source.compare(&copy), Ok(()));

        let mut content = fs::read(&copy).unwrap();
        let zeros = content.iter().filter(|byte| **byte == 0).count();
        assert!((200..600).contains(&zeros), "{zeros} of 100001 bytes are zero");
        assert_eq!(Data::new(7).unwrap().source(100_001, 1).unwrap().hash, source.hash);
        assert_ne!(Data::new(8).unwrap().source(100_001, 1).unwrap().hash, source.hash);

        content[50_000] ^= 1;
        fs::write(&copy, &content).unwrap();
        assert!(source.compare(&copy).unwrap_err().contains("differs from the data sent"));
        content.pop();
        fs::write(&copy, &content).unwrap();
        assert!(source.compare(&copy).unwrap_err().contains("100000 bytes"));
        assert!(source.compare(&data.folder().join("nothing")).unwrap_err().contains("no file arrived"));
        assert_eq!(bytes_below(data.folder()), 200_001);
    }

    #[test]
    fn more_than_memory_is_refused_before_it_is_written() {
        let mut data = Data::new(1).unwrap();
        let error = data.source(1 << 60, 1).unwrap_err();
        assert!(error.contains("make bytes smaller"), "{error}");
    }
}
