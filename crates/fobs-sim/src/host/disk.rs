//! A disk with a write-back cache: what is written is stored, what has reached the medium is durable, and a
//! crash loses the difference.

use super::work_time;
use crate::time::Nanos;

/// What a disk is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskConfig {
    /// Bytes per second to the medium; 0 for no limit.
    pub rate: u64,
    /// Dirty bytes that the cache holds; 0 writes through.
    pub cache: u64,
    /// Bytes that fit; 0 for any.
    pub capacity: u64,
    /// When it begins to fail every write.
    pub fails_at: Option<Nanos>,
    /// From when until when nothing moves. Ascending.
    pub stalls: Vec<(Nanos, Nanos)>,
    /// When the writer syncs.
    pub sync: Sync,
}

/// When written data is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// The system does it when it likes.
    Never,
    /// Once, before the transfer is reported complete.
    End,
}

impl Default for DiskConfig {
    fn default() -> Self {
        DiskConfig { rate: 0, cache: 0, capacity: 0, fails_at: None, stalls: Vec::new(), sync: Sync::Never }
    }
}

/// Why a chunk could not be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreError {
    Full,
    Failed,
}

/// A running disk.
#[derive(Debug)]
pub(crate) struct Disk {
    config: DiskConfig,
    /// Bytes written, as of `counted`.
    stored: u64,
    /// Of those, bytes in the cache alone.
    dirty: u64,
    counted: Nanos,
}

impl Disk {
    pub(crate) fn new(config: DiskConfig) -> Disk {
        Disk { config, stored: 0, dirty: 0, counted: 0 }
    }

    /// Writes `len` bytes from `now` on; when the write returns.
    pub(crate) fn write(&mut self, now: Nanos, len: u64) -> Result<Nanos, StoreError> {
        if self.config.fails_at.is_some_and(|at| at <= now) {
            return Err(StoreError::Failed);
        }
        if self.config.capacity > 0 && self.stored + len > self.config.capacity {
            return Err(StoreError::Full);
        }
        self.flush(now);
        self.stored += len;
        self.dirty += len;
        let excess = self.dirty.saturating_sub(self.config.cache);
        Ok(self.done(now, work_time(excess, self.config.rate)))
    }

    /// When everything written is durable.
    pub(crate) fn sync(&mut self, now: Nanos) -> Nanos {
        self.flush(now);
        self.done(now, work_time(self.dirty, self.config.rate))
    }

    /// Bytes that a crash at `now` would not lose.
    pub(crate) fn durable(&mut self, now: Nanos) -> u64 {
        self.flush(now);
        self.stored - self.dirty
    }

    pub(crate) fn syncs_at_the_end(&self) -> bool {
        self.config.sync == Sync::End
    }

    /// No more stalls, and no failures that have not begun. A disk that is full stays full.
    pub(crate) fn calm(&mut self, now: Nanos) {
        self.flush(now);
        self.config.stalls.clear();
        self.config.fails_at = self.config.fails_at.filter(|at| *at <= now);
    }

    /// The cache empties at the disk's rate.
    fn flush(&mut self, now: Nanos) {
        let mut moving = now.saturating_sub(self.counted);
        for (from, until) in &self.config.stalls {
            let stalled = (*until).min(now).saturating_sub((*from).max(self.counted));
            moving = moving.saturating_sub(stalled);
        }
        self.counted = self.counted.max(now);
        let flushed = if self.config.rate == 0 {
            self.dirty
        } else {
            (u128::from(moving) * u128::from(self.config.rate) / 1_000_000_000).min(u128::from(self.dirty))
                as u64
        };
        self.dirty -= flushed;
    }

    /// When work of this length, begun at `now`, is done, stalls included.
    fn done(&self, now: Nanos, work: Nanos) -> Nanos {
        let mut at = now.saturating_add(work);
        for (from, until) in &self.config.stalls {
            if *from < at && *until > now {
                at = at.saturating_add(*until - (*from).max(now));
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{MS, SEC};

    fn disk(config: DiskConfig) -> Disk {
        Disk::new(DiskConfig { rate: 1_000_000, ..config })
    }

    #[test]
    fn writes_take_the_disks_time_once_the_cache_is_full() {
        let mut through = disk(DiskConfig::default());
        assert_eq!(through.write(0, 500_000), Ok(SEC / 2));
        let mut cached = disk(DiskConfig { cache: 1_000_000, ..DiskConfig::default() });
        assert_eq!(cached.write(0, 800_000), Ok(0));
        assert_eq!(cached.write(0, 400_000), Ok(SEC / 5));
        assert_eq!(cached.durable(SEC), 1_000_000);
        assert_eq!(cached.sync(SEC), SEC + SEC / 5);
        assert_eq!(cached.durable(10 * SEC), 1_200_000);
    }

    #[test]
    fn disks_fill_fail_and_stall() {
        let mut small = disk(DiskConfig { capacity: 1_000_000, ..DiskConfig::default() });
        small.write(0, 900_000).expect("fits");
        assert_eq!(small.write(0, 200_000), Err(StoreError::Full));
        let mut broken = disk(DiskConfig { fails_at: Some(SEC), ..DiskConfig::default() });
        broken.write(0, 1).expect("still works");
        assert_eq!(broken.write(SEC, 1), Err(StoreError::Failed));
        let stalls = vec![(100 * MS, 300 * MS)];
        let mut stalled = disk(DiskConfig { stalls, cache: 1 << 30, ..DiskConfig::default() });
        assert_eq!(stalled.write(0, 500_000), Ok(0));
        assert_eq!(stalled.durable(300 * MS), 100_000, "what was flushed before the stall");
        assert_eq!(stalled.sync(200 * MS), 700 * MS);
    }
}
