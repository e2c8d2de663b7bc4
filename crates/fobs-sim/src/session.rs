//! What the lanes of a session share: its object, the schedule, and what has been verified at its receiver.
//! Each lane is a flow with a route, sockets and threads of its own, and its own list of chunks.

use crate::agenda::Slot;
use crate::object::{Cut, Object};
use crate::time::{Nanos, stamp};
use fobs_proto::ChunkId;
use fobs_proto::sender::Sender;
use fobs_proto::session::{
    ChunkRead, Holding, LaneCounts, LaneSchedule, LaneSeen, LaneTask, LaneVerified, WITHDRAWN_LEN,
    first_chunk_data_max, round_trip_bytes,
};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Which lane of which session a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneSeat {
    /// The session's place among those of the world.
    pub session: usize,
    /// The lane's place in it, from 0 on.
    pub lane: usize,
}

/// What a session has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionFigures {
    /// Bytes of the object that are verified, each once.
    pub delivered: u64,
    /// Bytes of all of it, with trailers, as far as it is cut.
    pub total: u64,
    /// When everything was verified.
    pub ended: Option<Nanos>,
    /// Bytes of chunks that a second lane delivered too.
    pub delivered_twice: u64,
    /// Most chunks that were verified behind one that was not.
    pub parked_max: u64,
    /// What its schedule did.
    pub counts: LaneCounts,
}

/// A lane, as its session knows it.
#[derive(Debug, Default)]
struct Member {
    /// The agenda's slot of its sending thread; `None` before it is a flow, and after that has ended.
    sender: Option<Slot>,
    /// Bytes in flight, as seen last.
    in_flight: u64,
    /// Copies to be withdrawn, by their numbers on it.
    withdrawals: VecDeque<ChunkId>,
}

/// A session at work.
#[derive(Debug)]
pub(crate) struct Session {
    schedule: LaneSchedule,
    cut: Cut,
    window: u32,
    grants: u64,
    lanes: Vec<Member>,
    /// The object's chunks by lane and number there, until the receiver has verified them.
    places: HashMap<(usize, ChunkId), ChunkId>,
    /// At the receiver: chunks below are verified, and these.
    below: ChunkId,
    parked: BTreeSet<ChunkId>,
    figures: SessionFigures,
}

impl Session {
    /// A session of `lanes` lanes that holds `window` chunks.
    pub(crate) fn new(object: Object, lanes: usize, window: u32) -> Session {
        Session {
            schedule: LaneSchedule::new(lanes, window),
            cut: Cut::new(object),
            window,
            grants: 0,
            lanes: (0..lanes).map(|_| Member::default()).collect(),
            places: HashMap::new(),
            below: 0,
            parked: BTreeSet::new(),
            figures: SessionFigures::default(),
        }
    }

    /// A lane's sending thread has this slot in the agenda.
    pub(crate) fn seat(&mut self, lane: usize, sender: Slot) {
        if let Some(member) = self.lanes.get_mut(lane) {
            member.sender = Some(sender);
        }
    }

    /// Slots of the sending threads that are at work.
    pub(crate) fn senders(&self) -> Vec<Slot> {
        self.lanes.iter().filter_map(|member| member.sender).collect()
    }

    /// The sender of a lane looks for something to send: a chunk of the object, which it is to read.
    pub(crate) fn next(&mut self, now: Nanos, lane: usize, machine: &Sender) -> Option<(ChunkId, ChunkRead)> {
        self.observe(now, lane, machine);
        match self.schedule.poll_task(lane, !self.cut.is_done())? {
            LaneTask::Next(chunk) => {
                let holding =
                    Holding::for_bytes(self.lanes.iter().map(|member| member.in_flight).sum(), self.window);
                let read = self.cut.next(holding.data_max.min(first_chunk_data_max(self.grants)))?;
                self.grants += 1;
                Some((chunk, ChunkRead { is_final: false, ..read }))
            }
            LaneTask::Again(chunk) => {
                let (len, span) = (self.cut.len(chunk), self.cut.span(chunk));
                Some((chunk, ChunkRead { len, data_bytes: span.end - span.start, is_final: false }))
            }
        }
    }

    /// What is seen of a lane's sender.
    pub(crate) fn observe(&mut self, now: Nanos, lane: usize, machine: &Sender) {
        if let Some(member) = self.lanes.get_mut(lane) {
            member.in_flight = round_trip_bytes(machine);
        }
        self.schedule.observe(stamp(now), lane, LaneSeen::of(machine));
    }

    /// A lane's reader has read a chunk, which is `place` there.
    pub(crate) fn on_read(&mut self, (lane, place): (usize, ChunkId), chunk: ChunkId, len: u32) {
        self.places.insert((lane, place), chunk);
        self.schedule.handle_read(lane, chunk, len);
        self.sort_withdrawals();
    }

    /// A lane's sender hears that its oldest chunk is verified; whether that was the chunk's first copy.
    pub(crate) fn on_freed(&mut self, lane: usize) -> bool {
        let is_first = matches!(self.schedule.handle_verified(lane), Some(LaneVerified::First(_)));
        self.sort_withdrawals();
        is_first
    }

    /// A copy that a lane is to withdraw: its number there.
    pub(crate) fn withdrawal(&mut self, lane: usize) -> Option<ChunkId> {
        self.lanes.get_mut(lane)?.withdrawals.pop_front()
    }

    fn sort_withdrawals(&mut self) {
        while let Some(withdrawal) = self.schedule.poll_withdrawal() {
            if let Some(member) = self.lanes.get_mut(withdrawal.lane) {
                member.withdrawals.push_back(withdrawal.place);
            }
        }
    }

    /// A lane has ended; whether its session goes on.
    pub(crate) fn on_lane_ended(&mut self, lane: usize) -> bool {
        self.schedule.handle_ended(lane);
        if let Some(member) = self.lanes.get_mut(lane) {
            *member = Member::default();
        }
        self.lanes.iter().any(|member| member.sender.is_some())
    }

    /// The receiver of a lane has verified a chunk of `len` bytes: the bytes that are new. An error is a
    /// breach of a rule: its name, and what happened.
    pub(crate) fn on_verified(
        &mut self,
        now: Nanos,
        (lane, place): (usize, ChunkId),
        len: u32,
    ) -> Result<u64, (&'static str, String)> {
        let Some(chunk) = self.places.remove(&(lane, place)) else {
            return Err(("only what was sent is verified", format!("chunk {place} of lane {lane}")));
        };
        if len == WITHDRAWN_LEN {
            return Ok(0);
        }
        if chunk < self.below || !self.parked.insert(chunk) {
            self.figures.delivered_twice += u64::from(len);
            return Ok(0);
        }
        self.figures.delivered += u64::from(len);
        while self.parked.remove(&self.below) {
            self.below += 1;
        }
        let parked = self.parked.len();
        self.figures.parked_max = self.figures.parked_max.max(parked as u64);
        if parked >= self.window as usize {
            return Err(("the receiver's memory is bounded", format!("{parked} chunks wait for their turn")));
        }
        if self.cut.is_done() && self.below == self.cut.end() {
            self.figures.ended = Some(now);
        }
        self.cut.forget_below(self.below.min(self.schedule.verified_below()));
        Ok(u64::from(len))
    }

    /// Whether all of the object is verified.
    pub(crate) fn is_complete(&self) -> bool {
        self.figures.ended.is_some()
    }

    /// Its figures.
    pub(crate) fn figures(&self) -> SessionFigures {
        SessionFigures { total: self.cut.total(), counts: self.schedule.counts(), ..self.figures }
    }
}
