//! The file system that hostile clients are let loose on: a served root among things that nobody may touch.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// What stands in files outside the root.
pub(super) const OUTSIDE: &str = "secret-outside-5f1c0b7e";
/// In files of the root that a key with `path=` may not reach.
pub(super) const BESIDE: &str = "secret-beside-92ab41d3";
/// In files that a key may reach, if it may read.
pub(super) const INSIDE: &str = "secret-inside-c07d6e18";
/// Part of a name there that no request names.
pub(super) const NAME: &str = "untold-name-41be";
/// The directory of the root that keys with `path=` may access.
pub const PART: &str = "in/ann";
/// When everything was modified, seconds since 1970: listings and roots are the same in every run.
const MODIFIED: u64 = 1_700_000_000;
/// Length of the file of two extents, bytes.
const LARGE: usize = 70_000;

/// An entry of the tree.
enum Made {
    Directory,
    /// A file that begins with this text.
    File(&'static str),
    /// A file of two extents.
    Large(&'static str),
    Link(&'static str),
    /// Another name of a file before it.
    Hard(&'static str),
}

use Made::{Directory, File as Text, Hard, Large, Link};

/// Everything outside the part, in order.
const AROUND: &[(&str, Made)] = &[
    (".ssh", Directory),
    (".ssh/authorized_keys", Text(OUTSIDE)),
    ("above.txt", Text(OUTSIDE)),
    ("srv", Directory),
    ("srv/.ssh", Directory),
    ("srv/.ssh/authorized_keys", Text(OUTSIDE)),
    ("srv/secret", Text(OUTSIDE)),
    ("srv/vau", Directory),
    ("srv/vau/x", Text(OUTSIDE)),
    ("srv/vault-other", Directory),
    ("srv/vault-other/x", Text(OUTSIDE)),
    ("srv/vault", Directory),
    ("srv/vault/.ssh", Directory),
    ("srv/vault/.ssh/authorized_keys", Text(BESIDE)),
    ("srv/vault/secret", Text(BESIDE)),
    ("srv/vault/in", Directory),
    ("srv/vault/in/.ssh", Directory),
    ("srv/vault/in/.ssh/authorized_keys", Text(BESIDE)),
    ("srv/vault/in/an", Text(BESIDE)),
    ("srv/vault/in/anna", Directory),
    ("srv/vault/in/anna/x", Text(BESIDE)),
    ("srv/vault/in/ann", Directory),
];

/// What is below the part.
const PARTS: &[(&str, Made)] = &[
    ("ab", Text(INSIDE)),
    ("abc", Directory),
    ("abc/x", Text(INSIDE)),
    ("d", Directory),
    ("d/ab", Text(INSIDE)),
    ("d/abc", Directory),
    ("d/abc/x", Text(INSIDE)),
    ("d/gone", Text(INSIDE)),
    ("d/old", Directory),
    ("d/old/untold-name-41be-1", Text(INSIDE)),
    ("d/untold-name-41be-2", Text(INSIDE)),
    ("base", Directory),
    ("base/same", Text("the same here and there")),
    ("tree", Directory),
    ("tree/large", Large(INSIDE)),
    ("tree/hard", Hard("tree/large")),
    ("tree/link", Link("large")),
    ("tree/untold-name-41be-3", Text(INSIDE)),
    ("tree/sub", Directory),
    ("tree/sub/small", Text(INSIDE)),
    ("tree/sub/empty", Text("")),
    ("out", Link("../../../secret")),
    ("up", Link("..")),
    ("ssh", Link("../../.ssh")),
];

/// What a client pushes from.
const SOURCE: &[(&str, Made)] = &[
    ("ab", Text("what the client has")),
    ("abc", Directory),
    ("abc/y", Text("new")),
    ("large", Large("of the client")),
    ("link", Link("ab")),
    ("hard", Hard("ab")),
    ("same", Text("the same here and there")),
    ("sub", Directory),
    ("sub/small", Text("small")),
    ("list", Text("ab\nsub/small\n")),
];

/// How much of the root is made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Root,
    /// What is below [`PART`].
    Part,
}

/// A directory for one attacker and its server.
pub struct World {
    directory: TempDir,
}

impl World {
    /// Makes one.
    pub fn new() -> io::Result<World> {
        let directory = tempfile::tempdir()?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let world = World { directory };
        for made in [world.top(), world.state()] {
            fs::create_dir(made)?;
        }
        write(&world.top(), AROUND)?;
        world.restore(Extent::Part)?;
        settle(&world.top(), AROUND)?;
        Ok(world)
    }

    /// What the manifest is of: the root and all around it.
    pub fn top(&self) -> PathBuf {
        self.directory.path().join("top")
    }

    /// Where the server keeps keys, tickets and what it remembers of paths.
    pub fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// The served root.
    pub fn root(&self) -> PathBuf {
        self.top().join("srv/vault")
    }

    /// The part of it that is changed by requests.
    pub fn part(&self) -> PathBuf {
        self.root().join(PART)
    }

    /// Makes the root, or its part, as it was at first. The root itself stays: the server has it open.
    pub fn restore(&self, extent: Extent) -> io::Result<()> {
        let (root, part) = (self.root(), self.part());
        if extent == Extent::Root {
            empty(&root)?;
            let below = |name: &'static str| name.strip_prefix("srv/vault/");
            let around = AROUND.iter().filter_map(|(name, made)| Some((below(name)?, made)));
            for (name, made) in around {
                make(&root.join(name), &root, made)?;
            }
            fs::set_permissions(&root, fs::Permissions::from_mode(0o755))?;
            rustix::fs::chown(&root, Some(rustix::process::geteuid()), Some(rustix::process::getegid()))?;
            touch(&root)?;
        }
        empty(&part)?;
        write(&part, PARTS)?;
        let absolute = self.top().join("srv/secret");
        symlink(absolute, part.join("absolute"))?;
        fs::set_permissions(&part, fs::Permissions::from_mode(0o755))?;
        settle(&part, PARTS)
    }

    /// Makes what a client pushes from.
    pub fn source(at: &Path) -> io::Result<()> {
        fs::create_dir_all(at)?;
        write(at, SOURCE)?;
        settle(at, SOURCE)
    }
}

/// Removes what is in a directory.
fn empty(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?
        } else {
            fs::remove_file(entry.path())?
        }
    }
    Ok(())
}

fn write(below: &Path, tree: &[(&str, Made)]) -> io::Result<()> {
    tree.iter().try_for_each(|(name, made)| make(&below.join(name), below, made))
}

fn make(path: &Path, below: &Path, made: &Made) -> io::Result<()> {
    match made {
        Directory => fs::create_dir(path)?,
        Text(begin) => fs::write(path, begin)?,
        Large(begin) => fs::write(path, large(begin))?,
        Link(target) => symlink(target, path)?,
        Hard(first) => fs::hard_link(below.join(first), path)?,
    }
    match made {
        Link(_) | Hard(_) => Ok(()),
        Directory => fs::set_permissions(path, fs::Permissions::from_mode(0o755)),
        Text(_) | Large(_) => fs::set_permissions(path, fs::Permissions::from_mode(0o644)),
    }
}

fn large(begin: &str) -> Vec<u8> {
    let mut bytes = begin.as_bytes().to_vec();
    let mut rest = vec![0; LARGE - bytes.len()];
    blake3::Hasher::new().update(b"large").finalize_xof().fill(&mut rest);
    bytes.append(&mut rest);
    bytes
}

/// Gives everything one time: what is deepest first, and then `below` itself.
fn settle(below: &Path, tree: &[(&str, Made)]) -> io::Result<()> {
    for (name, made) in tree.iter().rev() {
        let path = below.join(name);
        // A link has the time at which it was made: nothing here depends on it.
        if !matches!(made, Link(_)) {
            touch(&path)?;
        }
    }
    touch(below)
}

fn touch(path: &Path) -> io::Result<()> {
    File::open(path)?.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED))
}
