//! Writing large files: to the device (`O_DIRECT`) where that can be done and is not slower.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::io::{Errno, pwrite};

use super::account::Account;
use super::through::{write_all, write_once};
use super::ways::{Way, Ways};
use crate::at;
#[cfg(test)]
use crate::{faults, recorder};
use fobs_model::storage::{CacheReason, CacheUse};

/// Smallest write that passes the cache, bytes: each waits for the device.
pub(super) const WRITE_MIN: usize = 1 << 20;
/// Least multiple of places and lengths, bytes: a page that is written both ways would have to leave the
/// cache each time.
const PAGE: usize = 4096;

/// What the user wants of the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageCache {
    /// Large files keep out of it.
    Passed,
    /// They go through it (`--cache`).
    Used,
}

/// A large file that is written.
#[derive(Debug)]
pub(crate) struct LargeFile {
    file: Arc<OwnedFd>,
    cache: PageCache,
    /// None where the user wants none, and where the file system cannot.
    uncached: Option<Uncached>,
    ways: Ways,
    account: Account,
}

/// A file's second descriptor, past the page cache.
#[derive(Debug)]
struct Uncached {
    file: OwnedFd,
    /// What addresses, and what places and lengths must be multiples of, bytes.
    memory: usize,
    place: usize,
}

impl LargeFile {
    /// Of a file that is open for writing.
    pub(super) fn new(file: Arc<OwnedFd>, cache: PageCache, ways: Ways, account: Account) -> LargeFile {
        let uncached = match cache {
            PageCache::Passed => Uncached::of(&file),
            PageCache::Used => None,
        };
        LargeFile { file, cache, uncached, ways, account }
    }

    /// Writes `data` at `offset` the faster way.
    pub(crate) fn write(&self, data: &[u8], offset: u64) -> Result<(), Errno> {
        let Some(uncached) = &self.uncached else {
            return self.write_through(data, offset, self.why_never_direct());
        };
        if uncached.passes(data, offset) < WRITE_MIN {
            return self.write_through(data, offset, CacheReason::Pieces);
        }
        let (way, why) = self.ways.with(|paces| paces.next());
        let began = Instant::now();
        match way {
            Way::Through => self.write_through(data, offset, why)?,
            Way::Past => self.write_past(uncached, data, offset)?,
        }
        self.ways.with(|paces| paces.took(way, data.len(), began.elapsed()));
        Ok(())
    }

    /// Whether the next write, of `bytes` bytes, may be [beside](Self::write_beside) others.
    pub(crate) fn goes_beside(&self, bytes: usize) -> bool {
        self.uncached.is_some() && bytes >= WRITE_MIN && self.ways.with(|paces| paces.goes_beside(bytes))
    }

    /// Writes `data` at `offset` past the cache, perhaps while other threads write, and so untimed.
    pub(crate) fn write_beside(&self, data: &[u8], offset: u64) -> Result<(), Errno> {
        match &self.uncached {
            Some(uncached) => self.write_past(uncached, data, offset),
            None => self.write_through(data, offset, self.why_never_direct()),
        }
    }

    fn why_never_direct(&self) -> CacheReason {
        match self.cache {
            PageCache::Passed => CacheReason::NoDirect,
            PageCache::Used => CacheReason::Asked,
        }
    }

    fn write_through(&self, data: &[u8], offset: u64, why: CacheReason) -> Result<(), Errno> {
        let way = match self.cache {
            PageCache::Passed => write_once(&self.file, data, offset)?,
            PageCache::Used => write_all(&self.file, data, offset).map(|()| CacheUse::Cached)?,
        };
        let why = match (way, why) {
            (CacheUse::Cached, CacheReason::NoDirect) => CacheReason::NoOther,
            (_, why) => why,
        };
        self.account.add(way, Some(why), data.len());
        Ok(())
    }

    /// What the file system does not take past the cache goes through it.
    fn write_past(&self, uncached: &Uncached, data: &[u8], offset: u64) -> Result<(), Errno> {
        let passes = uncached.passes(data, offset);
        let (written, why) = match uncached.write(&data[..passes], offset)? {
            Past::Written(written) => (written, CacheReason::Pieces),
            Past::Refused(written) => {
                self.ways.with(|paces| paces.refused = true);
                (written, CacheReason::Refused)
            }
        };
        let (rest, at) = (&data[written..], offset + written as u64);
        let is_tail = why == CacheReason::Pieces && written > 0 && rest.len() < uncached.place;
        self.account.add(CacheUse::Direct, None, written + if is_tail { rest.len() } else { 0 });
        match (rest.is_empty(), is_tail) {
            (true, _) => Ok(()),
            // Less than a block at the end of a file is not worth a row of its own.
            (false, true) => write_once(&self.file, rest, at).map(|_| ()),
            (false, false) => self.write_through(rest, at, why),
        }
    }
}

/// How a write past the cache ended: with how many bytes.
enum Past {
    /// Fewer than all where a write ended within a block.
    Written(usize),
    /// The file system did not take what is behind them.
    Refused(usize),
}

impl Uncached {
    /// Of a file that is open for writing; none where its file system cannot.
    fn of(file: &OwnedFd) -> Option<Uncached> {
        let (memory, place) = at::direct_alignment(file)?;
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = at::reopen(file, flags).ok()?;
        Some(Uncached { file, memory, place: place.max(PAGE) })
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

    /// Writes what [`passes`](Self::passes) admits.
    fn write(&self, data: &[u8], offset: u64) -> Result<Past, Errno> {
        let mut written = 0;
        while self.passes(&data[written..], offset + written as u64) > 0 {
            #[cfg(test)]
            let struck = faults::strike(faults::Call::Write);
            #[cfg(not(test))]
            let struck: Result<(), Errno> = Ok(());
            let (rest, at) = (&data[written..], offset + written as u64);
            let done = struck.and_then(|()| pwrite(&self.file, rest, at));
            #[cfg(test)]
            recorder::written(&done, &self.file, rest, at);
            match done {
                Ok(0) => return Err(Errno::IO),
                Ok(bytes) => written += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Past::Refused(written)),
                Err(errno) => return Err(errno),
            }
        }
        Ok(Past::Written(written))
    }
}

#[cfg(test)]
mod tests;
