//! The bytes of a journal: a file, or one that fails on demand in tests.

use std::os::fd::OwnedFd;

use rustix::fs::ftruncate;
use rustix::io::{Errno, pread, pwrite};

#[cfg(test)]
use crate::faults;
use crate::keep;

/// Reads and writes at offsets.
pub(crate) trait Store: Send + Sync {
    /// Fills `buf` from `offset` on as far as the file goes; how much.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno>;
    /// Writes all of `data`, or fails after any part of it.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Errno>;
    /// Waits until the device has kept everything that was written.
    fn sync(&self) -> Result<(), Errno>;
    /// Drops what is behind `len`; a file system keeps that before names that change later.
    fn shorten(&self, len: u64) -> Result<(), Errno>;
}

/// A journal's file. Its lock ends when it is closed.
pub(crate) struct FileStore(pub(crate) OwnedFd);

impl Store for FileStore {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let mut filled = 0;
        while filled < buf.len() {
            match pread(&self.0, &mut buf[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Errno> {
        #[cfg(test)]
        faults::strike(faults::Call::Record)?;
        let mut written = 0;
        while written < data.len() {
            let done = pwrite(&self.0, &data[written..], offset + written as u64);
            #[cfg(test)]
            crate::recorder::written(&done, &self.0, &data[written..], offset + written as u64);
            match done {
                Ok(0) => return Err(Errno::IO),
                Ok(more) => written += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), Errno> {
        keep::content(&self.0)
    }

    fn shorten(&self, len: u64) -> Result<(), Errno> {
        #[cfg(test)]
        faults::strike(faults::Call::Truncate)?;
        let done = ftruncate(&self.0, len);
        #[cfg(test)]
        crate::recorder::truncated(&done, &self.0, len);
        done
    }
}
