//! Lanes that a receiving session gets while it runs (protocol 13.7). With the first one chunks change their
//! form: from the one on that the sender names they come to the desk.

use super::{LaneNeeds, LaneQuay};
use crate::LinkSetup;
use crate::lanes::{LaneSetup, LateCourse, at_port, name_of, out_of_turn};
use crate::measure::Audience;
use crate::receive::Receiving;
use fobs_model::error::Result;
use fobs_model::measured::Measured;
use fobs_model::message::Message;
use fobs_model::route::WayChange;
use fobs_model::sample::{ReceiverSample, SenderSample};
use fobs_proto::ChunkId;

/// See the module.
pub(in crate::receive) struct LateReceiving {
    course: LateCourse,
    /// What their threads are started with; the room is that of all lanes.
    needs: LaneNeeds,
}

impl LateReceiving {
    /// Of a session whose lanes are made so.
    pub(in crate::receive) fn new(course: LateCourse, needs: LaneNeeds) -> LateReceiving {
        LateReceiving { course, needs }
    }
}

impl Receiving {
    fn lane_count(&self) -> usize {
        self.lanes.as_ref().map_or(1, LaneQuay::count)
    }

    /// Whether a chunk of the first lane is one of a session of several.
    pub(in crate::receive) fn is_of_lanes(&self, chunk: ChunkId) -> bool {
        self.lanes.as_ref().is_some_and(|quay| quay.desk.has_had(chunk))
    }

    /// Asks for one more lane where a thread is the limit; to be called with every heartbeat of a client.
    pub(in crate::receive) fn grow(&mut self) -> Result<()> {
        let (lanes, is_in_vain) =
            (self.lane_count(), self.steering.is_paused() || self.link.last_heard().is_none());
        let Some(late) = self.late.as_mut().filter(|_| !is_in_vain) else { return Ok(()) };
        match late.course.poll_wanted(lanes) {
            Some(lane) => self.send_message(&Message::LaneWanted { lane, from: None }),
            None => Ok(()),
        }
    }

    /// A client that sends asks for a lane.
    ///
    /// # Errors
    /// `Protocol` for one that it may not ask for.
    pub(in crate::receive) fn lane_wanted(&mut self, (lane, from): (u8, Option<ChunkId>)) -> Result<()> {
        let lanes = self.lane_count();
        let Some(late) = &self.late else {
            return Err(out_of_turn(&format!("the other side asks for lane {lane}")));
        };
        late.course.check_wanted(lane, lanes)?;
        self.begin_lanes(from)?;
        let Some(late) = &mut self.late else { return Ok(()) };
        let port = match late.course.open(None) {
            Ok((link, port)) => {
                self.add_lane(link)?;
                Some(port)
            }
            // The client goes on with the lanes that there are.
            Err(_) => None,
        };
        self.send_message(&Message::LaneAdded { lane, port, from: None })
    }

    /// The server answers for a lane that was asked for.
    ///
    /// # Errors
    /// `Protocol` for one that was not.
    pub(in crate::receive) fn lane_added(
        &mut self,
        (lane, port, from): (u8, Option<u16>, Option<ChunkId>),
    ) -> Result<()> {
        let Some(late) = &mut self.late else {
            return Err(out_of_turn(&format!("the other side adds lane {lane}")));
        };
        let because = late.course.answered(lane)?;
        let server = self.link.peer().zip(port).map(|(peer, port)| at_port(peer, port));
        let Some(server) = server else {
            late.course.end();
            return Ok(());
        };
        self.begin_lanes(from)?;
        let Some(late) = &mut self.late else { return Ok(()) };
        match late.course.open(Some(server)) {
            Ok((link, _)) => {
                self.add_lane(link)?;
                let change = WayChange::of_lanes(self.link.clock().now(), lane + 1, because);
                self.reporter.here(Measured::Way(change), Audience::Both);
            }
            Err(error) => {
                late.course.end();
                self.reporter.notice_here(error.message);
            }
        }
        self.send_message(&Message::LaneReady { lane })
    }

    /// Chunks from this one on come to the desk, if they do not already.
    ///
    /// # Errors
    /// `Protocol` for a number where there is one already, for none where there is not, and for a chunk that
    /// has come.
    fn begin_lanes(&mut self, from: Option<ChunkId>) -> Result<()> {
        match (&self.lanes, &self.late, from) {
            (None, Some(late), Some(from)) if from >= self.handed => {
                let first = ("the first lane".to_owned(), self.began);
                self.lanes = Some(LaneQuay::of_first(first, (from, late.course.window), late.needs.clone()));
                Ok(())
            }
            (Some(_), Some(_), None) => Ok(()),
            _ => Err(out_of_turn("the other side has lanes begin at a chunk that cannot be their first")),
        }
    }

    /// Starts one more lane over this link; the room of each lane becomes smaller.
    fn add_lane(&mut self, link: LinkSetup) -> Result<()> {
        let Some(quay) = &mut self.lanes else { return Ok(()) };
        let seconds = (self.link.clock().now() - self.began).as_secs_f64();
        quay.add(LaneSetup { link, name: name_of(seconds) })?;
        self.machine.set_room(quay.share_room());
        Ok(())
    }

    /// The sending end has shown this.
    pub(in crate::receive) fn watch_sender(&mut self, sample: &SenderSample) {
        if let Some(late) = &mut self.late {
            late.course.see_sender(sample);
        }
    }

    /// This end has shown this.
    pub(in crate::receive) fn watch_receiver(&mut self, sample: &ReceiverSample) {
        if let Some(late) = &mut self.late {
            late.course.see_receiver(sample);
        }
    }
}
