//! What a host may be like for a sync: its mounts, what directories give to what is made in them, whose
//! files they are, and what befalls the first run. Each choice is drawn from a stream of its own, so that one
//! that is added later changes none of the others.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{XattrFlags, lsetxattr};

use crate::daemon::NOBODY;
use crate::files::Random;
use crate::remote::Direction;
use crate::sync_trees::{Abilities, LONG_AGO, change_tree, make_tree, pick, set_time};

/// A group without a name, which set-gid directories have.
const GROUP: u32 = 54_321;
/// Where file systems are mounted in the trees; no random tree has these names.
const MOUNTED_IN_BOTH: &str = "mnt";
/// An earlier tree, beside the target.
pub const BASIS: &str = "basis";
pub const MOUNTED_IN_TARGET: &str = "only-mnt";
/// A directory of the target on a file system that takes no writes, which the source has too.
pub const FROZEN: &str = "frozen";
/// Room of a full destination: for some of the large files of a tree.
const FULL_BYTES: [u64; 3] = [65_536, 200_000, 500_000];

/// Who stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiver {
    Root,
    /// A user that owns the destination.
    User,
}

/// What befalls the first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Nothing,
    /// It is killed after this time, ms.
    Killed(u64),
    /// The destination has room for this many bytes.
    Full(u64),
    /// A part of the destination takes no writes: for rsync too, and in each run.
    Frozen,
    /// The destination's file system fails after this time, ms.
    Fails(u64),
}

impl Fate {
    /// Whether the first run may end in the middle.
    pub fn breaks_off(self) -> bool {
        matches!(self, Fate::Killed(_) | Fate::Full(_) | Fate::Fails(_))
    }
}

/// The circumstances of one seed.
#[derive(Debug)]
pub struct World {
    pub seed: u64,
    pub direction: Direction,
    pub options: Vec<String>,
    pub receiver: Receiver,
    pub fate: Fate,
    /// A file system is mounted in the source, in the target at the same place, in the target alone.
    mounts: [bool; 3],
    gives_acls: bool,
    gives_group: bool,
    has_read_only: bool,
    has_xattrs: bool,
    /// A file of the source is removed once it is stored (`--remove-source-files`).
    pub moves: bool,
    /// What is unchanged in an earlier tree is linked from there (`--link-dest`).
    pub links_from: bool,
    /// How what changed and moved is sent, which changes nothing of what then stands there.
    pub ways: &'static [&'static str],
}

/// Where both sides have versions of the same files.
const VERSIONS: &str = "versions";
const WAYS: [&[&str]; 7] = [
    &[],
    &["--delta=always"],
    &["--delta=never"],
    &["--delta=always", "--track-renames"],
    &["--track-renames"],
    &["--delta=always", "--fuzzy"],
    &["--no-track-renames"],
];

/// Which side a version is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    New,
    Old,
}

/// The choices of one name.
fn stream(seed: u64, name: &str) -> Random {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(name.as_bytes());
    let first = hasher.finalize().as_bytes().first_chunk().copied().expect("a hash has eight bytes");
    Random::new(u64::from_le_bytes(first))
}

fn one_in(seed: u64, name: &str, of: u64) -> bool {
    stream(seed, name).below(of) == 0
}

fn options(seed: u64) -> Vec<String> {
    let kept =
        ["-a", "-a", "-aX", "-aAX", "-aH", "-aHAX", "-rlt", "-rt", "-a --no-p", "-a --no-o --no-g", "-rlpt"];
    let deletes = ["", "--delete", "--delete-before", "--delete-after", "--delete-delay"];
    let drawn = [
        pick(&mut stream(seed, "kept"), &kept),
        pick(&mut stream(seed, "deletes"), &deletes),
        pick(&mut stream(seed, "devices"), &["", "", "-x"]),
        pick(&mut stream(seed, "compares"), &["", "", "", "-c", "-I"]),
        pick(
            &mut stream(seed, "chmod"),
            &["", "", "", "", "", "--chmod=g+w", "--chmod=D2775,F664", "--chmod=o="],
        ),
        "-i",
    ];
    drawn
        .iter()
        .flat_map(|words| words.split(' '))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

impl World {
    pub fn draw(seed: u64, has_disks: bool) -> World {
        let mut fate = stream(seed, "fate");
        let fate = match fate.below(10) {
            0..=3 => Fate::Nothing,
            4 | 5 => Fate::Killed(fate.below(400)),
            6 | 7 => Fate::Full(pick(&mut fate, &FULL_BYTES)),
            8 => Fate::Frozen,
            _ if has_disks => Fate::Fails(fate.below(400)),
            _ => Fate::Nothing,
        };
        let may_mount = !matches!(fate, Fate::Fails(_));
        let mut options = options(seed);
        let has = |text: &str| options.iter().any(|option| option.starts_with(text));
        // A run that goes on deletes what the one before has moved, here and there.
        let moves = one_in(seed, "moves", 6) && !(has("--delete") && fate.breaks_off());
        // Not from another file system; and which of several names, modes or owners a linked file has is a
        // question of their order elsewhere.
        let links_from = one_in(seed, "links from", 5)
            && may_mount
            && has("-a")
            && !["-aH", "--no", "--chmod"].iter().any(|text| has(text));
        options.extend(moves.then(|| "--remove-source-files".to_owned()));
        options.extend(links_from.then(|| format!("--link-dest=../{BASIS}")));
        World {
            seed,
            direction: pick(&mut stream(seed, "direction"), &[Direction::Push, Direction::Pull]),
            options,
            receiver: if one_in(seed, "receiver", 4) { Receiver::User } else { Receiver::Root },
            fate,
            mounts: ["mount in the source", "mount in both", "mount in the target"]
                .map(|name| may_mount && one_in(seed, name, 4)),
            gives_acls: one_in(seed, "default ACL", 3),
            gives_group: one_in(seed, "set-gid", 3),
            has_read_only: one_in(seed, "read-only", 3),
            has_xattrs: one_in(seed, "xattrs", 3),
            moves,
            links_from,
            ways: pick(&mut stream(seed, "ways"), &WAYS),
        }
    }

    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|given| given == option)
    }

    /// Whether a letter is among those of `-aHAX` and the like.
    pub fn has_letter(&self, letter: char) -> bool {
        self.options.iter().any(|given| !given.starts_with("--") && given.contains(letter))
    }

    pub fn deletes(&self) -> bool {
        self.options.iter().any(|option| option.starts_with("--delete"))
    }

    /// Whether others may make names in the target's directories.
    pub fn shares(&self) -> bool {
        self.gives_acls || self.gives_group
    }

    pub fn keeps_groups(&self) -> bool {
        self.has_letter('a') && !self.has("--no-g")
    }

    pub fn keeps_modes(&self) -> bool {
        (self.has_letter('p') || self.has_letter('a')) && !self.has("--no-p")
    }

    /// Makes the source; the same one at each place.
    pub fn make_source(&self, top: &Path, abilities: Abilities) -> Vec<Mounted> {
        let seeds = [stream(self.seed, "tree").next(), stream(self.seed, "source").next()];
        let links = self.has_letter('H');
        let mounted = self.make(top, &seeds, Abilities { links, ..abilities }, [self.mounts[0], false]);
        if let Fate::Killed(_) | Fate::Fails(_) = self.fate {
            // Long enough for something to happen in it.
            fs::write(top.join("large"), stream(self.seed, "large").bytes(3 << 20)).expect("room");
        }
        if self.fate == Fate::Frozen {
            make_tree(&top.join(FROZEN), &mut stream(self.seed, "frozen"), 1, abilities);
        }
        self.make_versions(top, Version::New);
        set_time(top, LONG_AGO + 5);
        mounted
    }

    /// Files that changed, and that have another name or place at the target; not where it has little room.
    fn make_versions(&self, top: &Path, version: Version) {
        if matches!(self.fate, Fate::Full(_)) {
            return;
        }
        let mut random = stream(self.seed, VERSIONS);
        let directory = top.join(VERSIONS);
        fs::create_dir_all(directory.join("old place")).expect("own directory");
        for number in 0..6 {
            let len = 1 << random.below(19);
            let mut bytes = random.bytes(len);
            let at = random.below(len as u64 + 1) as usize;
            let [extra, is_moved] = [random.below(900), random.below(2)];
            let new_place = ["new name", "old place/1"][random.below(2) as usize];
            let old_place = ["old name", "old place/2"][random.below(2) as usize];
            if is_moved == 0 && version == Version::New {
                bytes.splice(at..at, stream(extra, VERSIONS).bytes(extra as usize));
            }
            let place = match (is_moved, version) {
                (0, _) => format!("{number}"),
                (_, Version::New) => format!("{new_place} {number}"),
                (_, Version::Old) => format!("{old_place} {number}"),
            };
            let path = directory.join(place);
            fs::write(&path, bytes).expect("room");
            let seconds = if is_moved == 0 && version == Version::Old { 100 } else { 200 };
            set_time(&path, LONG_AGO + seconds + number);
        }
        for place in ["old place", ""] {
            set_time(&directory.join(place), LONG_AGO + 8);
        }
    }

    /// Makes the earlier tree beside the target, which has some of the source as it is.
    pub fn make_basis(&self, top: &Path, abilities: Abilities) {
        let root = abilities.root && self.receiver == Receiver::Root;
        let abilities = Abilities { links: false, root, ..abilities };
        let seeds = [stream(self.seed, "tree").next(), stream(self.seed, "basis").next()];
        make_tree(top, &mut Random::new(seeds[0]), 2, abilities);
        change_tree(top, &mut Random::new(seeds[1]), 2, abilities);
        if self.receiver == Receiver::User {
            give(top, NOBODY);
        }
    }

    /// Makes what stands at the target.
    pub fn make_target(&self, top: &Path, abilities: Abilities) -> Vec<Mounted> {
        let mut mounted = Vec::new();
        if let Fate::Full(bytes) = self.fate {
            mounted.push(Mounted::at(top, &format!("size={bytes}")));
        }
        let seeds = [stream(self.seed, "tree").next(), stream(self.seed, "target").next()];
        let small = matches!(self.fate, Fate::Full(_));
        // Owners and devices that a plain user could not have made.
        let root = abilities.root && self.receiver == Receiver::Root;
        let abilities = Abilities { links: false, root, ..abilities };
        if small {
            fs::write(top.join("a"), "older").expect("room");
            fs::write(top.join("only here"), "stays or goes").expect("room");
            ["a", "only here"].iter().for_each(|name| set_time(&top.join(name), LONG_AGO + 7));
        } else {
            mounted.extend(self.make(top, &seeds, abilities, [self.mounts[1], self.mounts[2]]));
            self.make_versions(top, Version::Old);
        }
        if self.receiver == Receiver::User {
            give(top, NOBODY);
        }
        self.inherit(top, abilities);
        if self.fate == Fate::Frozen {
            mounted.push(Mounted::at(&top.join(FROZEN), ""));
            fs::write(top.join(FROZEN).join("a"), "what stands here").expect("room");
            set_time(&top.join(FROZEN).join("a"), LONG_AGO + 7);
            set_time(&top.join(FROZEN), LONG_AGO + 7);
            run("mount", &["-o", "remount,ro"], &top.join(FROZEN));
        }
        set_time(top, LONG_AGO + 6);
        mounted
    }

    fn make(&self, top: &Path, seeds: &[u64; 2], abilities: Abilities, mounts: [bool; 2]) -> Vec<Mounted> {
        let mut mounted = Vec::new();
        make_tree(top, &mut Random::new(seeds[0]), 2, abilities);
        change_tree(top, &mut Random::new(seeds[1]), 2, abilities);
        for (is_mounted, place) in mounts.into_iter().zip([MOUNTED_IN_BOTH, MOUNTED_IN_TARGET]) {
            if is_mounted {
                mounted.push(Mounted::at(&top.join(place), ""));
                make_tree(&top.join(place), &mut stream(seeds[1], place), 1, abilities);
            }
        }
        let mut modes = stream(seeds[1], "modes");
        if self.has_read_only {
            make_read_only(top, &mut modes);
        }
        if self.has_xattrs && abilities.xattrs {
            let value = modes.bytes(200);
            lsetxattr(top, "user.top", &value, XattrFlags::empty()).expect("it was tried");
        }
        mounted
    }

    /// Has the target's directories give an ACL and a group to what is made in them.
    fn inherit(&self, top: &Path, abilities: Abilities) {
        for directory in [top.to_owned(), top.join("dir")].iter().filter(|path| path.is_dir()) {
            if self.gives_acls && abilities.acls {
                lsetxattr(directory, "system.posix_acl_default", &default_acl(), XattrFlags::empty())
                    .expect("it was tried");
            }
            if self.gives_group {
                let group = if self.receiver == Receiver::User { NOBODY } else { GROUP };
                lchown(directory, None, Some(group)).expect("root may");
                let mode = fs::metadata(directory).expect("it is there").permissions().mode();
                fs::set_permissions(directory, fs::Permissions::from_mode(mode & 0o7777 | 0o2000))
                    .expect("own directory");
            }
        }
    }
}

/// `u::rwx,g::r-x,g:54321:rwx,m::rwx,o::---` in the format of the kernel.
fn default_acl() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(1, 7, u32::MAX), (4, 5, u32::MAX), (8, 7, GROUP), (0x10, 7, u32::MAX), (0x20, 0, u32::MAX)];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, number) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(number.to_le_bytes());
    }
    bytes
}

/// Takes the owner's right to write from some entries.
fn make_read_only(top: &Path, random: &mut Random) {
    let mut entries: Vec<_> = fs::read_dir(top).expect("own directory").flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().expect("it is there");
        let path = entry.path();
        if kind.is_dir() {
            make_read_only(&path, random);
        }
        if (kind.is_dir() || kind.is_file()) && random.below(3) == 0 {
            let mode = if kind.is_dir() { 0o555 } else { pick(random, &[0o444, 0o400]) };
            let time = filetime(&path);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("own file");
            debug_assert_eq!(time, filetime(&path), "a mode changes no time of what is in it");
        }
    }
}

fn filetime(path: &Path) -> std::time::SystemTime {
    fs::metadata(path).and_then(|found| found.modified()).expect("it is there")
}

/// Makes a user the owner of all that is in a tree.
fn give(top: &Path, user: u32) {
    let found = top.symlink_metadata().expect("it is there");
    lchown(top, Some(user), Some(user)).expect("root may");
    if found.is_dir() {
        fs::read_dir(top).expect("own directory").flatten().for_each(|entry| give(&entry.path(), user));
    }
    if !found.is_symlink() {
        // A change of owner takes setuid and setgid away.
        fs::set_permissions(top, found.permissions()).expect("own file");
    }
}

/// A file system in memory; unmounted when dropped.
pub struct Mounted(PathBuf);

impl Mounted {
    fn at(path: &Path, options: &str) -> Mounted {
        fs::create_dir_all(path).expect("our own place");
        let options = if options.is_empty() { "mode=755" } else { options };
        run("mount", &["-t", "tmpfs", "-o", options, "tmpfs"], path);
        Mounted(path.to_owned())
    }

    /// Gives a full one room.
    pub fn grow(&self) {
        run("mount", &["-o", "remount,size=64m"], &self.0);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // One that is in use goes with its last user.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) {
    let status = Command::new(program).args(arguments).arg(path).status();
    assert!(status.expect("it is installed").success(), "{program} {arguments:?} {}", path.display());
}
