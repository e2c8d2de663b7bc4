//! The thread that verifies and stores: chunks come as they complete, are verified at once, and stored in
//! order; the engine's `writer` in virtual time.

use super::measured::Worked;
use crate::flow::Outcome;
use crate::host::{Disk, HostConfig, StoreError, work_time};
use crate::time::Nanos;
use fobs_proto::ChunkId;
use std::collections::{BTreeMap, VecDeque};

/// The writer's report to the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriterEvent {
    Nothing,
    Failed(Outcome),
}

/// A letter to the receiving thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letter {
    Verdict { chunk: ChunkId, matches: bool },
    Stored(ChunkId),
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Verify { chunk: ChunkId, len: u32, matches: bool },
    Store { chunk: ChunkId },
    Sync,
}

#[derive(Debug)]
pub(super) struct Writer {
    disk: Disk,
    hash_rate: u64,
    arrived: VecDeque<(ChunkId, u32, bool)>,
    /// Verified, waiting for their turn.
    held: BTreeMap<ChunkId, u32>,
    next: ChunkId,
    work: Option<Work>,
    finishing: bool,
    synced: bool,
    worked: Worked,
}

impl Writer {
    pub(super) fn new(host: &HostConfig) -> Writer {
        Writer {
            disk: Disk::new(host.disk.clone()),
            hash_rate: host.hash_rate,
            arrived: VecDeque::new(),
            held: BTreeMap::new(),
            next: 0,
            work: None,
            finishing: false,
            synced: false,
            worked: Worked::default(),
        }
    }

    /// A chunk is complete; `matches` is its verdict to be.
    pub(super) fn push(&mut self, chunk: ChunkId, len: u32, matches: bool) {
        self.arrived.push_back((chunk, len, matches));
    }

    /// Everything is stored: the last step makes it durable, where that is configured.
    pub(super) fn finish(&mut self) {
        self.finishing = true;
        self.synced |= !self.disk.syncs_at_the_end();
    }

    /// Whether nothing is left to do.
    pub(super) fn is_finished(&self) -> bool {
        self.finishing && self.synced
    }

    /// Chunks below are stored; with those below the other, storing has begun.
    pub(super) fn written(&self) -> (ChunkId, ChunkId) {
        (self.next, self.next + ChunkId::from(matches!(self.work, Some(Work::Store { .. }))))
    }

    /// The disk, which outlives the process.
    pub(super) fn into_disk(self) -> Disk {
        self.disk
    }

    /// Stores on this disk.
    pub(super) fn use_disk(&mut self, disk: Disk) {
        self.disk = disk;
    }

    /// Chunks held.
    pub(super) fn chunks(&self) -> usize {
        let working = matches!(self.work, Some(Work::Verify { .. } | Work::Store { .. }));
        self.arrived.len() + self.held.len() + usize::from(working)
    }

    /// Begins the next piece of work, if idle and there is any: when it will be done.
    pub(super) fn start(&mut self, now: Nanos) -> Result<Option<Nanos>, StoreError> {
        if self.work.is_some() {
            return Ok(None);
        }
        if let Some(len) = self.held.remove(&self.next) {
            self.work = Some(Work::Store { chunk: self.next });
            let done = self.disk.write(now, u64::from(len))?;
            self.worked.device += done - now;
            return Ok(Some(done));
        }
        if let Some((chunk, len, matches)) = self.arrived.pop_front() {
            self.work = Some(Work::Verify { chunk, len, matches });
            let takes = work_time(u64::from(len), self.hash_rate);
            self.worked.computing += takes;
            return Ok(Some(now + takes));
        }
        if self.finishing && !self.synced {
            self.work = Some(Work::Sync);
            return Ok(Some(self.disk.sync(now)));
        }
        Ok(None)
    }

    /// The piece of work is done.
    pub(super) fn on_done(&mut self) -> Option<Letter> {
        match self.work.take()? {
            Work::Verify { chunk, len, matches } => {
                if matches {
                    self.held.insert(chunk, len);
                }
                Some(Letter::Verdict { chunk, matches })
            }
            Work::Store { chunk } => {
                self.next += 1;
                Some(Letter::Stored(chunk))
            }
            Work::Sync => {
                self.synced = true;
                None
            }
        }
    }

    /// Its work so far, with what it has begun.
    pub(super) fn worked(&self) -> Worked {
        self.worked
    }

    /// Bytes that a crash would not lose.
    pub(super) fn durable(&mut self, now: Nanos) -> u64 {
        self.disk.durable(now)
    }

    pub(super) fn calm(&mut self, now: Nanos) {
        self.disk.calm(now);
    }
}

/// The outcome of a transfer whose disk fails.
pub(super) fn outcome_of(error: StoreError) -> Outcome {
    match error {
        StoreError::Full => Outcome::DiskFull,
        StoreError::Failed => Outcome::DiskFailed,
    }
}
