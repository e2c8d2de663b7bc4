//! A part of one file as an object of its own.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::io::{Errno, pread};

use super::Source;
use crate::beneath::{Base, kind, meta, sentence};
use crate::stamp::Stamp;
use fobs_filter::path::show;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::listing::FileStamp;

/// Do not wait for the writer of a fifo that took the file's place, do not acquire a terminal.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// What is read of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// From `start` on, `len` bytes or up to the file's end. A file that is written to meanwhile is read as
    /// `pread` would.
    Range {
        /// Where it begins, bytes.
        start: u64,
        /// Its longest length, bytes.
        len: u64,
    },
    /// All of it, at most this many bytes. It must not change meanwhile. A file of /proc, which says nothing
    /// of its size, is read to its end.
    Whole {
        /// Its longest length, bytes.
        max: u64,
    },
}

impl Source {
    /// A part of the file at `path`.
    ///
    /// # Errors
    /// `NoSource` or `Denied` as [`Source::open`]; `Usage` for what is no file, and for a whole file that is
    /// longer than it may be.
    pub fn of_part(
        base: &Base,
        path: &[u8],
        part: Part,
        expected: Option<FileStamp>,
        compress: bool,
    ) -> Result<Source> {
        let failed = |errno| {
            let kind = match errno {
                Errno::XDEV | Errno::ACCESS | Errno::PERM => ErrorKind::Denied,
                _ => ErrorKind::NoSource,
            };
            Error::new(kind, sentence("read", path, errno))
        };
        let no_file = || {
            Error::new(
                ErrorKind::Usage,
                format!("'{}' is no regular file, and only those are read in parts; name a file", show(path)),
            )
        };
        // Without opening a device or a fifo.
        let named = base.open(path, OFlags::PATH).and_then(fstat).map_err(failed)?;
        if kind(&named) != FileType::RegularFile {
            return Err(no_file());
        }
        let file = base.open(path, READ).map_err(failed)?;
        let stat = fstat(&file).map_err(failed)?;
        if kind(&stat) != FileType::RegularFile {
            return Err(no_file());
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if expected.is_some_and(|expected| !expected.fits(&stamp_of(&stat))) {
            return Err(changed(&show(path)));
        }
        let unchanged = expected.map(|_| Stamp::of(&stat));
        let reader = match part {
            Part::Range { start, len } => PartReader { file, at: start, left: len, end_max: None, unchanged },
            Part::Whole { max } if size > max => {
                let message = format!(
                    "'{}' has {size} bytes, more than the {max} that the caller has room for; read it in parts",
                    show(path)
                );
                return Err(Error::new(ErrorKind::Usage, message));
            }
            Part::Whole { max } => {
                // Without a size, one byte more tells whether it is longer than it may be.
                let (left, end_max) =
                    if size == 0 { (max.saturating_add(1), Some(max)) } else { (size, None) };
                PartReader { file, at: 0, left, end_max, unchanged: Some(Stamp::of(&stat)) }
            }
        };
        Source::from_stream(Box::new(reader), compress)
    }
}

/// The error for a file that is another one than was opened.
pub fn changed(shown: &str) -> Error {
    Error::new(ErrorKind::FileIo, format!("'{shown}' has changed since it was opened; open it again"))
}

fn stamp_of(stat: &Stat) -> FileStamp {
    let now = meta(stat);
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    FileStamp { size, mtime_s: now.mtime_s, mtime_ns: now.mtime_ns, inode: stat.st_ino }
}

struct PartReader {
    file: OwnedFd,
    at: u64,
    left: u64,
    /// Where a file ends at the latest whose size is not known.
    end_max: Option<u64>,
    /// What the file must still be at the end.
    unchanged: Option<Stamp>,
}

impl Read for PartReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // No file has bytes beyond, and the kernel refuses to look.
        let left = self.left.min((i64::MAX as u64).saturating_sub(self.at));
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = match wanted {
            0 => 0,
            _ => pread(&self.file, &mut buffer[..wanted], self.at)?,
        };
        self.at = self.at.saturating_add(read as u64);
        self.left -= read as u64;
        if self.end_max.is_some_and(|max| self.at > max) {
            return Err(io::Error::other("it is longer than the caller has room for; read it in parts"));
        }
        if read == 0
            && let Some(before) = self.unchanged.take()
            && !before.is_same_content(&Stamp::of(&fstat(&self.file)?))
        {
            return Err(io::Error::other("it changed while it was read"));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::CHUNK_LEN_MAX;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    fn read(path: &std::path::Path, part: Part) -> Result<(u64, bool)> {
        let mut source = Source::of_part(&Base::Ambient, path.as_os_str().as_bytes(), part, None, false)?;
        let filled = source.next_chunk(&mut vec![0; CHUNK_LEN_MAX], CHUNK_LEN_MAX)?;
        assert!(filled.is_final);
        Ok((filled.data_bytes, filled.failures.is_empty()))
    }

    #[test]
    fn a_part_ends_with_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, [7; 1000]).unwrap();
        let range = |start, len| read(&path, Part::Range { start, len }).unwrap();
        for (start, len, expected) in [
            (0, 1000, 1000),
            (0, 10, 10),
            (990, 100, 10),
            (1000, 1, 0),
            (5000, 1, 0),
            (3, 0, 0),
            (u64::MAX, u64::MAX, 0),
            (i64::MAX as u64, 5, 0),
            (999, u64::MAX, 1),
        ] {
            assert_eq!(range(start, len), (expected, true), "{start} {len}");
        }
        assert_eq!(read(&path, Part::Whole { max: 1000 }).unwrap(), (1000, true));
        let error = read(&path, Part::Whole { max: 999 }).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains("1000 bytes, more than the 999"), "{error}");
    }

    #[test]
    fn a_file_that_does_not_say_its_size_is_read_to_its_end() {
        let path = std::path::Path::new("/proc/version");
        let length = fs::read(path).unwrap().len() as u64;
        for max in [length, length + 1, u64::MAX] {
            assert_eq!(read(path, Part::Whole { max }).unwrap(), (length, true), "{max}");
        }
        for max in [0, 3, length - 1] {
            assert!(!read(path, Part::Whole { max }).unwrap().1, "longer than {max}");
        }
        let empty = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(read(empty.path(), Part::Whole { max: 0 }).unwrap(), (0, true));
    }

    #[test]
    fn only_files_have_parts() {
        let directory = tempfile::tempdir().unwrap();
        let part = Part::Range { start: 0, len: 1 };
        assert_eq!(read(directory.path(), part).unwrap_err().kind, ErrorKind::Usage);
        assert_eq!(read(&directory.path().join("none"), part).unwrap_err().kind, ErrorKind::NoSource);
        assert_eq!(read(std::path::Path::new("/dev/null"), part).unwrap_err().kind, ErrorKind::Usage);
    }

    #[test]
    fn a_whole_file_that_changes_is_no_object() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, [7; 1000]).unwrap();
        let part = Part::Whole { max: 5000 };
        let bytes = path.as_os_str().as_bytes();
        let mut source = Source::of_part(&Base::Ambient, bytes, part, None, false).unwrap();
        fs::write(&path, [8; 2000]).unwrap();
        let filled = source.next_chunk(&mut vec![0; CHUNK_LEN_MAX], CHUNK_LEN_MAX).unwrap();
        assert!(filled.failures[0].message.contains("changed while it was read"), "{:?}", filled.failures);
    }
}
