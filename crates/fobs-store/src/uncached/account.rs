//! What is counted of large files: by file system, by the way that their bytes went, and by the reason.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::fstatfs;

use fobs_model::storage::{CacheReason, CacheUse, StorageUse};

/// Bytes of the large files of one end of a transfer. Clones are one count.
#[derive(Debug, Clone, Default)]
pub struct LargeFiles(Arc<Mutex<Vec<StorageUse>>>);

impl LargeFiles {
    /// All of them so far.
    pub fn rows(&self) -> Vec<StorageUse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those of the file system that an open file is on.
    pub(crate) fn on(&self, file: impl AsFd) -> Account {
        Account { all: self.clone(), file_system: file_system(file) }
    }
}

/// Those on one file system.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    all: LargeFiles,
    file_system: &'static str,
}

impl Account {
    /// Counts bytes.
    pub(crate) fn add(&self, way: CacheUse, why: Option<CacheReason>, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let row = StorageUse { file_system: self.file_system.to_owned(), way, why, bytes: bytes as u64 };
        row.add_to(&mut self.all.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The type of the file system that an open file is on, as `mount` names it.
fn file_system(file: impl AsFd) -> &'static str {
    // 32 bits on every host; some types are negative where the field is signed.
    let Ok(magic) = fstatfs(file).map(|stat| stat.f_type as u64 & 0xffff_ffff) else { return "unknown" };
    MAGICS.iter().find(|(known, _)| *known == magic).map_or("unknown", |(_, name)| *name)
}

/// Types in `statfs` (`linux/magic.h`, statfs(2), and for those outside the kernel their own headers).
const MAGICS: &[(u64, &str)] = &[
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlayfs"),
    (0x6969, "nfs"),
    (0x6573_5546, "fuse"),
    (0x2fc1_2fc1, "zfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb3"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "afs"),
    (0x8584_58f6, "ramfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
    (0x7366_746e, "ntfs3"),
    (0x5346_544e, "ntfs"),
    (0xe0f5_e1e2, "erofs"),
    (0x7371_7368, "squashfs"),
    (0x9660, "iso9660"),
    (0x1501_3346, "udf"),
    (0x3153_464a, "jfs"),
    (0x5265_4973, "reiserfs"),
    (0x7461_636f, "ocfs2"),
    (0x0116_1970, "gfs2"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn file_systems_are_named_as_mount_does() {
        // A host without one of these tells nothing about it.
        for (path, name) in [("/dev/shm", "tmpfs"), ("/proc", "unknown")] {
            let Ok(there) = File::open(path) else { continue };
            assert_eq!(file_system(&there), name, "{path}");
        }
    }

    #[test]
    fn what_is_counted_is_one_count() {
        let (large, file) = (LargeFiles::default(), tempfile::tempfile().expect("a file"));
        let (one, other) = (large.on(&file), large.clone().on(&file));
        one.add(CacheUse::Direct, None, 5);
        other.add(CacheUse::Direct, None, 6);
        other.add(CacheUse::Cached, Some(CacheReason::Asked), 1);
        one.add(CacheUse::Uncached, None, 0);
        let counted: Vec<_> = large.rows().iter().map(|row| (row.way, row.why, row.bytes)).collect();
        let expected = [(CacheUse::Direct, None, 11), (CacheUse::Cached, Some(CacheReason::Asked), 1)];
        assert_eq!(counted, expected);
    }
}
