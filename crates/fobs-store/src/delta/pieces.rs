//! A file as the pieces into which its content cuts it.

use std::os::fd::AsFd;

use rustix::io::{Errno, pread};

use super::cut::{Average, cut};

/// Read at once, beside what must be seen of a piece, bytes.
const READ: usize = 512 << 10;

/// Reads a file from front to back.
pub(super) struct Pieces {
    average: Average,
    buffer: Vec<u8>,
    /// What of the buffer is read and not handed out.
    start: usize,
    end: usize,
    /// Where in the file that begins.
    at: u64,
    ended: bool,
}

impl Pieces {
    pub(super) fn new(average: Average) -> Pieces {
        let buffer = vec![0; READ + average.longest()];
        Pieces { average, buffer, start: 0, end: 0, at: 0, ended: false }
    }

    /// Where the next piece begins.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Goes on at another place.
    pub(super) fn seek(&mut self, at: u64) {
        (self.start, self.end, self.at, self.ended) = (0, 0, at, false);
    }

    /// The next piece and where it begins; none at the end.
    pub(super) fn next(&mut self, file: impl AsFd) -> Result<Option<(u64, &[u8])>, Errno> {
        if self.end - self.start < self.average.longest() && !self.ended {
            self.fill(file)?;
        }
        let len = cut(&self.buffer[self.start..self.end], self.average);
        if len == 0 {
            return Ok(None);
        }
        let (at, start) = (self.at, self.start);
        self.start += len;
        self.at += len as u64;
        Ok(Some((at, &self.buffer[start..start + len])))
    }

    fn fill(&mut self, file: impl AsFd) -> Result<(), Errno> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.end < self.buffer.len() {
            match pread(&file, &mut self.buffer[self.end..], self.at + self.end as u64) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(());
                }
                Ok(read) => self.end += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
