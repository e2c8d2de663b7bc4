//! Streams of a transfer, as reliable pipes beside its links: each carries frames in order at a rate of its
//! own, after the route's delay. They stall and end; what had not been reported by then is lost to the
//! sender. How TCP finds a stream's rate is not modelled: `flow/tcp` does that for TCP flows.

use crate::rng::{Chance, Rng};
use crate::time::{MS, Nanos, SEC, time_for};
use fobs_proto::sender::FrameOut;
use fobs_proto::session::{StreamBrake, StreamTarget, TransportChoice};
use fobs_proto::wire::Ack;
use std::collections::{BTreeMap, VecDeque};

/// Bytes that wait in a stream before it takes no further frame: the engine's `TCP_NOTSENT_LOWAT`.
const UNSENT_MAX: u64 = 128 << 10;
/// A frame is late after this time, and this multiple of the smoothed time of delivery.
const LATE: Nanos = SEC;
const LATE_TIMES: Nanos = 8;
/// What a new stream takes beside a round trip.
const OPENING: Nanos = MS;
/// Streams that are retired or open at once, at most.
const PIPES_MAX: usize = 128;

/// Streams of a transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamsConfig {
    /// What the user chose.
    pub choice: TransportChoice,
    /// How many streams.
    pub target: StreamTarget,
    /// Rate of one stream, bits per second; 0 for none that can be opened.
    pub each: u64,
    /// Rate of all together.
    pub together: u64,
    /// Whether `each` is the rate of a window, as its kernel would say; else of a path that it feels.
    pub windows: bool,
    /// What goes wrong.
    pub faults: StreamFaults,
}

impl StreamsConfig {
    /// Streams without faults; the transfer chooses the way itself.
    pub fn new(each: u64, together: u64) -> StreamsConfig {
        StreamsConfig {
            choice: TransportChoice::Auto,
            target: StreamTarget::Found { remembered: None },
            each,
            together,
            windows: false,
            faults: StreamFaults::default(),
        }
    }
}

/// What goes wrong with streams.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StreamFaults {
    /// Each stream ends while this frame of it, counted from 1, is in flight.
    pub dies_at_frame: Option<u64>,
    /// A stream ends while a frame is in flight.
    pub death: Chance,
    /// A stream stalls before a frame, for this long.
    pub stall: Chance,
    /// See [`stall`](Self::stall).
    pub stall_len: Nanos,
    /// From when until when none can be opened, and those that are open end.
    pub closed: Vec<(Nanos, Nanos)>,
}

impl StreamFaults {
    fn closed_at(&self, now: Nanos) -> bool {
        self.closed.iter().any(|(from, until)| (*from..*until).contains(&now))
    }
}

/// What happens on streams.
#[derive(Debug)]
pub(super) enum StreamEvent {
    /// A frame reaches the receiver, on this stream.
    Arrived(u64, FrameOut),
    /// A report reaches the sender: frames that the receiver has taken, and its ack.
    Reported(Option<u64>, Option<Box<Ack>>),
    /// The stream of a frame has ended.
    Lost(u64),
    /// A frame has been in flight for long.
    Late(u64),
}

#[derive(Debug)]
struct Flying {
    frame: FrameOut,
    entered: Nanos,
    arrives: Nanos,
    arrived: bool,
    late: bool,
}

/// What the receiver says on a stream.
#[derive(Debug)]
struct StreamReport {
    pipe: u64,
    frame: Option<u64>,
    ack: Option<Box<Ack>>,
}

#[derive(Debug)]
struct Pipe {
    name: u64,
    open_at: Nanos,
    /// The last byte that it was given has left.
    free_at: Nanos,
    frames: u64,
    dies_at: Option<Nanos>,
    /// No longer wanted: it ends when it is empty.
    retired: bool,
    flying: VecDeque<Flying>,
}

/// The streams of a transfer at work.
#[derive(Debug)]
pub(super) struct Streams {
    config: StreamsConfig,
    rng: Rng,
    pipes: Vec<Pipe>,
    next_name: u64,
    /// Reports in flight, by when they arrive.
    reports: BTreeMap<(Nanos, u64), StreamReport>,
    reported: u64,
    /// Smoothed time of delivery.
    smoothed: Option<Nanos>,
    /// Streams that have ended.
    pub(super) ended: u64,
}

impl Streams {
    pub(super) fn new(config: StreamsConfig, rng: Rng) -> Streams {
        Streams {
            config,
            rng,
            pipes: Vec::new(),
            next_name: 0,
            reports: BTreeMap::new(),
            reported: 0,
            smoothed: None,
            ended: 0,
        }
    }

    /// Streams that are open, and those being opened.
    pub(super) fn open(&self, now: Nanos) -> (u32, u32) {
        let wanted = self.pipes.iter().filter(|pipe| !pipe.retired);
        let open = wanted.clone().filter(|pipe| pipe.open_at <= now).count();
        (open as u32, (wanted.count() - open) as u32)
    }

    /// Sets how many streams are to be open at once; a new one takes a round trip.
    pub(super) fn want(&mut self, now: Nanos, count: u32, round_trip: Nanos) {
        let mut there = self.pipes.iter().filter(|pipe| !pipe.retired).count();
        for pipe in self.pipes.iter_mut().rev().filter(|pipe| !pipe.retired) {
            if there <= count as usize {
                break;
            }
            pipe.retired = true;
            there -= 1;
        }
        self.pipes.retain(|pipe| !pipe.retired || !pipe.flying.is_empty());
        let closed = self.config.each == 0 || self.config.faults.closed_at(now);
        while !closed && there < count as usize && self.pipes.len() < PIPES_MAX {
            there += 1;
            let open_at = now + round_trip + OPENING;
            self.pipes.push(Pipe {
                name: self.next_name,
                open_at,
                free_at: open_at,
                frames: 0,
                dies_at: None,
                retired: false,
                flying: VecDeque::new(),
            });
            self.next_name += 1;
        }
    }

    /// Whether a stream is free for the next frame.
    pub(super) fn has_room(&self, now: Nanos) -> bool {
        self.free_pipe(now).is_some()
    }

    fn rate(&self, now: Nanos) -> u64 {
        let open = u64::from(self.open(now).0.max(1));
        self.config.each.min(self.config.together / open).max(1)
    }

    /// A stream that has a rate of its own does not feel the path.
    pub(super) fn brake(&self, now: Nanos) -> StreamBrake {
        let open = u64::from(self.open(now).0.max(1));
        if self.config.windows && self.config.each * open < self.config.together {
            StreamBrake::Windows
        } else {
            StreamBrake::Path
        }
    }

    fn free_pipe(&self, now: Nanos) -> Option<usize> {
        let slack = time_for(UNSENT_MAX, self.rate(now));
        let free = |pipe: &Pipe| !pipe.retired && pipe.open_at <= now && pipe.free_at <= now + slack;
        let place = self.pipes.iter().enumerate().filter(|(_, pipe)| free(pipe));
        place.min_by_key(|(_, pipe)| pipe.free_at).map(|(place, _)| place)
    }

    /// A frame goes to a stream that is free; delays are the route's, there and back.
    pub(super) fn push(&mut self, now: Nanos, frame: FrameOut, (there, back): (Nanos, Nanos)) {
        let rate = self.rate(now);
        let Some(place) = self.free_pipe(now) else { return };
        let faults = &self.config.faults;
        let stalls = self.rng.happens(faults.stall);
        let dies = self.rng.happens(faults.death);
        let pipe = &mut self.pipes[place];
        let stall = if stalls { faults.stall_len } else { 0 };
        pipe.free_at = pipe.free_at.max(now) + stall + time_for(frame.record_len() as u64, rate);
        let arrives = pipe.free_at + there;
        pipe.frames += 1;
        if dies || faults.dies_at_frame == Some(pipe.frames) {
            // In any phase: while it leaves, travels, or its report comes back.
            pipe.dies_at = Some(self.rng.range(now, arrives + back));
        }
        pipe.flying.push_back(Flying { frame, entered: now, arrives, arrived: false, late: false });
    }

    /// The receiver reports on a stream: a frame that it has taken, and its newest ack.
    pub(super) fn report(&mut self, at: Nanos, pipe: u64, frame: Option<u64>, ack: Option<Box<Ack>>) {
        self.reported += 1;
        self.reports.insert((at, self.reported), StreamReport { pipe, frame, ack });
    }

    /// A stream on which an ack can go back: the newest.
    pub(super) fn way_back(&self, now: Nanos) -> Option<u64> {
        self.pipes.iter().rev().find(|pipe| pipe.open_at <= now).map(|pipe| pipe.name)
    }

    /// The next of the events that are due.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<StreamEvent> {
        if self.config.faults.closed_at(now) {
            self.pipes.iter_mut().for_each(|pipe| pipe.dies_at = Some(now));
        }
        if let Some(lost) = self.end_a_stream(now) {
            return Some(lost);
        }
        for pipe in &mut self.pipes {
            let due = pipe.flying.iter_mut().find(|f| !f.arrived && f.arrives <= now);
            if let Some(flying) = due {
                flying.arrived = true;
                return Some(StreamEvent::Arrived(pipe.name, flying.frame));
            }
        }
        if let Some(report) = self.pop_report(now) {
            return Some(report);
        }
        self.pop_late(now)
    }

    /// Gives back the frames of a stream that has ended, one by one.
    fn end_a_stream(&mut self, now: Nanos) -> Option<StreamEvent> {
        while let Some(place) = self.pipes.iter().position(|p| p.dies_at.is_some_and(|at| at <= now)) {
            if let Some(flying) = self.pipes[place].flying.pop_front() {
                return Some(StreamEvent::Lost(flying.frame.id));
            }
            let name = self.pipes.remove(place).name;
            self.reports.retain(|_, report| report.pipe != name);
            self.ended += 1;
        }
        None
    }

    fn pop_report(&mut self, now: Nanos) -> Option<StreamEvent> {
        let entry = self.reports.first_entry().filter(|entry| entry.key().0 <= now)?;
        let StreamReport { pipe: name, frame, ack } = entry.remove();
        if let Some(id) = frame
            && let Some(pipe) = self.pipes.iter_mut().find(|pipe| pipe.name == name)
            && let Some(place) = pipe.flying.iter().position(|f| f.frame.id == id)
            && let Some(flying) = pipe.flying.remove(place)
        {
            let took = now - flying.entered;
            self.smoothed = Some(self.smoothed.map_or(took, |before| (7 * before + took) / 8));
        }
        Some(StreamEvent::Reported(frame, ack))
    }

    /// After this time a frame is late.
    fn late_after(&self) -> Nanos {
        LATE.max(LATE_TIMES * self.smoothed.unwrap_or(0))
    }

    fn pop_late(&mut self, now: Nanos) -> Option<StreamEvent> {
        let (after, idle) = (self.late_after(), self.has_idle(now));
        let mut flying = self.pipes.iter_mut().flat_map(|pipe| &mut pipe.flying);
        let late = flying.find(|f| idle && !f.late && !f.arrived && now - f.entered >= after)?;
        late.late = true;
        Some(StreamEvent::Late(late.frame.id))
    }

    fn has_idle(&self, now: Nanos) -> bool {
        self.pipes.iter().any(|pipe| !pipe.retired && pipe.open_at <= now && pipe.flying.is_empty())
    }

    /// When something happens next.
    pub(super) fn next(&self, now: Nanos) -> Option<Nanos> {
        let slack = time_for(UNSENT_MAX, self.rate(now));
        let late = self.late_after();
        let of_pipe = |pipe: &Pipe| {
            let opens = (pipe.open_at > now).then_some(pipe.open_at);
            let room = pipe.free_at.checked_sub(slack).filter(|at| *at > now);
            let arrives = pipe.flying.iter().find(|f| !f.arrived).map(|f| f.arrives);
            let late = pipe.flying.iter().find(|f| !f.late && !f.arrived).map(|f| f.entered + late);
            [opens, room, arrives, late.filter(|at| *at > now), pipe.dies_at].into_iter().flatten().min()
        };
        let report = self.reports.keys().next().map(|(at, _)| *at);
        let closes = self.config.faults.closed.iter().map(|(from, _)| *from).find(|from| *from > now);
        let pipes = self.pipes.iter().filter_map(of_pipe).min();
        [report, pipes, closes].into_iter().flatten().min().map(|at| at.max(now + 1))
    }

    /// Every stream ends, and nobody asks for what it carried.
    pub(super) fn clear(&mut self) {
        self.pipes.clear();
        self.reports.clear();
    }

    /// Faults are over.
    pub(super) fn calm(&mut self) {
        self.config.faults = StreamFaults::default();
        self.pipes.iter_mut().for_each(|pipe| pipe.dies_at = None);
    }

    pub(super) fn faults(&self) -> &StreamFaults {
        &self.config.faults
    }

    pub(super) fn set_faults(&mut self, faults: StreamFaults) {
        self.config.faults = faults;
    }
}
