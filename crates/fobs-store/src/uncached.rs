//! Large files past the page cache: what is read or written once is not kept there, and what other programs
//! have there stays.

mod account;
mod devices;
mod through;
mod trial;
mod ways;
mod writing;

use account::Account;
pub use account::LargeFiles;
pub(crate) use devices::Devices;
pub(crate) use through::write_all;
pub use trial::try_large_file;
pub(crate) use writing::{LargeFile, PageCache};

use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

use crate::at;
use fobs_model::storage::{CacheReason, CacheUse};

/// Smallest file that passes the cache, bytes: a smaller one may well be read next.
pub(crate) const UNCACHED_MIN: u64 = 64 << 20;
/// `RWF_DONTCACHE` (Linux 6.14).
pub(crate) const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// As others read.
    Cached,
    /// As one that is not read again soon.
    Once,
    /// Likewise, where the kernel knows no such read: what was read is taken out of the cache again.
    Dropped,
}

/// Places of a file at which it is found out whether it is in the page cache.
const SAMPLES: u64 = 64;

/// Most bytes read before they are hashed: less than a CPU's own cache. Measured over a veth pair, a sender
/// that reads whole chunks first uses 8% more CPU time.
pub(crate) const READ_MAX: usize = 256 << 10;
/// The same of what leaves the page cache at once. The kernel reads ahead, and takes out again, by what is
/// asked for: cold reads (ext4, 2 GB) of 256 KiB made 0.84 GB/s at 0.38 s of CPU for a GB, of 1 MiB 1.3 at
/// 0.19, of 2 and of 4 MiB 2.2 at 0.07.
const PASSING_READ_MAX: usize = 2 << 20;

/// A large file that is read.
#[derive(Debug)]
pub(crate) struct LargeReads {
    account: Account,
    way: CacheUse,
    why: Option<CacheReason>,
}

impl LargeReads {
    /// Counts bytes that were read of it.
    pub(crate) fn add(&self, bytes: usize) {
        self.account.add(self.way, self.why, bytes);
    }
}

impl Reads {
    /// Of a file of this size, as the user wants and as kernel and file system can; large ones are counted.
    pub(crate) fn of(
        file: &OwnedFd,
        size: u64,
        cache: PageCache,
        all: &LargeFiles,
    ) -> (Reads, Option<LargeReads>) {
        if size < UNCACHED_MIN {
            return (Reads::Cached, None);
        }
        let (reads, way, why) = match cache {
            PageCache::Used => (Reads::Cached, CacheUse::Cached, Some(CacheReason::Asked)),
            PageCache::Passed if knows_once(file, size) => (Reads::Once, CacheUse::Uncached, None),
            // Other programs may read it, too.
            PageCache::Passed if cached_samples(file, size) >= SAMPLES / 2 => {
                (Reads::Cached, CacheUse::Cached, Some(CacheReason::AlreadyCached))
            }
            PageCache::Passed => (Reads::Dropped, CacheUse::Dropped, Some(CacheReason::NoOther)),
        };
        (reads, Some(LargeReads { account: all.on(file), way, why }))
    }

    /// Most bytes of one read.
    pub(crate) fn at_most(self) -> usize {
        match self {
            Reads::Cached => READ_MAX,
            Reads::Once | Reads::Dropped => PASSING_READ_MAX,
        }
    }

    /// Reads [at most](Self::at_most) one read of what is at `at`; nothing at the file's end.
    pub(crate) fn read(self, file: &OwnedFd, room: &mut [u8], at: u64) -> Result<usize, Errno> {
        let wanted = room.len().min(self.at_most());
        let part = &mut room[..wanted];
        loop {
            let read = match self {
                Reads::Once => read_once(file, part, at),
                Reads::Cached => pread(file, &mut *part, at),
                Reads::Dropped => pread(file, &mut *part, at).inspect(|&read| drop_cached(file, at, read)),
            };
            if read != Err(Errno::INTR) {
                return read;
            }
        }
    }
}

/// Whether kernel and file system know `RWF_DONTCACHE`: behind the end of the file nothing is read.
fn knows_once(file: &OwnedFd, size: u64) -> bool {
    let read = preadv2(file, &mut [IoSliceMut::new(&mut [0])], size, DONTCACHE);
    !matches!(read, Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL))
}

/// At how many of [`SAMPLES`] places a file is in the page cache.
fn cached_samples(file: &OwnedFd, size: u64) -> u64 {
    // A miss is to bring one page, and not what lies around it.
    let _ = fadvise(file, 0, None, Advice::Random);
    let is_cached = |place: &u64| {
        let at = size / SAMPLES * place;
        preadv2(file, &mut [IoSliceMut::new(&mut [0])], at, ReadWriteFlags::NOWAIT) != Err(Errno::AGAIN)
    };
    let cached = (0..SAMPLES).filter(is_cached).count() as u64;
    // As when it was opened.
    let _ = fadvise(file, 0, None, Advice::Sequential);
    cached
}

/// Takes what was read out of the page cache.
fn drop_cached(file: &OwnedFd, at: u64, len: usize) {
    if let Some(len) = NonZeroU64::new(len as u64) {
        // A hint: what stays there costs other programs some of their cache.
        let _ = fadvise(file, at, Some(len), Advice::DontNeed);
    }
}

/// Reads what is at a place of a file. What is not in the page cache by then does not stay there, where
/// kernel and file system can: cold files are read two to four times as fast (ext4, 1 GB on a busy host:
/// 0.9 to 1.5 s instead of 3.7 to 4.0 s, 0.3 s of CPU instead of 0.8 s), and other programs keep what they
/// have there.
pub(crate) fn read_once(file: impl AsFd, room: &mut [u8], at: u64) -> Result<usize, Errno> {
    match preadv2(&file, &mut [IoSliceMut::new(room)], at, DONTCACHE) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => pread(&file, room, at),
        read => read,
    }
}

/// Whether the file system of an open file says that it can be written past the cache.
pub fn passes_cache(file: impl AsFd) -> bool {
    at::direct_alignment(file).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    /// On disk, and in the cache as a whole.
    fn cached_file(len: usize) -> OwnedFd {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&vec![7; len], 0).expect("it can be written");
        file.sync_all().expect("it can be kept");
        file.into()
    }

    #[test]
    fn where_no_read_is_uncached_only_what_was_not_cached_is_dropped() {
        const LEN: u64 = 8 << 20;
        let file = cached_file(LEN as usize);
        assert_eq!(cached_samples(&file, LEN), SAMPLES);
        drop_cached(&file, 0, LEN as usize);
        if cached_samples(&file, LEN) > SAMPLES / 4 {
            eprintln!("skipped: this file system keeps its files in memory");
            return;
        }
        let mut room = vec![0; READ_MAX];
        let mut read_all = |reads: Reads| {
            let mut at = 0;
            while at < LEN {
                at += reads.read(&file, &mut room, at).expect("it can be read") as u64;
                assert!(room.iter().all(|&byte| byte == 7));
            }
            cached_samples(&file, LEN)
        };
        let dropped = read_all(Reads::Dropped);
        assert!(dropped < SAMPLES / 4, "{dropped} of {SAMPLES} places are cached");
        assert_eq!(read_all(Reads::Cached), SAMPLES);
    }

    #[test]
    fn each_way_of_reading_is_told_with_its_reason() {
        let len = UNCACHED_MIN as usize;
        let file = cached_file(len);
        let told = |cache| {
            let all = LargeFiles::default();
            let (reads, large) = Reads::of(&file, UNCACHED_MIN, cache, &all);
            large.expect("it is large").add(5);
            let rows = all.rows();
            (reads, rows[0].way, rows[0].why, rows[0].bytes)
        };
        let expected = if knows_once(&file, UNCACHED_MIN) {
            (Reads::Once, CacheUse::Uncached, None, 5)
        } else {
            (Reads::Cached, CacheUse::Cached, Some(CacheReason::AlreadyCached), 5)
        };
        assert_eq!(told(PageCache::Passed), expected, "all of it is cached");
        let asked = (Reads::Cached, CacheUse::Cached, Some(CacheReason::Asked), 5);
        assert_eq!(told(PageCache::Used), asked);
        let small = Reads::of(&file, UNCACHED_MIN - 1, PageCache::Passed, &LargeFiles::default());
        assert!(matches!(small, (Reads::Cached, None)));
    }

    #[test]
    fn every_file_system_is_read() {
        for directory in [std::env::temp_dir(), "/dev/shm".into()] {
            let Ok(file) = tempfile::tempfile_in(directory) else { continue };
            file.write_all_at(b"0123456789", 0).expect("it can be written");
            let mut room = [0; 6];
            assert_eq!(read_once(&file, &mut room, 7), Ok(3));
            assert_eq!(&room[..3], b"789");
            assert_eq!(read_once(&file, &mut room, 10), Ok(0));
        }
        let pipe = File::open("/dev/null").expect("it is everywhere");
        assert_eq!(read_once(&pipe, &mut [0; 4], 0), Ok(0));
    }
}
