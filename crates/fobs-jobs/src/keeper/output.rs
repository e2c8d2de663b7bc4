//! The files into which an attempt writes: it goes on writing when its keeper is gone, as into a pipe it
//! could not. What was read is given back to the disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use crate::job::JobId;

/// What was read of a file is given back in pieces of this size, bytes.
const PIECE_BYTES: u64 = 4 << 20;
/// Longest line, bytes: the rest of a longer one is skipped. A line of `fobs` is far shorter.
const LINE_BYTES_MAX: usize = 256 << 10;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// The names of an attempt's files.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub out: PathBuf,
    pub err: PathBuf,
}

impl Files {
    /// Those of an attempt, below the state's directory.
    pub(super) fn of(directory: &Path, job: JobId, number: u64) -> Files {
        let name = |end| folder(directory).join(format!("{job}.{number}.{end}"));
        Files { out: name("out"), err: name("err") }
    }

    /// Makes both, empty, to be written to at their end.
    pub(super) fn create(&self) -> io::Result<(File, File)> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        Ok((options.open(&self.out)?, options.open(&self.err)?))
    }

    pub(super) fn remove(&self) {
        // One that was never made is gone, too.
        let _ = fs::remove_file(&self.out);
        let _ = fs::remove_file(&self.err);
    }
}

/// Where they are.
pub(super) fn folder(directory: &Path) -> PathBuf {
    directory.join("run")
}

/// Reads lines of a file that grows.
#[derive(Debug)]
pub(super) struct Tail {
    file: Option<File>,
    path: PathBuf,
    offset: u64,
    given_back: u64,
    rest: Vec<u8>,
    skips: bool,
}

impl Tail {
    pub(super) fn new(path: &Path) -> Tail {
        Tail { file: None, path: path.to_owned(), offset: 0, given_back: 0, rest: Vec::new(), skips: false }
    }

    /// Hands over the lines that are new. What cannot be read is left for the next time.
    pub(super) fn read(&mut self, take: &mut dyn FnMut(&str)) {
        if self.file.is_none() {
            self.open();
        }
        let Some(file) = &mut self.file else { return };
        let mut buffer = vec![0; READ_BYTES];
        while let Ok(count) = file.read(&mut buffer) {
            if count == 0 {
                break;
            }
            self.offset += count as u64;
            for part in buffer[..count].split_inclusive(|byte| *byte == b'\n') {
                self.rest.extend_from_slice(part);
                let is_whole = part.last() == Some(&b'\n');
                if is_whole && !self.skips {
                    take(&String::from_utf8_lossy(&self.rest));
                }
                if is_whole || self.rest.len() > LINE_BYTES_MAX {
                    self.skips = !is_whole;
                    self.rest.clear();
                }
            }
        }
        let done = (self.offset - self.given_back) / PIECE_BYTES * PIECE_BYTES;
        if done > 0 {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Where the file system knows no holes, the file stays until its attempt ends.
            let _ = fallocate(&*file, hole, self.given_back, done);
            self.given_back += done;
        }
    }

    fn open(&mut self) {
        // Written to, for the holes.
        let Ok(mut file) = OpenOptions::new().read(true).write(true).open(&self.path) else { return };
        // Where an earlier keeper has read, there is a hole.
        if let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0))
            && file.seek(SeekFrom::Start(data)).is_ok()
        {
            (self.offset, self.given_back, self.skips) = (data, data, data > 0);
        }
        self.file = Some(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn lines_are_read_as_they_come_and_their_room_is_given_back() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("out");
        let mut tail = Tail::new(&path);
        let mut lines = Vec::new();
        tail.read(&mut |line| lines.push(line.trim_end().len()));
        let mut file = OpenOptions::new().append(true).create(true).open(&path).expect("a file");
        file.write_all(b"one\nhal").expect("room");
        tail.read(&mut |line| lines.push(line.trim_end().len()));
        file.write_all(b"f\n").expect("room");
        file.write_all(&[b'x'; LINE_BYTES_MAX + READ_BYTES]).expect("room");
        file.write_all(b"\n").expect("room");
        tail.read(&mut |line| lines.push(line.trim_end().len()));
        assert_eq!(lines, [3, 4], "the long line is skipped");
        let line = [[b'y'; 99].as_slice(), b"\n"].concat();
        (0..200_000).for_each(|_| file.write_all(&line).expect("room"));
        let mut count = 0;
        tail.read(&mut |_| count += 1);
        assert_eq!(count, 200_000);
        file.write_all(b"last\n").expect("room");
        let metadata = fs::metadata(&path).expect("it is there");
        if metadata.blocks() * 512 < metadata.len() {
            // The next keeper begins where there is something.
            let mut after = Vec::new();
            Tail::new(&path).read(&mut |line| after.push(line.trim_end().to_owned()));
            assert!(after.len() < 100_000, "{}", after.len());
            assert_eq!(after.last().map(String::as_str), Some("last"));
        }
    }
}
