//! What a directory tree is, entry by entry, so that any change to it is seen.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Files of at most this length are hashed; longer ones differ by time and length.
const HASHED_MAX: u64 = 1 << 20;

/// Everything that is known of an entry without opening what it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    pub(super) links: u64,
    pub(super) size: u64,
    pub(super) modified: (i64, i64),
    pub(super) changed: (i64, i64),
    pub(super) inode: u64,
    /// Hash of a file, target of a link.
    pub(super) content: Vec<u8>,
}

impl Fact {
    /// The members that are not as before.
    fn differences(&self, before: &Fact) -> Vec<&'static str> {
        let differ = [
            ("mode", self.mode != before.mode),
            ("owner", self.owner != before.owner),
            ("names", self.links != before.links),
            ("size", self.size != before.size),
            ("time", self.modified != before.modified),
            ("time of change", self.changed != before.changed),
            ("inode", self.inode != before.inode),
            ("content", self.content != before.content),
        ];
        differ.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
    }
}

/// The entries below a directory, itself among them as the empty path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Manifest(pub(super) BTreeMap<PathBuf, Fact>);

impl Manifest {
    /// Reads all that is below `top`.
    pub(super) fn of(top: &Path) -> io::Result<Manifest> {
        let mut manifest = Manifest::default();
        let mut open = vec![(Rc::new(File::open(top)?), OsString::from("."), PathBuf::new())];
        while let Some((directory, name, relative)) = open.pop() {
            // By the directory's descriptor: a server may make paths that are too long for the kernel.
            let path = below(&directory, &name);
            let fact = fact(&path)?;
            if fact.mode & 0o170_000 == 0o040_000 {
                let within = Rc::new(File::open(&path)?);
                for entry in fs::read_dir(below(&within, OsStr::new(".")))? {
                    let name = entry?.file_name();
                    open.push((within.clone(), name.clone(), relative.join(name)));
                }
            }
            manifest.0.insert(relative, fact);
        }
        Ok(manifest)
    }

    /// What differs from `before`, outside the directories `may` change: a line for each entry.
    pub(super) fn changes(&self, before: &Manifest, may: &[PathBuf]) -> Vec<String> {
        let names = self.0.keys().chain(before.0.keys().filter(|path| !self.0.contains_key(*path)));
        let outside = names.filter(|path| !may.iter().any(|directory| path.starts_with(directory)));
        outside
            .filter_map(|path| {
                let shown = path.display();
                match (before.0.get(path), self.0.get(path)) {
                    (None, Some(_)) => Some(format!("{shown} is new")),
                    (Some(_), None) => Some(format!("{shown} is gone")),
                    (Some(before), Some(after)) if before != after => {
                        Some(format!("{shown} changed: {}", after.differences(before).join(", ")))
                    }
                    _ => None,
                }
            })
            .collect()
    }
}

/// A short path of what is in a directory.
fn below(directory: &File, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name)
}

fn fact(path: &Path) -> io::Result<Fact> {
    let of = fs::symlink_metadata(path)?;
    let content = match of.file_type() {
        kind if kind.is_symlink() => {
            use std::os::unix::ffi::OsStringExt;
            fs::read_link(path)?.into_os_string().into_vec()
        }
        kind if kind.is_file() && of.len() <= HASHED_MAX => {
            blake3::hash(&fs::read(path)?).as_bytes().to_vec()
        }
        _ => Vec::new(),
    };
    Ok(Fact {
        mode: of.mode(),
        owner: (of.uid(), of.gid()),
        links: of.nlink(),
        size: of.size(),
        modified: (of.mtime(), of.mtime_nsec()),
        changed: (of.ctime(), of.ctime_nsec()),
        inode: of.ino(),
        content,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// What a change makes of a tree of a directory with a file and a link.
    fn seen(may: &[&str], change: impl FnOnce(&Path)) -> Vec<String> {
        let top = tempfile::tempdir().unwrap();
        let path = |name: &str| top.path().join(name);
        fs::create_dir(path("d")).unwrap();
        fs::write(path("d/f"), "one").unwrap();
        symlink("f", path("d/l")).unwrap();
        let before = Manifest::of(top.path()).unwrap();
        change(top.path());
        let may: Vec<PathBuf> = may.iter().map(PathBuf::from).collect();
        Manifest::of(top.path()).unwrap().changes(&before, &may)
    }

    #[test]
    fn every_kind_of_change_is_seen() {
        assert!(seen(&[], |_| ()).is_empty());
        let changes: [fn(&Path); 6] = [
            |top| fs::write(top.join("d/f"), "two").unwrap(),
            |top| fs::set_permissions(top.join("d/f"), fs::Permissions::from_mode(0o600)).unwrap(),
            |top| fs::remove_file(top.join("d/l")).unwrap(),
            |top| fs::hard_link(top.join("d/f"), top.join("g")).unwrap(),
            |top| {
                // The same bytes in another file.
                fs::write(top.join("g"), "one").unwrap();
                fs::rename(top.join("g"), top.join("d/f")).unwrap();
            },
            |top| {
                fs::remove_file(top.join("d/l")).unwrap();
                symlink("g", top.join("d/l")).unwrap();
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert!(!seen(&[], change).is_empty(), "change {number}");
        }
    }

    #[test]
    fn what_may_change_does_not_excuse_what_is_beside_it() {
        assert!(seen(&["d"], |top| fs::write(top.join("d/new"), "").unwrap()).is_empty());
        // The directory above has another entry, and says so.
        let beside = seen(&["d"], |top| fs::write(top.join("d2"), "").unwrap());
        assert!(beside.iter().any(|line| line == "d2 is new"), "{beside:?}");
    }
    #[test]
    fn what_lies_deeper_than_a_path_is_long_is_seen() {
        let top = tempfile::tempdir().unwrap();
        let (mut at, mut held) = (top.path().to_path_buf(), Vec::new());
        // Two halves, each of which a path can name.
        for half in ["first-half/".repeat(250), "other-half/".repeat(250)] {
            fs::create_dir_all(at.join(&half)).unwrap();
            held.push(File::open(at.join(&half)).unwrap());
            at = below(held.last().unwrap(), OsStr::new("."));
        }
        fs::write(at.join("f"), "deep").unwrap();
        let manifest = Manifest::of(top.path()).unwrap();
        let deepest = manifest.0.keys().map(|path| path.as_os_str().len()).max().unwrap();
        assert_eq!((manifest.0.len(), deepest), (502, 5501));
    }
}
