//! For how long what the device was not asked to keep is worth something: while the file system stays mounted
//! in the same boot. And a suffix that outlives a power cut before the journal's first sync.

use std::fs::{metadata, read_link, read_to_string};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Statx, StatxFlags};

use super::format::Boot;
use crate::at;
use crate::temporary::random_suffix;
use fobs_model::name::ours::{Suffix, suffix_of};
use fobs_sys::confine::{Errand, outside};

/// `STATX_MNT_ID_UNIQUE` (`linux/stat.h`, since Linux 6.8): a number that no other mount of this boot gets.
/// Before, that of a mount that is gone may come again.
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// File systems whose state in memory has a directory in sysfs: made with the first of their mounts, and gone
/// with the last.
const IN_SYSFS: &[&str] = &["ext4", "xfs", "f2fs"];

/// The boot and the state of its file system that a file is in; zeros if unknown.
pub(super) fn tenure(file: &OwnedFd) -> Boot {
    #[cfg(test)]
    if let Some(mount) = crate::recorder::mount() {
        return mount;
    }
    let boot =
        outside(Errand::Counters, || read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default());
    let digits = boot.trim().replace('-', "");
    let (Ok(boot), Some(found)) = (u128::from_str_radix(&digits, 16), status(file, MNT_ID_UNIQUE)) else {
        return Boot::default();
    };
    tenure_of(boot, &found, state_in_memory(&found))
}

/// The number of a mounted file system's directory in sysfs, which no other gets in this boot. One file
/// system has many mounts: each service of systemd and each container makes its own.
fn state_in_memory(found: &Statx) -> Option<u64> {
    let device = format!("/sys/dev/block/{}:{}", found.stx_dev_major, found.stx_dev_minor);
    outside(Errand::Counters, || {
        let name = read_link(device).ok()?.file_name()?.to_str()?.to_owned();
        let mut places = IN_SYSFS.iter().map(|kind| format!("/sys/fs/{kind}/{name}"));
        places.find_map(|place| metadata(place).ok()).map(|found| found.ino())
    })
}

fn tenure_of(boot: u128, found: &Statx, state: Option<u64>) -> Boot {
    let mut hasher = blake3::Hasher::new_derive_key("FOBS journal 1: tenure");
    let kind = [u8::from(state.is_some())];
    hasher.update(&boot.to_be_bytes()).update(&kind).update(&state.unwrap_or(found.stx_mnt_id).to_le_bytes());
    hasher.update(&found.stx_dev_major.to_le_bytes()).update(&found.stx_dev_minor.to_le_bytes());
    hasher.finalize().as_bytes().first_chunk().copied().unwrap_or_default()
}

fn status(file: &OwnedFd, wanted: StatxFlags) -> Option<Statx> {
    at::status(file, wanted | StatxFlags::MNT_ID).ok()
}

/// The suffix of a new journal's temporary files. It follows from the journal's inode, whose name the device
/// keeps before those that are made after it: after a power cut the same command finds what it left, even if
/// nothing of the journal's content was kept.
pub(super) fn suffix_for(journal: &OwnedFd) -> Suffix {
    let Some(found) = status(journal, StatxFlags::BTIME | StatxFlags::INO).filter(has_birth) else {
        return random_suffix();
    };
    #[cfg(test)]
    if let Some(suffix) = suffix_in_test(journal) {
        return suffix;
    }
    let mut hasher = blake3::Hasher::new_derive_key("FOBS journal 1: suffix");
    hasher.update(&found.stx_ino.to_le_bytes()).update(&found.stx_btime.tv_sec.to_le_bytes());
    hasher.update(&found.stx_btime.tv_nsec.to_le_bytes());
    suffix_of(hasher.finalize().as_bytes().first_chunk().copied().map_or(0, u64::from_le_bytes))
}

/// From what a recorded inode seems to be.
#[cfg(test)]
fn suffix_in_test(journal: &OwnedFd) -> Option<Suffix> {
    let inode = crate::recorder::is_on().then(|| crate::recorder::id(journal))?;
    Some(suffix_of(u64::from_le_bytes(*blake3::hash(&inode.to_le_bytes()).as_bytes().first_chunk()?)))
}

fn has_birth(found: &Statx) -> bool {
    StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn files_of_one_mount_have_one_tenure_and_other_mounts_another() {
        let top = tempfile::tempdir().expect("a directory");
        let file = |path: std::path::PathBuf| OwnedFd::from(File::create(path).expect("a file"));
        let (one, other) = (file(top.path().join("a")), file(top.path().join("b")));
        assert_eq!(tenure(&one), tenure(&other));
        assert_ne!(tenure(&one), Boot::default());
        let proc = OwnedFd::from(File::open("/proc/self/status").expect("it is there"));
        assert_ne!(tenure(&one), tenure(&proc));
        let mut found = status(&one, MNT_ID_UNIQUE).expect("a status");
        let before = tenure_of(1, &found, Some(7));
        assert_ne!(before, tenure_of(2, &found, Some(7)), "another boot");
        assert_ne!(before, tenure_of(1, &found, Some(8)), "gone, and mounted again");
        let by_mount = tenure_of(1, &found, None);
        assert_ne!(by_mount, before);
        found.stx_mnt_id += 1;
        assert_eq!(before, tenure_of(1, &found, Some(7)), "another mount of the same");
        assert_ne!(by_mount, tenure_of(1, &found, None), "where only the mount is known");
    }

    #[test]
    fn a_suffix_stays_with_the_journals_inode() {
        let top = tempfile::tempdir().expect("a directory");
        let path = top.path().join("journal");
        let file = OwnedFd::from(File::create(&path).expect("a file"));
        if !status(&file, StatxFlags::BTIME).is_some_and(|found| has_birth(&found)) {
            return;
        }
        let before = suffix_for(&file);
        std::fs::write(&path, [0; 8192]).expect("own file");
        assert_eq!(suffix_for(&file), before, "whatever is in it");
        let other = OwnedFd::from(File::create(top.path().join("other")).expect("a file"));
        assert_ne!(suffix_for(&other), before);
    }
}
