//! Writing to the device (`O_DIRECT`).

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::io::{Errno, pwrite};

use super::ways::{Way, Ways};
use crate::at;
#[cfg(test)]
use crate::{faults, recorder};

/// Smallest write that passes the cache, bytes: each waits for the device.
const WRITE_MIN: usize = 1 << 20;
/// Least multiple of places and lengths, bytes: a page that is written both ways would have to leave the
/// cache each time.
const PAGE: usize = 4096;
/// A file's second descriptor, past the page cache.
#[derive(Debug)]
pub(crate) struct Uncached {
    file: OwnedFd,
    /// What addresses, and what places and lengths must be multiples of, bytes.
    memory: usize,
    place: usize,
    ways: Ways,
}

impl Uncached {
    /// Of a file that is open for writing; none where its file system cannot.
    pub(crate) fn of(file: &OwnedFd, ways: &Ways) -> Option<Uncached> {
        let (memory, place) = at::direct_alignment(file)?;
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = at::reopen(file, flags).ok()?;
        Some(Uncached { file, memory, place: place.max(PAGE), ways: ways.clone() })
    }

    /// Writes `data` at `offset` the faster way; `rest` writes what is to go through the cache.
    pub(crate) fn write(
        &self,
        data: &[u8],
        offset: u64,
        rest: impl FnOnce(&[u8], u64) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let passes = self.passes(data, offset);
        if passes < WRITE_MIN {
            return rest(data, offset);
        }
        let way = self.ways.with(|paces| paces.next());
        let began = Instant::now();
        let written = match way {
            Way::Through => 0,
            Way::Past => self.write_past(&data[..passes], offset)?,
        };
        rest(&data[written..], offset + written as u64)?;
        self.ways.with(|paces| paces.took(way, data.len(), began.elapsed()));
        Ok(())
    }

    /// Whether the next write, of `bytes` bytes, may be [beside](Self::write_beside) others.
    pub(crate) fn goes_beside(&self, bytes: usize) -> bool {
        bytes >= WRITE_MIN && self.ways.with(|paces| paces.goes_beside(bytes))
    }

    /// Writes `data` at `offset` past the cache, perhaps while other threads write, and so untimed; `rest`
    /// writes what cannot pass.
    pub(crate) fn write_beside(
        &self,
        data: &[u8],
        offset: u64,
        rest: impl FnOnce(&[u8], u64) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let passes = self.passes(data, offset);
        let written = self.write_past(&data[..passes], offset)?;
        if written == data.len() { Ok(()) } else { rest(&data[written..], offset + written as u64) }
    }

    /// How much of `data` may pass the cache: none unless address and place are as they must be.
    fn passes(&self, data: &[u8], offset: u64) -> usize {
        let is_place = usize::try_from(offset).is_ok_and(|offset| offset.is_multiple_of(self.place));
        if is_place && data.as_ptr().addr().is_multiple_of(self.memory) {
            data.len() - data.len() % self.place
        } else {
            0
        }
    }

    /// Returns how much was written: less than all where the file system does not like the rest.
    fn write_past(&self, data: &[u8], offset: u64) -> Result<usize, Errno> {
        let mut written = 0;
        while self.passes(&data[written..], offset + written as u64) > 0 {
            #[cfg(test)]
            faults::strike(faults::Call::Write)?;
            let (rest, at) = (&data[written..], offset + written as u64);
            let done = pwrite(&self.file, rest, at);
            #[cfg(test)]
            recorder::written(&done, &self.file, rest, at);
            match done {
                Ok(0) => return Err(Errno::IO),
                Ok(bytes) => written += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                    self.ways.with(|paces| paces.refused = true);
                    return Ok(written);
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests;
