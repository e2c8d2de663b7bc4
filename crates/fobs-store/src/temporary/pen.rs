//! Writing a file on several threads at a time.

use rustix::fs::fstat;

use super::*;

/// How far ahead of what is written a file grows, bytes: in a file that does not grow by it, file systems
/// take several writes past the cache at a time.
const AHEAD: u64 = 256 << 20;
/// The last page of a file is not grown to.
const PAGE: u64 = 4096;

/// Writes parts of a file on any thread.
pub(crate) struct Pen {
    file: Arc<OwnedFd>,
    /// None where a test has small files written so.
    large: Option<Arc<LargeFile>>,
}

impl Pen {
    /// Writes all of `data` at `offset`.
    pub(crate) fn write(&self, data: &[u8], offset: u64) -> Result<(), Errno> {
        match &self.large {
            Some(large) => large.write_beside(data, offset),
            None => write_all(&self.file, data, offset),
        }
    }
}

impl TemporaryFile {
    /// A pen for the next `len` bytes, where several threads write faster than one: past the page cache. Into
    /// it the kernel lets in one thread for each file.
    pub(crate) fn pen(&self, len: usize) -> Option<Pen> {
        if self.zeros == Zeros::Left {
            // A hole is made by two lengths, one after the other.
            return None;
        }
        let file = Arc::clone(&self.file);
        #[cfg(test)]
        if testing::is_on() {
            return Some(Pen { file, large: None });
        }
        let large = self.large.as_ref().filter(|large| large.goes_beside(len))?;
        Some(Pen { file, large: Some(Arc::clone(large)) })
    }

    /// Has a file grow before it is written up to `end`, never to its full size.
    pub(crate) fn grow_towards(&self, end: u64, size: u64) {
        let most = size.saturating_sub(1) / PAGE * PAGE;
        let is_shorter = |stat: fs::Stat| u64::try_from(stat.st_size).is_ok_and(|now| now < end.min(most));
        if fstat(&*self.file).is_ok_and(is_shorter) {
            // Without it the threads wait for each other.
            let _ = self.truncate((end + AHEAD).min(most));
        }
    }

    /// Cuts off what is behind the first `len` bytes.
    pub(crate) fn cut_back(&self, len: u64) -> Result<(), Errno> {
        self.truncate(len)
    }
}

/// Files of any size on any file system written in parts beside each other, for tests: those of the test's
/// own thread.
#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;

    thread_local! {
        static ON: Cell<bool> = const { Cell::new(false) };
    }

    pub fn write_beside(on: bool) {
        ON.set(on);
    }

    pub fn is_on() -> bool {
        ON.get()
    }
}
