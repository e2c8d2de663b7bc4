//! Random trees with everything that a sync keeps, changes to them, and what is compared of them.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lgetxattr, llistxattr, lsetxattr,
    makedev, mknodat, utimensat,
};

use super::files::Random;

/// Modification times are this and a few seconds more, in 2020.
pub const LONG_AGO: i64 = 1_600_000_000;
const NAMES: [&str; 8] = ["a", "b", "c.o", "d.txt", "dir", "e e", "keep", "z.o"];
/// An owner and a group that have no name on any host.
const NOBODY: u32 = 54_321;
/// The extended attribute of an ACL, and one in the format of the kernel (`linux/posix_acl_xattr.h`): version
/// 2, then tag, permissions and number each: `u::rw-,u:54321:r--,g::r--,m::r--,o::r--`.
const ACL: &str = "system.posix_acl_access";
const ACL_ENTRIES: [(u16, u16, u32); 5] =
    [(1, 6, u32::MAX), (2, 4, NOBODY), (4, 4, u32::MAX), (0x10, 4, u32::MAX), (0x20, 4, u32::MAX)];

/// What the host and its file system can do beside files, directories and links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Owners and devices: root.
    pub root: bool,
    pub xattrs: bool,
    pub acls: bool,
    /// Whether files have more than one name: chosen, not tried.
    pub links: bool,
}

impl Abilities {
    /// Tries them in a directory, and names what is missing.
    pub fn try_out(directory: &Path) -> Abilities {
        let path = directory.join("abilities");
        fs::write(&path, "").expect("a fresh file");
        let abilities = Abilities {
            root: chown(&path, Some(NOBODY), None).is_ok(),
            xattrs: lsetxattr(&path, "user.try", b"1", XattrFlags::empty()).is_ok(),
            acls: lsetxattr(&path, ACL, &acl(), XattrFlags::empty()).is_ok(),
            links: true,
        };
        fs::remove_file(&path).expect("own file");
        let missing = [("root", abilities.root), ("xattrs", abilities.xattrs), ("ACLs", abilities.acls)];
        for (name, _) in missing.iter().filter(|(_, has)| !has) {
            eprintln!("without {name}: this host has none, so that is not compared");
        }
        abilities
    }
}

fn acl() -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, number) in ACL_ENTRIES {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(number.to_le_bytes());
    }
    bytes
}

/// Picks one.
pub fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

/// The second before this one: from here on nothing is given an earlier time by the clock.
pub fn just_now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    now as i64 - 1
}

/// Sets the time of anything but a link's target.
pub fn set_time(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("own file");
}

/// Gives an entry what not every entry has.
fn dress(path: &Path, random: &mut Random, abilities: Abilities) {
    match random.below(8) {
        0 if abilities.root => chown(path, Some(NOBODY), None).expect("root may"),
        1 if abilities.root => chown(path, None, Some(NOBODY)).expect("root may"),
        2 if abilities.xattrs => {
            let value = pick(random, &["1", "2", "long value"]);
            lsetxattr(path, "user.note", value.as_bytes(), XattrFlags::empty()).expect("it was tried");
        }
        3 if abilities.acls => lsetxattr(path, ACL, &acl(), XattrFlags::empty()).expect("it was tried"),
        _ => {}
    }
}

fn write_file(path: &Path, random: &mut Random, abilities: Abilities) {
    let len = pick(random, &[0, 1, 5, 5, 5, 70_000]);
    fs::write(path, random.bytes(len)).expect("a fresh file");
    if random.below(8) == 0 {
        // With a hole before its last byte.
        let file = File::options().write(true).open(path).expect("own file");
        file.write_at(b"z", 300_000).expect("own file");
    }
    let mode = pick(random, &[0o644, 0o644, 0o600, 0o755]);
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("own file");
    dress(path, random, abilities);
    set_time(path, LONG_AGO + random.below(4) as i64);
}

fn make_special(path: &Path, random: &mut Random, abilities: Abilities) {
    let kinds = [FileType::Fifo, FileType::Socket, FileType::CharacterDevice];
    let kind = pick(random, &kinds[..if abilities.root { 3 } else { 2 }]);
    let device = makedev(1, pick(random, &[3, 5]));
    let number = if kind == FileType::CharacterDevice { device } else { 0 };
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o644), number).expect("a fresh name");
    set_time(path, LONG_AGO + random.below(4) as i64);
}

/// Makes a tree; the same one for the same random numbers.
pub fn make_tree(top: &Path, random: &mut Random, depth: u32, abilities: Abilities) {
    fs::create_dir_all(top).expect("a directory");
    let mut written: Option<PathBuf> = None;
    for name in NAMES {
        let path = top.join(name);
        match random.below(9) {
            0..=2 => {
                write_file(&path, random, abilities);
                written = Some(path);
            }
            3 | 4 if depth > 0 => make_tree(&path, random, depth - 1, abilities),
            5 => {
                symlink(pick(random, &["a", "nowhere", "../b"]), &path).expect("a fresh link");
                set_time(&path, LONG_AGO + random.below(4) as i64);
            }
            6 if random.below(2) == 0 => make_special(&path, random, abilities),
            7 if written.is_some() && abilities.links => {
                fs::hard_link(written.as_ref().expect("it is"), &path).expect("a fresh name");
            }
            _ => {}
        }
    }
    let mode = pick(random, &[0o755, 0o755, 0o700, 0o775]);
    fs::set_permissions(top, fs::Permissions::from_mode(mode)).expect("own directory");
    set_time(top, LONG_AGO + random.below(4) as i64);
}

/// Changes a tree: some entries go, some become another type, some change.
pub fn change_tree(top: &Path, random: &mut Random, depth: u32, abilities: Abilities) {
    for name in NAMES {
        let path = top.join(name);
        let Ok(found) = fs::symlink_metadata(&path) else {
            if random.below(8) == 0 {
                write_file(&path, random, abilities);
            }
            continue;
        };
        match random.below(9) {
            0 => remove(&path),
            1 => {
                remove(&path);
                write_file(&path, random, abilities);
            }
            2 if found.is_file() => set_time(&path, LONG_AGO + random.below(4) as i64),
            3 if found.is_file() => {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("own file");
            }
            4 if !found.is_dir() => {
                remove(&path);
                make_tree(&path, random, 0, abilities);
            }
            5 if found.is_file() => dress(&path, random, abilities),
            _ if found.is_dir() && depth > 0 => change_tree(&path, random, depth - 1, abilities),
            _ => {}
        }
    }
    set_time(top, LONG_AGO + random.below(4) as i64);
}

fn remove(path: &Path) {
    let removed = if fs::symlink_metadata(path).expect("it is there").is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    removed.expect("own file");
}

/// An entry as it is compared; times since the test began are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    mode: u32,
    owner: (u32, u32),
    time: Option<i64>,
    device: u64,
    content: Vec<u8>,
    xattrs: BTreeMap<String, Vec<u8>>,
    /// The first path of the same file, in this tree or beside it.
    same_as: PathBuf,
}

/// What an entry is, as far as rules differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Other,
}

impl Entry {
    pub fn kind(&self) -> FileKind {
        match FileType::from_raw_mode(self.mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            _ => FileKind::Other,
        }
    }

    /// A line of it, for people.
    pub fn brief(&self) -> String {
        let Entry { mode, owner, time, device, xattrs, same_as, .. } = self;
        let content: String = self.content.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let hex = |value: &[u8]| value.iter().take(60).map(|byte| format!("{byte:02x}")).collect::<String>();
        let xattrs: Vec<String> =
            xattrs.iter().map(|(name, value)| format!("{name}={}", hex(value))).collect();
        format!("{mode:o} {owner:?} {time:?} {device} {content} {} {xattrs:?}", same_as.display())
    }

    /// The hash of a file, or a link's target.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    pub fn xattrs_are_empty(&self) -> bool {
        self.xattrs.is_empty()
    }

    /// Takes another one's time, which is not compared.
    pub fn take_time(&mut self, other: &Entry) {
        self.time = other.time;
    }

    /// Whether both are files of the same content.
    pub fn has_content_of(&self, other: &Entry) -> bool {
        self.kind() == FileKind::File && other.kind() == FileKind::File && self.content == other.content
    }

    /// Makes it the other one's file: its content, time and place.
    pub fn take_file(&mut self, other: &Entry) {
        self.take_time(other);
        (self.content, self.same_as) = (other.content.clone(), other.same_as.clone());
    }

    /// Likewise the owner and group.
    pub fn take_owner(&mut self, other: &Entry) {
        self.owner = other.owner;
    }

    /// Whether its permissions are among those of another one.
    pub fn is_narrower(&self, other: &Entry) -> bool {
        self.mode & !other.mode == 0
    }

    /// Drops what is not compared.
    pub fn forget_own_xattrs(&mut self) {
        self.xattrs.retain(|name, _| name.starts_with("system.posix_acl_"));
    }

    /// Likewise.
    pub fn forget_acls(&mut self) {
        self.xattrs.retain(|name, _| !name.starts_with("system.posix_acl_"));
    }

    /// Likewise its content.
    pub fn take_content(&mut self, other: &Entry) {
        self.content.clone_from(&other.content);
    }

    /// Likewise its group.
    pub fn take_group(&mut self, other: &Entry) {
        self.owner.1 = other.owner.1;
    }

    /// Likewise the permissions.
    pub fn take_mode(&mut self, other: &Entry) {
        if self.kind() == other.kind() {
            self.mode = other.mode;
        }
    }
}

/// Everything at and below a directory, and which of it is a file of `beside`.
pub fn listing(top: &Path, beside: Option<&Path>, began: i64) -> BTreeMap<PathBuf, Entry> {
    let mut entries = BTreeMap::new();
    let mut first_paths = HashMap::new();
    if let Some(beside) = beside.filter(|beside| beside.is_dir()) {
        add(beside, beside, began, &mut first_paths, &mut BTreeMap::new());
        first_paths.values_mut().for_each(|path: &mut PathBuf| *path = Path::new("beside").join(&path));
    }
    add(top, top, began, &mut first_paths, &mut entries);
    entries
}

fn add(
    top: &Path,
    path: &Path,
    began: i64,
    first_paths: &mut HashMap<u64, PathBuf>,
    to: &mut BTreeMap<PathBuf, Entry>,
) {
    let found = fs::symlink_metadata(path).expect("it is there");
    let content = match found.file_type() {
        kind if kind.is_symlink() => {
            fs::read_link(path).expect("a link").into_os_string().into_encoded_bytes()
        }
        kind if kind.is_file() => blake3::hash(&fs::read(path).expect("own file")).as_bytes().to_vec(),
        _ => Vec::new(),
    };
    let inner = path.strip_prefix(top).expect("below").to_path_buf();
    // A journal was in the top directory: where times are left, that leaves a new one.
    let time = Some(found.mtime()).filter(|&time| time < began && !inner.as_os_str().is_empty());
    let same_as = first_paths.entry(found.ino()).or_insert_with(|| inner.clone()).clone();
    let (owner, device) = ((found.uid(), found.gid()), found.rdev());
    let xattrs = xattrs(path);
    to.insert(inner, Entry { mode: found.mode(), owner, time, device, content, xattrs, same_as });
    if found.is_dir() {
        let mut inside: Vec<_> =
            fs::read_dir(path).expect("own directory").flatten().map(|entry| entry.path()).collect();
        inside.sort();
        inside.iter().for_each(|inner| add(top, inner, began, first_paths, to));
    }
}

fn xattrs(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0_u8; 4096];
    let len = llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = String::from_utf8_lossy(&names[..len]).into_owned();
    let value = |name: &str| {
        let mut value = vec![0_u8; 4096];
        let len = lgetxattr(path, name, &mut value[..]).unwrap_or(0);
        value.truncate(len);
        value
    };
    names.split('\0').filter(|name| !name.is_empty()).map(|name| (name.to_owned(), value(name))).collect()
}
