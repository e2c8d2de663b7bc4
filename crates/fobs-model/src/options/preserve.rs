//! What a transfer keeps of its entries beside their content.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::chmod::Chmod;
use super::owners::AccountMap;
use crate::special::SpecialKind;

/// What is kept, and how. By default what `cp` keeps: permissions less the umask, and symbolic links. Both
/// sides must have the same, so it travels in the request; a member that is missing there is off.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Preserve {
    /// Exact modes, setuid, setgid and sticky bits among them (`-p`). Without, a new file gets the source's
    /// permissions less the receiver's umask, and one that is replaced keeps its own.
    pub modes: bool,
    /// Modification times (`-t`).
    pub times: bool,
    /// Owners (`-o`). Only a receiver with root's rights can set them; another leaves its own.
    pub owner: bool,
    /// Groups (`-g`). A receiver without root's rights sets those that it is a member of.
    pub group: bool,
    /// How a user or group is found at the receiver.
    pub ids: IdMapping,
    /// Symbolic links (`-l`).
    pub links: SymbolicLinks,
    /// Devices (`--devices`). Only a receiver with root's rights can make them.
    pub devices: bool,
    /// Fifos and sockets (`--specials`).
    pub specials: bool,
    /// What becomes of a device, fifo or socket that is not kept.
    pub unkept: Unkept,
    /// Hard links between the entries (`-H`).
    pub hard_links: bool,
    /// Extended attributes (`-X`): all but the kernel's own with root's rights, `user.` ones without.
    pub xattrs: bool,
    /// Among them what rsync or this program noted there for `--fake-super` (`-XX`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub xattr_notes: bool,
    /// POSIX ACLs (`-A`).
    pub acls: bool,
    /// Holes of files (`-S`).
    pub sparse: bool,
    /// Which file systems are walked (`-x`).
    pub file_systems: FileSystems,
    /// Symbolic links that the sender follows.
    #[serde(skip_serializing_if = "Follow::is_none")]
    pub follow: Follow,
    /// Files of the sources are read without a new access time (`--open-noatime`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub open_noatime: bool,
    /// Access times (`-U`), but of directories.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub atimes: bool,
    /// The side that has this notes owners, kinds and modes in an extended attribute, and reads them there
    /// (`--fake-super`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fake_super: bool,
    /// Devices of the sources are read as files (`--copy-devices`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub copy_devices: bool,
    /// Targets of links are stored so that they lead nowhere, and read as they were before
    /// (`--munge-links`); of the client alone, so it does not travel.
    #[serde(skip)]
    pub munge_links: bool,
    /// Changes to the modes that the sender sends.
    pub chmod: Chmod,
    /// Users that the sender sends in place of the entries' own (`--usermap`, `--chown`).
    #[serde(skip_serializing_if = "AccountMap::is_empty")]
    pub users: AccountMap,
    /// Likewise groups (`--groupmap`, `--chown`).
    #[serde(skip_serializing_if = "AccountMap::is_empty")]
    pub groups: AccountMap,
}

/// How a user or group is found at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdMapping {
    /// By name, else by number; number 0 always stays 0.
    #[default]
    Names,
    /// By number (`--numeric-ids`).
    Numbers,
}

/// What becomes of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SymbolicLinks {
    /// They are copied as links.
    #[default]
    Kept,
    /// They are left out without a word.
    LeftOut,
}

/// Which symbolic links stand for what they lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Follow {
    /// None.
    #[default]
    None,
    /// Those that lead out of the tree (`--copy-unsafe-links`).
    LeadingOut,
    /// Those to directories (`-k`).
    Directories,
    /// All (`-L`).
    All,
}

impl Follow {
    fn is_none(&self) -> bool {
        *self == Follow::None
    }
}

/// What becomes of something that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unkept {
    /// It is reported as failed.
    #[default]
    Failed,
    /// It is left out without a word, as rsync does.
    LeftOut,
}

/// Which file systems a walk enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystems {
    /// All that are mounted in the tree.
    #[default]
    All,
    /// The one of each named source; directories on which another is mounted come empty.
    One,
    /// Likewise, and those directories do not come. In the directory around one nothing is deleted.
    OneWithoutMounts,
}

impl FileSystems {
    /// Whether a walk, and deletions, keep to one.
    pub fn is_one(self) -> bool {
        self != FileSystems::All
    }
}

/// What stands before a link's target that was stored so that it leads nowhere: a path below what is no
/// directory, as rsync has it.
const MUNGED: &[u8] = b"/rsyncd-munged/";

impl Preserve {
    /// A link's target as the sender sends it.
    pub fn target_read(&self, target: Vec<u8>) -> Vec<u8> {
        match target.strip_prefix(MUNGED).filter(|_| self.munge_links) {
            Some(before) if !before.is_empty() => before.to_vec(),
            _ => target,
        }
    }

    /// A link's target as the receiver stores it.
    pub fn target_stored<'t>(&self, target: &'t [u8]) -> Cow<'t, [u8]> {
        if self.munge_links { Cow::Owned([MUNGED, target].concat()) } else { Cow::Borrowed(target) }
    }

    /// What `cp -p` keeps, or `cp` without.
    pub fn as_cp(preserve: bool) -> Preserve {
        Preserve { modes: preserve, times: preserve, ..Preserve::default() }
    }

    /// Whether entries have an `Attributes` record.
    pub fn has_attributes(&self) -> bool {
        self.owner || self.group || self.xattrs || self.acls || self.atimes
    }

    /// Whether such things are kept.
    pub fn keeps(&self, kind: SpecialKind) -> bool {
        if kind.is_device() { self.devices } else { self.specials }
    }

    /// Whether root's rights are needed to keep all of it.
    pub fn needs_privileges(&self) -> bool {
        self.owner || self.group || self.devices || self.xattrs
    }
}
