//! What a directory gives to what a session makes in it: as much as the kernel gives to any program.

use super::open;
use crate::served::{Served, content};
use fobs::{Onto, Session};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;

/// A group that this process is not in.
const GROUP: u32 = 1235;
/// Permissions of what is copied.
const COPIED: u32 = 0o754;
/// Those of what is replaced.
const REPLACED: u32 = 0o640;

/// Entries of an ACL: tag, permissions and number.
type Acl = &'static [(u16, u16, u32)];

const NARROW: Acl = &[(1, 7, u32::MAX), (4, 5, u32::MAX), (0x20, 0, u32::MAX)];
const NAMED: Acl =
    &[(1, 7, u32::MAX), (2, 7, 1234), (4, 5, u32::MAX), (0x10, 7, u32::MAX), (0x20, 0, u32::MAX)];
const WIDE: Acl = &[(1, 7, u32::MAX), (4, 7, u32::MAX), (0x20, 5, u32::MAX)];

/// How something gets a name in the directory `in`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With its request.
    Object,
    /// By the data plane.
    LargeObject,
    Copy,
    Directory,
    /// With the one above it.
    Directories,
}

const WAYS: [Way; 5] = [Way::Object, Way::LargeObject, Way::Copy, Way::Directory, Way::Directories];

impl Way {
    fn is_directory(self) -> bool {
        matches!(self, Way::Directory | Way::Directories)
    }

    /// Gives it; the path.
    fn make(self, session: &Session, name: &str) -> String {
        let path = format!("in/{name}");
        match self {
            Way::Object => drop(session.send(&path, b"small").unwrap()),
            Way::LargeObject => drop(session.send(&path, &content(2 << 20)).unwrap()),
            Way::Copy => drop(session.copy("source", &path, Onto::Anything).unwrap()),
            Way::Directory => session.make_directory(&path).unwrap(),
            Way::Directories => session.make_directories(format!("{path}/below")).unwrap(),
        }
        path
    }

    /// What the kernel gives to a program that makes the same.
    fn by_hand(self, path: &Path, umask: u32) {
        if self.is_directory() {
            fs::DirBuilder::new().mode(0o777).create(path).unwrap();
            return;
        }
        // A copy has the permissions of its source, which no umask takes; the others what a new file gets.
        let mode = if self == Way::Copy { COPIED } else { 0o666 };
        fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path).unwrap();
        let is_inherited = getxattr(path.parent().unwrap(), DEFAULT, &mut [0; 256][..]).is_ok();
        if self == Way::Copy && !is_inherited && umask != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

const DEFAULT: &str = "system.posix_acl_default";

/// Makes the directory; false where the file system has no ACLs.
fn make_parent(path: &Path, acl: Option<Acl>, mode: u32) -> bool {
    fs::create_dir(path).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(path, None, Some(GROUP)).unwrap();
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let Some(acl) = acl else { return true };
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, may, number) in acl {
        bytes.extend([&tag.to_le_bytes()[..], &may.to_le_bytes(), &number.to_le_bytes()].concat());
    }
    setxattr(path, DEFAULT, &bytes, XattrFlags::empty()).is_ok()
}

/// Mode, group and ACLs.
fn given(path: &Path) -> (u32, u32, [Vec<u8>; 2]) {
    let found = fs::metadata(path).unwrap();
    let acl = |name: &str| {
        let mut value = vec![0; 1024];
        let len = getxattr(path, name, &mut value[..]).unwrap_or(0);
        value.truncate(len);
        value
    };
    (found.mode() & 0o7777, found.gid(), ["system.posix_acl_access", DEFAULT].map(acl))
}

#[test]
fn what_a_session_makes_has_what_its_directory_gives() {
    let served = Served::start(|_| ());
    let session = open(&served);
    let at = |path: &str| served.root().join(path);
    fs::write(at("source"), b"source").unwrap();
    fs::set_permissions(at("source"), fs::Permissions::from_mode(COPIED)).unwrap();
    fs::write(at("probe"), b"").unwrap();
    let umask = 0o666 & !given(&at("probe")).0;
    for acl in [None, Some(NARROW), Some(NAMED), Some(WIDE)] {
        for mode in [0o755, 0o2750] {
            if !make_parent(&at("in"), acl, mode) {
                eprintln!("without ACLs: this host's file system has none, so that is not compared");
                fs::remove_dir(at("in")).unwrap();
                continue;
            }
            for way in WAYS {
                let hand = at("in/hand");
                way.by_hand(&hand, umask);
                let made = at(&way.make(&session, "made"));
                assert_eq!(given(&made), given(&hand), "{way:?} into {mode:o} with {acl:?}");
                if way == Way::Directories {
                    // What a directory gives goes on below it.
                    fs::create_dir(hand.join("below")).unwrap();
                    assert_eq!(given(&made.join("below")), given(&hand.join("below")), "{way:?} {acl:?}");
                }
                if !way.is_directory() {
                    replaces(way, &session, &made, acl);
                    fs::remove_file(&hand).unwrap();
                    fs::remove_file(&made).unwrap();
                } else {
                    fs::remove_dir_all(&hand).unwrap();
                    fs::remove_dir_all(&made).unwrap();
                }
            }
            fs::remove_dir_all(at("in")).unwrap();
        }
    }
}

/// An object that replaces a file keeps its permissions, and a copy gives it those of its source.
fn replaces(way: Way, session: &Session, made: &Path, acl: Option<Acl>) {
    let as_new = given(made);
    fs::set_permissions(made, fs::Permissions::from_mode(REPLACED)).unwrap();
    way.make(session, "made");
    let expected = if way == Way::Copy { as_new.0 } else { REPLACED };
    let now = given(made);
    assert_eq!((now.0, now.1), (expected, as_new.1), "{way:?} in place of another, with {acl:?}");
}
