//! Content from a seed, trees, and the comparison of two trees with modes and times.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Files are written and read in pieces of this size.
const PIECE: usize = 1 << 20;
/// Bytes for two files of a gibibyte, with some slack.
const ROOM_BYTES: u64 = 3 << 30;

/// Content and choices from a seed.
#[derive(Debug, Clone)]
pub struct Random(fobs_rng::Rng);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(fobs_rng::Rng::new(seed))
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound as usize) as u64
    }

    /// Fills a buffer.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        self.0.fill(buffer);
    }

    /// Some bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }
}

/// Writes a file of `bytes` random bytes; returns the hex of its BLAKE3.
pub fn write_random(path: &Path, bytes: u64, random: &mut Random) -> String {
    let mut file = File::create(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; PIECE];
    let mut left = bytes;
    while left > 0 {
        let piece = &mut buffer[..left.min(PIECE as u64) as usize];
        random.fill(piece);
        hasher.update(piece);
        file.write_all(piece).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        left -= piece.len() as u64;
    }
    hasher.finalize().to_hex().to_string()
}

/// The hex of a file's BLAKE3, as `b3sum` prints it.
#[track_caller]
pub fn hash(path: &Path) -> String {
    let mut file = File::open(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; PIECE];
    loop {
        match file.read(&mut buffer).unwrap_or_else(|e| panic!("{path:?}: {e}")) {
            0 => return hasher.finalize().to_hex().to_string(),
            count => _ = hasher.update(&buffer[..count]),
        }
    }
}

/// A directory with room for two gibibytes: in memory if possible, else on disk.
pub fn roomy_directory() -> Option<PathBuf> {
    [PathBuf::from("/dev/shm"), std::env::temp_dir()].into_iter().find(|directory| {
        rustix::fs::statvfs(directory).is_ok_and(|fs| fs.f_bavail * fs.f_frsize >= ROOM_BYTES)
    })
}

/// The kind of an entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A directory.
    Directory,
    /// A file: size and BLAKE3.
    File(u64, String),
    /// A symbolic link: its target.
    Symlink(OsString),
}

/// What a comparison includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// Names, content, link targets.
    Content,
    /// Modes and modification times too (`-p`).
    Metadata,
}

/// The entries of a tree by relative path, with mode and modification time if compared.
pub type Listing = BTreeMap<PathBuf, (Entry, Option<(u32, SystemTime)>)>;

/// Lists a tree; the root itself is the empty path.
#[track_caller]
pub fn list(root: &Path, compare: Compare) -> Listing {
    let mut listing = Listing::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(relative) = todo.pop() {
        let path = if relative.as_os_str().is_empty() { root.to_owned() } else { root.join(&relative) };
        let meta = fs::symlink_metadata(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let entry = if meta.is_dir() {
            for child in fs::read_dir(&path).unwrap_or_else(|e| panic!("{path:?}: {e}")) {
                todo.push(relative.join(child.expect("a directory that can be read").file_name()));
            }
            Entry::Directory
        } else if meta.is_symlink() {
            Entry::Symlink(fs::read_link(&path).expect("a link").into_os_string())
        } else {
            Entry::File(meta.len(), hash(&path))
        };
        // A link's own mode and time are not portable; `-p` is about files and directories.
        let kept = compare == Compare::Metadata && !meta.is_symlink();
        let attributes =
            kept.then(|| (meta.mode() & 0o7777, meta.modified().expect("this system keeps times")));
        listing.insert(relative, (entry, attributes));
    }
    listing
}

/// Fails the test unless both trees are the same; names the first few differences.
#[track_caller]
pub fn assert_same_tree(sent: &Path, arrived: &Path, compare: Compare) {
    let (left, right) = (list(sent, compare), list(arrived, compare));
    let mut differences = Vec::new();
    for path in left.keys().chain(right.keys().filter(|path| !left.contains_key(*path))) {
        if left.get(path) != right.get(path) {
            differences.push(format!("{path:?}: sent {:?}, arrived {:?}", left.get(path), right.get(path)));
        }
    }
    let shown = differences.iter().take(8).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} differences:\n{shown}", differences.len());
}

/// The names right in a directory, sorted.
#[track_caller]
pub fn names(directory: &Path) -> Vec<OsString> {
    let read = fs::read_dir(directory).unwrap_or_else(|e| panic!("{directory:?}: {e}"));
    let mut names: Vec<_> = read.map(|entry| entry.expect("readable").file_name()).collect();
    names.sort();
    names
}

/// A small tree with everything that a tree may hold: names of any bytes, nesting, empty files and
/// directories, links (to a file, to a directory, dangling), odd modes and old times.
pub fn make_odd_tree(root: &Path, random: &mut Random) {
    let directories = ["", "empty", "deep/er/est", "with space", "-dash", "read-only"];
    for directory in directories {
        fs::create_dir_all(root.join(directory)).expect("a fresh tree");
    }
    let long = "n".repeat(255);
    let names: Vec<Vec<u8>> = vec![
        b"plain".to_vec(),
        b"empty-file".to_vec(),
        b"new\nline".to_vec(),
        b"tab\tand \x1b[31mcolour".to_vec(),
        b"\xff\xfe\x80 not utf-8".to_vec(),
        "gr\u{fc}\u{df}e \u{1f980}".as_bytes().to_vec(),
        b"-rf".to_vec(),
        b"quote'\"$(x)`y`;*?".to_vec(),
        b"back\\slash".to_vec(),
        b".hidden".to_vec(),
        b"host:path".to_vec(),
        long.into_bytes(),
        (1..=255u8).filter(|b| *b != b'/').take(200).collect(),
    ];
    for (index, name) in names.iter().enumerate() {
        let bytes = if name == b"empty-file" { 0 } else { random.below(70_000) };
        write_random(&root.join(OsStr::from_bytes(name)), bytes, random);
        write_random(&root.join("deep/er/est").join(format!("{index}")), random.below(5_000), random);
    }
    write_random(&root.join("read-only/inside"), 4_321, random);
    symlink("plain", root.join("link-to-file")).expect("a link");
    symlink("deep/er", root.join("link-to-directory")).expect("a link");
    symlink("../nowhere/\u{fc}", root.join("with space/dangling")).expect("a link");
    symlink(OsString::from_vec(b"bytes \xff\x01".to_vec()), root.join("link-of-bytes")).expect("a link");

    let modes = [("plain", 0o755), ("-rf", 0o600), (".hidden", 0o444), ("-dash", 0o750), ("deep/er", 0o700)];
    for (name, mode) in modes {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).expect("own file");
    }
    set_times(root);
    // Last: nothing can be created in it afterwards, which a receiver must handle, too.
    fs::set_permissions(root.join("read-only"), fs::Permissions::from_mode(0o555)).expect("own directory");
}

/// Gives everything in a tree a time of its own, in the past, with nanoseconds; children before their
/// directories.
fn set_times(root: &Path) {
    let listing = list(root, Compare::Content);
    for (index, (relative, (entry, _))) in listing.iter().enumerate().rev() {
        if matches!(entry, Entry::Symlink(_)) {
            continue;
        }
        let when = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000 + 86_400 * index as u64, 123_456_789);
        let path = if relative.as_os_str().is_empty() { root.to_owned() } else { root.join(relative) };
        File::open(&path)
            .and_then(|file| file.set_modified(when))
            .unwrap_or_else(|e| panic!("{path:?}: {e}"));
    }
}

/// A tree of `files` files of up to `bytes_max` bytes, 200 a directory.
pub fn make_many(root: &Path, files: usize, bytes_max: u64, random: &mut Random) {
    for index in 0..files {
        let directory = root.join(format!("d{:03}", index / 200));
        if index % 200 == 0 {
            fs::create_dir_all(&directory).expect("a fresh tree");
        }
        let len = random.below(bytes_max + 1) as usize;
        fs::write(directory.join(format!("f{index:06}")), random.bytes(len)).expect("a fresh file");
    }
}

/// Makes a tree deletable again whatever modes it has: for the temporary directory's own clean-up.
pub fn make_writable(root: &Path) {
    let Ok(read) = fs::read_dir(root) else { return };
    for entry in read.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o755));
            make_writable(&entry.path());
        }
    }
}

/// A seed determines its tree; a changed byte, mode, link or name is a difference.
#[test]
fn a_seed_determines_its_tree_and_differences_are_found() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (one, two, three) = (dir.path().join("one"), dir.path().join("two"), dir.path().join("three"));
    make_odd_tree(&one, &mut Random::new(7));
    make_odd_tree(&two, &mut Random::new(7));
    make_odd_tree(&three, &mut Random::new(8));
    assert_same_tree(&one, &two, Compare::Metadata);
    assert_ne!(list(&one, Compare::Content), list(&three, Compare::Content));

    let differ = |compare| list(&one, compare) != list(&two, compare);
    fs::set_permissions(two.join("plain"), fs::Permissions::from_mode(0o644)).expect("own file");
    assert!(differ(Compare::Metadata) && !differ(Compare::Content));
    fs::remove_file(two.join("link-to-file")).expect("a link");
    symlink("-rf", two.join("link-to-file")).expect("a link");
    assert!(differ(Compare::Content));
    make_writable(dir.path());
}

/// Our hash is the one that the well-known tool prints: BLAKE3 of "abc" (official test vectors list it for
/// other inputs; this value is what `printf abc | b3sum` prints).
#[test]
fn the_hash_is_what_b3sum_prints() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("abc");
    fs::write(&path, b"abc").expect("a file");
    assert_eq!(hash(&path), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
}
