//! A file as the pieces into which it is cut.

use std::ops::Range;
use std::os::fd::AsFd;

use rustix::io::{Errno, pread};

use super::cut::Average;
use super::form::Cutting;

/// Read at once, beside what must be seen of a piece, bytes.
const READ: usize = 512 << 10;

/// What is cut into pieces.
pub(super) trait ReadsAt {
    /// Reads what is at a place; 0 at the end.
    fn read_at(&self, room: &mut [u8], at: u64) -> Result<usize, Errno>;
}

impl<F: AsFd> ReadsAt for F {
    fn read_at(&self, room: &mut [u8], at: u64) -> Result<usize, Errno> {
        pread(self, room, at)
    }
}

/// Reads a file, or a part of it, from front to back.
pub(super) struct Pieces {
    average: Average,
    cutting: Cutting,
    /// Where in the file the last piece ends, at the latest.
    limit: u64,
    buffer: Vec<u8>,
    /// What of the buffer is read and not handed out.
    start: usize,
    end: usize,
    /// Where in the file that begins.
    at: u64,
    ended: bool,
}

impl Pieces {
    /// Of a file that is supposed to have `size` bytes.
    pub(super) fn new(cut: (Average, Cutting), size: u64) -> Pieces {
        // One that is longer meanwhile is read in smaller parts.
        let least = 2 * cut.0.longest();
        let most = usize::try_from(size).unwrap_or(usize::MAX).max(least);
        Pieces::with(cut, 0..u64::MAX, most)
    }

    /// Of a part of the file.
    pub(super) fn within(cut: (Average, Cutting), part: Range<u64>) -> Pieces {
        let most = usize::try_from(part.end - part.start).unwrap_or(usize::MAX);
        Pieces::with(cut, part, most)
    }

    fn with((average, cutting): (Average, Cutting), part: Range<u64>, most: usize) -> Pieces {
        let buffer = vec![0; (READ + average.longest()).min(most)];
        Pieces { average, cutting, limit: part.end, buffer, start: 0, end: 0, at: part.start, ended: false }
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
    pub(super) fn next(&mut self, from: &impl ReadsAt) -> Result<Option<(u64, &[u8])>, Errno> {
        if self.end - self.start < self.average.longest() && !self.ended {
            self.fill(from)?;
        }
        let len = self.cutting.cut(&self.buffer[self.start..self.end], self.average);
        if len == 0 {
            return Ok(None);
        }
        let (at, start) = (self.at, self.start);
        self.start += len;
        self.at += len as u64;
        Ok(Some((at, &self.buffer[start..start + len])))
    }

    /// Takes the next `len` bytes, at most [`Average::longest`], as a piece if `is_one` says so of them;
    /// whether it did. Where the file ends before, it does not.
    pub(super) fn next_if(
        &mut self,
        from: &impl ReadsAt,
        len: usize,
        is_one: impl FnOnce(&[u8]) -> bool,
    ) -> Result<bool, Errno> {
        if self.end - self.start < len && !self.ended {
            self.fill(from)?;
        }
        let is_next = self.buffer[self.start..self.end].get(..len).is_some_and(is_one);
        if is_next {
            self.start += len;
            self.at += len as u64;
        }
        Ok(is_next)
    }

    fn fill(&mut self, from: &impl ReadsAt) -> Result<(), Errno> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.end < self.buffer.len() {
            let next = self.at + self.end as u64;
            let left = usize::try_from(self.limit.saturating_sub(next)).unwrap_or(usize::MAX);
            let room = (self.buffer.len() - self.end).min(left);
            match from.read_at(&mut self.buffer[self.end..][..room], next) {
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
