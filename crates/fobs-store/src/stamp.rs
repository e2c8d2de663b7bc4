//! What identifies a file's content without reading it.

use rustix::fs::Stat;

use super::identity::Identity;

/// The bits of a mode that are the file's type (`S_IFMT`, inode(7)).
const FORMAT_MASK: u32 = 0o170_000;

/// What identifies a file's content without reading it. The inode is that of the open file, so it cannot
/// change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) identity: Identity,
    /// What a receiver's journal knows the file by.
    pub(super) source: Identity,
    /// The file's type, and the device that it is on.
    kind: (u32, u64),
    size: i64,
    modified: (i64, u64),
    /// Unlike the time of modification, no program can set it.
    changed: (i64, u64),
    links: u64,
}

/// How many names a file has.
#[allow(clippy::useless_conversion, reason = "it has 32 bits on aarch64")]
pub(super) fn name_count(stat: &Stat) -> u64 {
    stat.st_nlink.into()
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Stamp {
        Stamp {
            identity: Identity::of(stat),
            source: Identity::of_source(stat),
            kind: (stat.st_mode & FORMAT_MASK, stat.st_dev),
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
            links: name_count(stat),
        }
    }

    /// What identifies the content, and what a write changes in any case, as 8 bytes of a hash each; and the
    /// number of names.
    pub(super) fn marks(&self) -> Marks {
        let Identity { size, mtime_s, mtime_ns, inode } = self.identity;
        let mut content = blake3::Hasher::new();
        for number in [u64::from(self.kind.0), self.kind.1, size, mtime_s as u64, u64::from(mtime_ns), inode]
        {
            content.update(&number.to_le_bytes());
        }
        let mut changed = blake3::Hasher::new();
        changed.update(&self.changed.0.to_le_bytes()).update(&self.changed.1.to_le_bytes());
        let first = |hasher: blake3::Hasher| {
            hasher.finalize().as_bytes().first_chunk().copied().map_or(0, u64::from_le_bytes)
        };
        Marks { content: first(content), changed: first(changed), links: self.links }
    }

    /// Whether the content is the same, as far as can be seen.
    pub(super) fn is_same_content(&self, now: &Stamp) -> bool {
        // A name that was added or removed changes the last time too: a file that another one replaced under
        // its name is still read whole.
        let untouched = self.changed == now.changed || self.links != now.links;
        (self.size, self.modified) == (now.size, now.modified) && untouched
    }
}

/// A [`Stamp`] as it is kept for a removal, of very many files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) content: u64,
    pub(super) changed: u64,
    pub(super) links: u64,
}

impl Marks {
    /// Whether the content is the same, as far as can be seen.
    pub(super) fn is_same_content(&self, now: &Marks) -> bool {
        // The removal of one of its names changes the last time too.
        self.content == now.content && (self.changed == now.changed || self.links != now.links)
    }
}
