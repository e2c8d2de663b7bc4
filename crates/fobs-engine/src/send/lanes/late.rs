//! Lanes that a sending session gets while it runs (protocol 13.7). With the first one its chunks change
//! their form: those that the reader has a buffer for stay what they are, and from the next one on they are
//! those of a schedule, which gives none away before the receiver knows that.

use super::{Agreement, HubEnds, LaneHub, LaneTable};
use crate::LinkSetup;
use crate::lanes::{CREDIT_MIN, LaneConfig, LaneSetup, LateCourse, LateLanes, at_port, name_of, out_of_turn};
use crate::letters::{Post, ToSender};
use crate::measure::Audience;
use crate::send::Sending;
use fobs_model::error::Result;
use fobs_model::measured::Measured;
use fobs_model::message::Message;
use fobs_model::route::WayChange;
use fobs_proto::congestion::PathShare;
use fobs_proto::sender::SenderConfig;
use fobs_proto::{ChunkId, Timestamp};
use std::time::Duration;

/// See the module.
pub(in crate::send) struct LateSending {
    course: LateCourse,
    config: LaneConfig,
    /// What the lanes of the path share, once there are several.
    share: Option<PathShare>,
    session: Post<ToSender>,
    timeout: Duration,
}

impl LateSending {
    /// Of a session whose first lane has this link.
    pub(in crate::send) fn new(
        (late, config): (LateLanes, LaneConfig),
        first: &LinkSetup,
        session: &Post<ToSender>,
        timeout: Duration,
    ) -> LateSending {
        let course = LateCourse::new(late, first);
        LateSending { course, config, share: None, session: session.clone(), timeout }
    }
}

impl LaneHub {
    /// The receiver takes chunks of lanes from now on.
    fn agree(&self) {
        self.table.agree();
    }
}

impl Sending {
    fn lane_count(&self) -> usize {
        self.lanes.as_ref().map_or(1, LaneHub::count)
    }

    /// Asks for one more lane where a thread is the limit; to be called with every heartbeat of a client.
    pub(in crate::send) fn grow(&mut self, now: Timestamp) -> Result<()> {
        let lanes = self.lane_count();
        // With the final chunk at hand there is nothing left for another lane.
        let is_in_vain = self.root.is_some() || self.steered.is_paused() || self.link.last_heard().is_none();
        let Some(late) = self.late.as_mut().filter(|_| !is_in_vain) else { return Ok(()) };
        let Some(lane) = late.course.poll_wanted(lanes) else { return Ok(()) };
        let from = self.begin_lanes(now);
        self.writer.post(&Message::LaneWanted { lane, from })
    }

    /// From the next chunk on that the reader has no buffer for, chunks are those of lanes: the number of
    /// that one; `None` if they are already.
    fn begin_lanes(&mut self, now: Timestamp) -> Option<ChunkId> {
        let late = self.late.as_mut().filter(|_| self.lanes.is_none())?;
        let (from, window) = (self.policy.next_chunk() + self.policy.granted(), late.course.window);
        late.share = Some(self.machine.share_path(now));
        let ends = HubEnds { clock: self.link.clock(), session: late.session.clone(), timeout: late.timeout };
        let table = LaneTable::new(self.link.waker(), (from, window), Agreement::Awaited);
        let first = ("the first lane".to_owned(), table);
        let mut hub = LaneHub::of_first(first, (from, window), self.machine.rate_limit(), ends);
        hub.began = self.telemetry.began;
        self.machine.share_rate_limit(hub.limit_share());
        self.lanes = Some(hub);
        Some(from)
    }

    /// A client asks for a lane.
    ///
    /// # Errors
    /// `Protocol` for one that it may not ask for.
    pub(in crate::send) fn lane_wanted(&mut self, (lane, from): (u8, Option<ChunkId>)) -> Result<()> {
        let (now, lanes, is_over) = (self.link.clock().now(), self.lane_count(), self.root.is_some());
        let Some(late) = self.late.as_mut().filter(|_| from.is_none()) else {
            return Err(out_of_turn(&format!("the other side asks for lane {lane}")));
        };
        late.course.check_wanted(lane, lanes)?;
        let opened = if is_over { None } else { late.course.open(None).ok() };
        let Some((link, port)) = opened else {
            return self.writer.post(&Message::LaneAdded { lane, port: None, from: None });
        };
        let from = self.begin_lanes(now);
        self.add_lane(now, link)?;
        self.writer.post(&Message::LaneAdded { lane, port: Some(port), from })
    }

    /// The server answers for a lane that was asked for.
    ///
    /// # Errors
    /// `Protocol` for one that was not.
    pub(in crate::send) fn lane_added(
        &mut self,
        (lane, port, from): (u8, Option<u16>, Option<ChunkId>),
    ) -> Result<()> {
        let Some(late) = self.late.as_mut().filter(|_| from.is_none()) else {
            return Err(out_of_turn(&format!("the other side adds lane {lane}")));
        };
        let because = late.course.answered(lane)?;
        self.lanes.iter().for_each(LaneHub::agree);
        let server = self.link.peer().zip(port).map(|(peer, port)| at_port(peer, port));
        let Some(server) = server else {
            late.course.end();
            return Ok(());
        };
        match late.course.open(Some(server)) {
            Ok((link, _)) => {
                let now = self.link.clock().now();
                self.add_lane(now, link)?;
                let change = WayChange::of_lanes(now, lane + 1, because);
                self.reporter.here(Measured::Way(change), Audience::Both);
            }
            Err(error) => {
                late.course.end();
                self.reporter.notice_here(error.message);
            }
        }
        Ok(())
    }

    /// A client that receives takes chunks of lanes now.
    ///
    /// # Errors
    /// `Protocol` for a lane that it has not.
    pub(in crate::send) fn lane_ready(&mut self, lane: u8) -> Result<()> {
        match &self.lanes {
            Some(lanes) if usize::from(lane) < lanes.count() && self.late.is_some() => {
                lanes.agree();
                Ok(())
            }
            _ => Err(out_of_turn(&format!("the other side is ready for lane {lane}"))),
        }
    }

    /// Starts one more lane over this link.
    fn add_lane(&mut self, now: Timestamp, link: LinkSetup) -> Result<()> {
        let (Some(late), Some(lanes)) = (&self.late, &mut self.lanes) else { return Ok(()) };
        let (made, seconds) = ((late.config)()?, (now - self.telemetry.began).as_secs_f64());
        let config = SenderConfig {
            controller: late.share.as_ref().map_or(made.controller, PathShare::lane),
            rate_limit: self.machine.rate_limit(),
            // Every lane has room for as many.
            chunk_limit: made.chunk_limit.min(CREDIT_MIN),
            ..made
        };
        lanes.add(LaneSetup { link, name: name_of(seconds) }, config)
    }

    /// The sending end has shown this.
    pub(in crate::send) fn watch_sender(&mut self, sample: &fobs_model::sample::SenderSample) {
        if let Some(late) = &mut self.late {
            late.course.see_sender(sample);
        }
    }

    /// The receiving end has shown this.
    pub(in crate::send) fn watch_receiver(&mut self, sample: &fobs_model::sample::ReceiverSample) {
        if let Some(late) = &mut self.late {
            late.course.see_receiver(sample);
        }
    }
}
