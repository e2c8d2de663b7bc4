//! The removal of sources that the receiver has, after its completion signal and before the farewell.

use super::Sending;
use fobs_model::error::Result;
use fobs_proto::session::HEARTBEAT;
use std::time::Instant;

impl Sending {
    /// Removes what is to be removed. The completion signal says that all of it is stored, and synced where
    /// that was asked for, but for what was reported before it.
    pub(super) fn remove_sources(&mut self) -> Result<()> {
        let Some(removal) = self.removal.take() else { return Ok(()) };
        let (reporter, cancel) = (&self.reporter, &self.cancel);
        let standing = self.standing();
        let mut told = Instant::now();
        removal.carry_out(
            &|path| reporter.has_failed(path),
            &mut |removed| match removed {
                Ok(path) => reporter.source_removed(path),
                Err(failure) => reporter.failed_here(failure),
            },
            &mut || {
                if told.elapsed() >= HEARTBEAT {
                    // The peer waits for the farewell as long as it hears something.
                    reporter.standing_to_peer(standing.clone());
                    told = Instant::now();
                }
                cancel.check()
            },
        )
    }
}
