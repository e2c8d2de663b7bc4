//! Whether anything new is verified: the clock of `--timeout` at a sender.

use super::Sending;
use crate::endurance::NewsWatch;
use fobs_model::error::Result;
use fobs_model::message::Pulse;
use fobs_proto::Timestamp;
use fobs_proto::session::{Excuse, OwnEnd};

impl Sending {
    /// Ends a transfer of which nothing new is verified for too long.
    pub(super) fn check_news(&mut self, now: Timestamp) -> Result<()> {
        let end = self.news.as_ref().map_or(OwnEnd::Files, NewsWatch::end);
        let excuse = if self.steered.is_paused() {
            Some(Excuse::Paused)
        } else {
            Excuse::of_sender(self.why_waiting(), end)
        };
        self.pulse.beat(self.link.side, excuse, (&self.reporter, &self.writer));
        let (stats, holds) = (self.stats(), self.have_content());
        let Some(news) = &mut self.news else { return Ok(()) };
        let moved = stats.data_bytes_acked.saturating_add(stats.bytes_frames_delivered);
        let moved = holds.then_some(moved);
        self.peer.check(news.check(now, moved, &self.reporter, excuse))
    }

    /// The receiver says why nothing new is to be seen of it.
    pub(super) fn hear_pulse(&mut self, now: Timestamp, pulse: Pulse) {
        if let Some(news) = &mut self.news {
            news.hear(now, pulse, &self.reporter);
        }
    }
}
