//! A file system in memory: what the recorded calls make of it, and how such a state is put on a real one.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::super::support::set_mode;
use fobs_model::name::ours::{is_journal, suffix_in};

use crate::recorder::{Birth, Id, Made, Op};

/// What has an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub content: Content,
    pub mode: u32,
    /// Where it was set.
    pub time: Option<(i64, u64)>,
    /// When it was made, as far as the journal can learn it.
    pub birth: Birth,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    File(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, Id>),
    Symlink(Vec<u8>),
}

/// A tree below a directory.
#[derive(Clone)]
pub struct Files {
    pub top: Id,
    pub nodes: HashMap<Id, Node>,
}

/// Real inodes of a tree that was put on a real file system.
pub type Known = HashMap<u64, (Id, Birth)>;

impl Files {
    /// What is below a directory; `id` gives the inodes their numbers.
    pub fn read(top: &Path, id: &dyn Fn(u64) -> (Id, Birth)) -> Files {
        let mut files = Files { top: id(inode(top)).0, nodes: HashMap::new() };
        files.read_in(top, id);
        files
    }

    fn read_in(&mut self, path: &Path, id: &dyn Fn(u64) -> (Id, Birth)) {
        let found = fs::symlink_metadata(path).expect("it is there");
        let content = if found.is_dir() {
            let mut entries = BTreeMap::new();
            for entry in fs::read_dir(path).expect("own directory").flatten() {
                self.read_in(&entry.path(), id);
                entries.insert(entry.file_name().as_bytes().to_vec(), id(inode(&entry.path())).0);
            }
            Content::Directory(entries)
        } else if found.is_symlink() {
            Content::Symlink(fs::read_link(path).expect("a link").as_os_str().as_bytes().to_vec())
        } else {
            Content::File(fs::read(path).expect("own file"))
        };
        let (number, birth) = id(found.ino());
        let time = Some((found.mtime(), found.mtime_nsec() as u64));
        let mode = found.mode() & 0o7777;
        self.nodes.insert(number, Node { content, mode, time, birth });
    }

    pub fn entries(&mut self, directory: Id) -> Option<&mut BTreeMap<Vec<u8>, Id>> {
        match &mut self.nodes.get_mut(&directory)?.content {
            Content::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    /// The bytes of a file.
    pub fn bytes(&mut self, file: Id) -> Option<&mut Vec<u8>> {
        match &mut self.nodes.get_mut(&file)?.content {
            Content::File(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Does as a call did. One whose directory or file is not there does nothing: the call before it that
    /// made that was lost.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Make { directory, name, made, what, mode, birth } => {
                let content = match what {
                    Made::File => Content::File(Vec::new()),
                    Made::Directory => Content::Directory(BTreeMap::new()),
                    Made::Symlink(target) => Content::Symlink(target.clone()),
                };
                self.nodes.insert(*made, Node { content, mode: *mode, time: None, birth: *birth });
                self.name(*directory, name, *made);
            }
            Op::Link { file, directory, name } => self.name(*directory, name, *file),
            Op::Rename { directory, name, to, new } => {
                let moved = self.entries(*directory).and_then(|entries| entries.remove(name));
                if let Some(moved) = moved {
                    self.name(*to, new, moved);
                }
            }
            Op::Unlink { directory, name } => {
                self.entries(*directory).map(|entries| entries.remove(name));
            }
            Op::Write { file, offset, data } => {
                if let Some(bytes) = self.bytes(*file) {
                    put(bytes, *offset as usize, data);
                }
            }
            Op::Truncate { file, len } => {
                if let Some(bytes) = self.bytes(*file) {
                    bytes.resize(*len as usize, 0);
                }
            }
            Op::Mode { file, mode } => {
                if let Some(node) = self.nodes.get_mut(file) {
                    node.mode = *mode;
                }
            }
            Op::Times { file, seconds, nanoseconds } => {
                if let Some(node) = self.nodes.get_mut(file) {
                    node.time = Some((*seconds, *nanoseconds));
                }
            }
            Op::Sync { .. } | Op::SyncAll | Op::SyncFailed { .. } => {}
        }
    }

    fn name(&mut self, directory: Id, name: &[u8], id: Id) {
        self.entries(directory).map(|entries| entries.insert(name.to_vec(), id));
    }

    /// Makes it in an empty directory.
    pub fn put_at(&self, top: &Path) -> Known {
        let mut made = HashMap::new();
        self.put_in(self.top, top, &mut made);
        let known = |(id, path): (Id, std::path::PathBuf)| (inode(&path), (id, self.nodes[&id].birth));
        made.into_iter().map(known).collect()
    }

    fn put_in(&self, id: Id, path: &Path, made: &mut HashMap<Id, std::path::PathBuf>) {
        let node = &self.nodes[&id];
        if let Some(first) = made.get(&id) {
            fs::hard_link(first, path).expect("one more name");
            return;
        }
        match &node.content {
            Content::File(bytes) => fs::write(path, bytes).expect("a file"),
            Content::Symlink(target) => {
                symlink(std::ffi::OsStr::from_bytes(target), path).expect("a link");
            }
            Content::Directory(entries) => {
                if id != self.top {
                    fs::create_dir(path).expect("a directory");
                }
                for (name, id) in entries {
                    self.put_in(*id, &path.join(std::ffi::OsStr::from_bytes(name)), made);
                }
            }
        }
        made.insert(id, path.to_owned());
        if matches!(node.content, Content::Symlink(_)) {
            return;
        }
        if let Some((seconds, nanoseconds)) = node.time {
            let time = UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds as u32);
            File::open(path).and_then(|file| file.set_modified(time)).expect("own file");
        }
        set_mode(path, node.mode);
    }

    /// Each path with what is there: what it leads to, and the first path of the same file.
    pub fn paths(&self) -> BTreeMap<Vec<u8>, (&Node, Vec<u8>)> {
        let (mut found, mut first) = (BTreeMap::new(), HashMap::new());
        self.paths_in(self.top, Vec::new(), &mut found, &mut first);
        found
    }

    fn paths_in<'f>(
        &'f self,
        id: Id,
        path: Vec<u8>,
        found: &mut BTreeMap<Vec<u8>, (&'f Node, Vec<u8>)>,
        first: &mut HashMap<Id, Vec<u8>>,
    ) {
        let node = &self.nodes[&id];
        if let Content::Directory(entries) = &node.content {
            for (name, id) in entries {
                let below = if path.is_empty() { name.clone() } else { [&path, &b"/"[..], name].concat() };
                self.paths_in(*id, below, found, first);
            }
        }
        let of = first.entry(id).or_insert_with(|| path.clone()).clone();
        found.insert(path, (node, of));
    }

    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (path, (node, _)) in self.paths() {
            let what = match &node.content {
                Content::File(bytes) => format!("{} bytes", bytes.len()),
                Content::Directory(_) => "directory".to_owned(),
                Content::Symlink(_) => "link".to_owned(),
            };
            let (mode, path) = (node.mode, path.escape_ascii());
            writeln!(text, "  {mode:o} {path} {what} {:?}", node.time).expect("into memory");
        }
        text
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.describe())
    }
}

/// Writes at an offset, behind zeros where it is beyond the end.
pub fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if bytes.len() < offset + data.len() {
        bytes.resize(offset + data.len(), 0);
    }
    bytes[offset..offset + data.len()].copy_from_slice(data);
}

pub fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).expect("it is there").ino()
}

/// Whether unfinished files may be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    None,
    /// Of a device that failed for good.
    Tolerated,
}

impl Unfinished {
    pub fn or(self, other: Unfinished) -> Unfinished {
        if self == Unfinished::None { other } else { self }
    }
}

/// How two trees differ, in what a copy is to keep: names, kinds, contents, permissions, files with several
/// names; and the time of files where `times`.
pub fn differ(there: &Files, expected: &Files, times: bool, unfinished: Unfinished) -> Option<String> {
    let (there, expected) = (there.paths(), expected.paths());
    let names = |of: &BTreeMap<Vec<u8>, _>| of.keys().cloned().collect::<Vec<_>>();
    for path in names(&there) {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is_ours = suffix_in(name).is_some() || is_journal(name);
        let is_tolerated = unfinished == Unfinished::Tolerated && is_ours;
        if !expected.contains_key(&path) && !is_tolerated {
            return Some(format!("'{}' is left over", path.escape_ascii()));
        }
    }
    for (path, (wanted, first)) in &expected {
        let shown = path.escape_ascii();
        let Some((found, found_first)) = there.get(path) else {
            return Some(format!("'{shown}' is missing"));
        };
        let same = match (&found.content, &wanted.content) {
            (Content::Directory(_), Content::Directory(_)) => true,
            (found, wanted) => found == wanted,
        };
        if !same {
            return Some(format!("'{shown}' has another content"));
        }
        let is_link = matches!(wanted.content, Content::Symlink(_));
        if found.mode != wanted.mode && !is_link {
            return Some(format!("'{shown}' has mode {:o} in place of {:o}", found.mode, wanted.mode));
        }
        if found_first != first {
            return Some(format!("'{shown}' is another file than '{}'", first.escape_ascii()));
        }
        if times && matches!(wanted.content, Content::File(_)) && found.time != wanted.time {
            return Some(format!("'{shown}' has another time"));
        }
    }
    None
}
