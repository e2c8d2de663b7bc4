//! The end of a receiving session: what the sender is told, and its last message.

use super::Receiving;
use super::lanes::LaneQuay;
use crate::letters::{ControlEvent, ToReceiver};
use fobs_model::error::Result;
use fobs_model::message::{Complete, Finished};
use fobs_proto::session::FAREWELL_WAIT;
use fobs_store::SinkSummary;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

impl Receiving {
    pub(super) fn completion(&mut self, summary: &SinkSummary) -> Complete {
        self.count_drops();
        self.lanes.iter_mut().for_each(LaneQuay::end);
        let (dropped, rejected) = self.dropped_and_rejected();
        let usage = self.link.clock().usage();
        let (resumed, matched) = (self.reporter.all_resumed(), self.reporter.all_matched());
        let renamed = self.reporter.all_renamed();
        Complete {
            root: blake3::Hash::from_bytes(summary.root).to_hex().to_string(),
            files: summary.files + resumed.files + renamed.0,
            bytes: summary.bytes + resumed.files_bytes + renamed.1,
            resumed_bytes: resumed.bytes,
            matched_bytes: matched.total(),
            matched,
            others: summary.others,
            seconds: self
                .arrivals
                .first_data()
                .map_or(0.0, |first| (self.last_verified - first).as_secs_f64()),
            socket_drops: dropped,
            datagrams_rejected: rejected,
            cpu_seconds: usage.cpu_seconds,
            max_rss_bytes: usage.max_rss_bytes,
            written: summary.written.clone(),
        }
    }

    /// Waits for the sender's figures; a sender that goes without them has still sent everything. One that
    /// speaks is removing its sources, for as long as the timeout admits.
    pub(super) fn await_finished(&mut self) -> Result<Option<Finished>> {
        let (mut end, last) = (Instant::now() + FAREWELL_WAIT, Instant::now() + self.timeout);
        while self.finished.is_none() && Instant::now() < end {
            match self.letters.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(ToReceiver::Control(ControlEvent::Closed(_))) => break,
                Ok(ToReceiver::Control(event)) => {
                    self.take_control(event)?;
                    end = last.max(end).min(Instant::now() + FAREWELL_WAIT);
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(self.finished.take())
    }
}
