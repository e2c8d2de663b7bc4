//! The reading thread: fills chunks from the disk and hashes them; the engine's `reader` in virtual time.

use super::measured::Worked;
use super::{Identity, Role};
use crate::host::{HostConfig, work_time};
use crate::net::Net;
use crate::object::Cut;
use fobs_proto::session::ChunkRead;
use std::collections::VecDeque;

/// Buffers at the reader, the chunk that is being read, and those that are filled.
#[derive(Debug, Default)]
pub(super) struct Reading {
    grants: VecDeque<u32>,
    /// Chunks that a schedule has chosen.
    given: VecDeque<ChunkRead>,
    current: Option<ChunkRead>,
    filled: VecDeque<ChunkRead>,
    worked: Worked,
}

impl Reading {
    /// Takes an empty buffer, for up to `data_max` bytes of data.
    pub(super) fn grant(&mut self, data_max: u32) {
        self.grants.push_back(data_max);
    }

    /// Takes an empty buffer, for this chunk.
    pub(super) fn give(&mut self, chunk: ChunkRead) {
        self.given.push_back(chunk);
    }

    /// Begins the next chunk, if the thread is idle and there is one.
    pub(super) fn start(&mut self, net: &mut Net, me: Identity, host: &HostConfig, cut: &mut Cut) {
        if self.current.is_some() {
            return;
        }
        let mut cut_next = || self.grants.pop_front().and_then(|data_max| cut.next(data_max));
        let Some(chunk) = self.given.pop_front().or_else(&mut cut_next) else { return };
        self.current = Some(chunk);
        let len = u64::from(chunk.len);
        let (device, computing) = (work_time(len, host.disk.rate), work_time(len, host.hash_rate));
        self.worked.device += device;
        self.worked.computing += computing;
        net.agenda.set(me.slot(Role::Read), Some(net.now + device + computing));
    }

    /// The chunk is read.
    pub(super) fn on_done(&mut self) {
        self.filled.extend(self.current.take());
    }

    /// Its work so far, with the chunk that is being read.
    pub(super) fn worked(&self) -> Worked {
        self.worked
    }

    /// A chunk for the sending thread.
    pub(super) fn take(&mut self) -> Option<ChunkRead> {
        self.filled.pop_front()
    }
}
