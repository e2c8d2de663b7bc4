//! What identifies the content of a file without reading it.

use std::sync::LazyLock;

use blake3::Hasher;
use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};
use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use super::stat::meta;

/// A source file as its sender saw it when it opened (or listed) it. The same path with the same identity has
/// the same content, unless the user asks for a comparison of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Identity {
    /// Bytes.
    pub size: u64,
    /// Modification time, seconds since 1970.
    pub mtime_s: i64,
    /// Nanoseconds of the modification time.
    pub mtime_ns: u32,
    /// Inode number; of a source, a mark of that and of the time of its last change, which no program sets.
    /// Compared, not used.
    pub inode: u64,
}

impl Identity {
    /// Of a file's status.
    pub(super) fn of(stat: &Stat) -> Identity {
        let meta = meta(stat);
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        Identity { size, mtime_s: meta.mtime_s, mtime_ns: meta.mtime_ns, inode: inode_of(stat) }
    }

    /// Of the status of a file that is sent: one that was rewritten in place differs, whatever its time of
    /// modification was set to.
    pub(super) fn of_source(stat: &Stat) -> Identity {
        let mark = mark(stat.st_ino, (stat.st_ctime, stat.st_ctime_nsec));
        Identity { inode: mark.into(), ..Identity::of(stat) }
    }

    fn bytes(&self) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.mtime_s.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.mtime_ns.to_le_bytes());
        bytes[20..].copy_from_slice(&self.inode.to_le_bytes());
        bytes
    }
}

/// A mark of a source's inode and of the time of its last change, seconds and nanoseconds. The inode is
/// added, not hashed: files that changed within one tick of the kernel's clock, as those of a tree that was
/// just unpacked, have marks as near as their inodes, and a listing compresses them. 32 bits, because it
/// carries one for each file.
fn mark(inode: u64, (seconds, nanoseconds): (i64, u64)) -> u32 {
    let mut hasher = Hasher::new_from_context_key(&MARK);
    hasher.update(&seconds.to_le_bytes()).update(&nanoseconds.to_le_bytes());
    let changed = hasher.finalize().as_bytes().first_chunk().copied().map_or(0, u32::from_le_bytes);
    changed.wrapping_add(inode as u32).wrapping_add((inode >> 32) as u32)
}

/// The number of a file's inode.
#[cfg(not(test))]
pub(super) fn inode_of(stat: &Stat) -> u64 {
    stat.st_ino
}

#[cfg(test)]
pub(super) fn inode_of(stat: &Stat) -> u64 {
    crate::recorder::seen(stat.st_ino)
}

/// A path within the transfer with the identity of its source file. The first half depends on the path only.
pub type Fingerprint = [u8; 16];

/// The contexts' keys. Made once: a journal needs both for every file, and a key is as much work as its hash.
static SOURCE: LazyLock<ContextKey> = LazyLock::new(|| hash_derive_key_context("FOBS journal 1: source"));
static MARK: LazyLock<ContextKey> = LazyLock::new(|| hash_derive_key_context("FOBS source: mark"));
static DESTINATION: LazyLock<ContextKey> =
    LazyLock::new(|| hash_derive_key_context("FOBS journal 1: destination"));

/// What a sender says of a file.
#[cfg(any(test, feature = "testing"))]
pub fn source_identity(file: impl std::os::fd::AsFd) -> Option<Identity> {
    rustix::fs::fstat(file).ok().map(|stat| Identity::of_source(&stat))
}

/// The fingerprint of a source file: BLAKE3 of the path, and of path and identity, 8 bytes of each.
pub fn fingerprint(path: &[u8], identity: &Identity) -> Fingerprint {
    let mut hasher = Hasher::new_from_context_key(&SOURCE);
    hasher.update(path);
    let mut fingerprint = [0; 16];
    fingerprint[..8].copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    hasher.update(&[0]).update(&identity.bytes());
    fingerprint[8..].copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    fingerprint
}

/// Whether both are of the same path, of whatever content.
pub(super) fn same_path(one: &Fingerprint, other: &Fingerprint) -> bool {
    one[..8] == other[..8]
}

/// Size, modification time and inode of a stored file, as 8 bytes: another file under its name differs.
pub(super) fn destination_mark(stat: &Stat) -> [u8; 8] {
    let mut hasher = Hasher::new_from_context_key(&DESTINATION);
    hasher.update(&Identity::of(stat).bytes());
    let mut mark = [0; 8];
    mark.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_one_moment_are_as_near_as_inodes() {
        for inode in [7, u64::from(u32::MAX), 9 << 32] {
            let (one, next) = (mark(inode, (5, 6)), mark(inode + 1, (5, 6)));
            assert!(next.wrapping_sub(one) <= 2, "{inode}: {one} and {next}");
            for changed in [(5, 7), (6, 6), (4, 6), (-5, 6)] {
                assert_ne!(mark(inode, changed), one, "{inode} that changed at {changed:?}");
            }
        }
    }

    #[test]
    fn the_keys_are_those_of_the_contexts() {
        // Journals of earlier versions hold fingerprints that were made this way.
        let identity = Identity { size: 1, mtime_s: 2, mtime_ns: 3, inode: 4 };
        let hash = |parts: &[&[u8]]| {
            let mut hasher = Hasher::new_derive_key("FOBS journal 1: source");
            for part in parts {
                hasher.update(part);
            }
            *hasher.finalize().as_bytes()
        };
        let made = fingerprint(b"a", &identity);
        assert_eq!(made[..8], hash(&[b"a"])[..8]);
        assert_eq!(made[8..], hash(&[b"a", &[0], &identity.bytes()])[..8]);
    }

    #[test]
    fn every_member_and_the_path_change_a_fingerprint() {
        let identity = Identity { size: 1, mtime_s: 2, mtime_ns: 3, inode: 4 };
        let original = fingerprint(b"a", &identity);
        assert_eq!(fingerprint(b"a", &identity), original);
        for other in [
            Identity { size: 2, ..identity },
            Identity { mtime_s: 3, ..identity },
            Identity { mtime_ns: 4, ..identity },
            Identity { inode: 5, ..identity },
        ] {
            let changed = fingerprint(b"a", &other);
            assert!(changed != original && same_path(&changed, &original), "{other:?}");
        }
        assert!(!same_path(&fingerprint(b"b", &identity), &original));
    }
}
