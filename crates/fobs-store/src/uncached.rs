//! Large files past the page cache: what is read or written once is not kept there, and what other programs
//! have there stays.

mod ways;
mod writing;

pub(crate) use ways::Ways;
pub(crate) use writing::Uncached;

use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

/// Smallest file that passes the cache, bytes: a smaller one may well be read next.
pub(crate) const UNCACHED_MIN: u64 = 64 << 20;
/// `RWF_DONTCACHE` (Linux 6.14).
const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// As others read.
    Cached,
    /// As one that is not read again soon.
    Once,
}

/// Most bytes read before they are hashed: less than a CPU's own cache. Measured over a veth pair, a sender
/// that reads whole chunks first uses 8% more CPU time.
pub(crate) const READ_MAX: usize = 256 << 10;

impl Reads {
    /// Of a file of this size; `cache`: the user wants the page cache used.
    pub(crate) fn of(size: u64, cache: bool) -> Reads {
        if size >= UNCACHED_MIN && !cache { Reads::Once } else { Reads::Cached }
    }

    /// Reads at most [`READ_MAX`] bytes of what is at `at`; nothing at the file's end.
    pub(crate) fn read(self, file: &OwnedFd, room: &mut [u8], at: u64) -> Result<usize, Errno> {
        let wanted = room.len().min(READ_MAX);
        let part = &mut room[..wanted];
        loop {
            let read = match self {
                Reads::Once => read_once(file, part, at),
                Reads::Cached => pread(file, &mut *part, at),
            };
            if read != Err(Errno::INTR) {
                return read;
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

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
