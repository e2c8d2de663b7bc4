//! Whether anything new arrives: the clock of `--timeout` at a receiver.

use super::Receiving;
use crate::endurance::NewsWatch;
use fobs_model::error::Result;
use fobs_proto::object::TRAILER_LEN;
use fobs_proto::session::{Excuse, OwnEnd};
use fobs_proto::{ChunkId, Timestamp};
use std::collections::BTreeSet;

/// Chunks without anything of the object: they show that the path works, and are nothing new.
#[derive(Default)]
pub(super) struct Keepalives {
    /// Those that are not stored yet; at most the credit.
    arrived: BTreeSet<ChunkId>,
    seen: u64,
}

impl Keepalives {
    /// A chunk is complete, at its first attempt or a later one.
    pub(super) fn on_complete(&mut self, chunk: ChunkId, len: usize) {
        if len <= TRAILER_LEN as usize && self.arrived.insert(chunk) {
            self.seen += 1;
        }
    }

    /// A chunk is stored: whether it was one of these.
    pub(super) fn on_stored(&mut self, chunk: ChunkId) -> bool {
        self.arrived.remove(&chunk)
    }
}

impl Receiving {
    /// Ends a transfer of which nothing new arrives or is stored for too long.
    pub(super) fn check_news(&mut self, now: Timestamp) -> Result<()> {
        let end = self.news.as_ref().map_or(OwnEnd::Files, NewsWatch::end);
        let excuse = if self.steering.is_paused() {
            Some(Excuse::Paused)
        } else {
            Excuse::of_receiver(self.machine.backlog(), end)
        };
        self.pulse.beat(self.link.side, excuse, (&self.reporter, &self.writer));
        let accepted = self.accepted();
        let Some(news) = &mut self.news else { return Ok(()) };
        let moved = accepted.saturating_sub(self.keepalives.seen);
        self.peer.check(news.check(now, Some(moved), &self.reporter, excuse))
    }
}
