//! What a sending session does for its lanes: their silence, their figures, their ends.

use super::{LaneShown, Spent, is_silent};
use crate::measure::Audience;
use crate::send::{Sending, figures};
use fobs_model::error::{Error, Result};
use fobs_model::message::Finished;
use fobs_proto::sender::SenderStats;
use fobs_proto::session::Silence;
use fobs_proto::{ChunkId, Timestamp};

impl Sending {
    /// Takes chunks from the schedule for the first lane.
    pub(in crate::send) fn take_tasks(&mut self) {
        if let Some(lanes) = &mut self.lanes {
            let now = self.link.clock().now();
            lanes.seat.take_tasks(now, &mut self.policy, &mut self.machine);
        }
    }

    /// Judges the first lane's silence: it is the session's only if no other lane is answered.
    pub(in crate::send) fn check_lanes(&mut self, now: Timestamp, silence: Silence) -> Result<()> {
        self.show_first(now, silence);
        let Some(lanes) = &mut self.lanes else { return self.peer.check(silence) };
        for sentence in lanes.unheard(now) {
            self.reporter.notice_here(sentence);
        }
        if is_silent(silence) && lanes.others_answer() { Ok(()) } else { self.peer.check(silence) }
    }

    fn show_first(&mut self, now: Timestamp, silence: Silence) {
        if let Some(lanes) = &self.lanes {
            let spent = Spent { at: now, waits: self.telemetry.meter.waits(), ..Spent::default() };
            lanes.show_first(now, &self.machine, LaneShown::of(&self.machine, &self.link, silence, spent));
        }
    }

    /// A lane beside the first has ended; its chunks go to the others.
    pub(in crate::send) fn lane_ended(&self, lane: usize, error: &Error) {
        let Some(lanes) = &self.lanes else { return };
        self.reporter.notice_here(crate::lanes::has_ended(lanes.name(lane), error));
    }

    /// The receiver could not verify a chunk of a lane.
    ///
    /// # Errors
    /// `Integrity` for a chunk that failed too often; `Protocol` for a lane that there is not.
    pub(in crate::send) fn send_lane_again(&mut self, lane: u8, chunk: ChunkId, attempt: u8) -> Result<()> {
        let Some(lanes) = &mut self.lanes else { return Err(crate::lanes::no_such_lane(lane)) };
        if lane == 0 && !lanes.seat.has_had(chunk) {
            return self.send_own_again(chunk, attempt);
        }
        if lane == 0 {
            let mistaken = lanes.seat.send_again(&mut self.policy, &mut self.machine, (chunk, attempt))?;
            if mistaken {
                self.gauge.was_mistaken();
            }
            return Ok(());
        }
        if lanes.reject(lane, chunk, attempt) { Ok(()) } else { Err(crate::lanes::no_such_lane(lane)) }
    }

    /// Ends the threads of the lanes.
    pub(in crate::send) fn end_lanes(&mut self, now: Timestamp) {
        self.show_first(now, Silence::Short);
        let Some(lanes) = &mut self.lanes else { return };
        lanes.end();
        self.telemetry.causes.learn(lanes.take_lessons());
    }

    /// Takes a sample of all lanes.
    pub(in crate::send) fn measure(&mut self, now: Timestamp, audience: Audience) {
        let sample = self.stream_figures().sample;
        let shown = self.telemetry.measure(now, &self.machine, (sample, self.lanes.as_mut()), audience);
        self.watch_sender(&shown);
    }

    /// Counters of all lanes.
    pub(in crate::send) fn stats(&self) -> SenderStats {
        let stats = self.machine.stats();
        self.lanes.as_ref().map_or(stats, |lanes| lanes.add_others(stats))
    }

    /// The figures for the peer.
    pub(in crate::send) fn finished(&self) -> Finished {
        let rejected = self.link.rejected() + self.lanes.as_ref().map_or(0, |lanes| lanes.rejected());
        let (streams, literal) = (self.stream_figures(), self.gauge.literal());
        let lanes = self.lanes.as_ref().map(|lanes| lanes.account()).unwrap_or_default();
        let usage = self.link.clock().usage();
        Finished {
            lanes,
            ..figures::finished(&self.machine, self.stats(), rejected, &streams, literal, usage)
        }
    }

    /// Whether any chunk that is held has something of the object.
    pub(in crate::send) fn have_content(&self) -> bool {
        self.held.have_content() || self.lanes.as_ref().is_some_and(|lanes| lanes.have_content())
    }
}
