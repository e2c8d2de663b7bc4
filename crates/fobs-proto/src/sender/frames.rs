//! Packets that leave in frames on streams (protocol 10.3). They come from the same schedule as datagrams,
//! and so need no second account of what is missing; but their losses, round trips and rates are TCP's, and
//! no controller sees them.

use super::route::{Route, RouteProbe};
use super::schedule::{Origin, Slot};
use super::{Carrier, SendLimit, Sender};
use crate::congestion::RateSource;
use crate::wire::{FRAME_DATA_MAX, FRAME_OVERHEAD, FrameHeader, Header};
use crate::{ChunkId, Rate, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// Frames outstanding at most: 64 streams with a thousand each. Full ones are 4 GiB, which no credit reaches.
const FRAMES_MAX: usize = 1 << 16;

/// How often a deadline is looked at where only frames carry data, which count no round trips.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A frame to gather, seal and write to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameOut {
    /// Its name in the calls that tell what became of it.
    pub id: u64,
    /// Its header.
    pub header: FrameHeader,
    /// Chunk of the object.
    pub chunk: ChunkId,
    /// Bytes from the chunk's start.
    pub offset: u32,
    /// Bytes of data, at most [`FRAME_DATA_MAX`].
    pub len: u32,
}

impl FrameOut {
    /// Length of its record on the wire, bytes.
    pub fn record_len(&self) -> usize {
        self.len as usize + FRAME_OVERHEAD
    }
}

/// A sender's answer to [`poll_frame`](Sender::poll_frame).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransmitFrame {
    /// Write it to a stream.
    Frame(FrameOut),
    /// None before this moment, unless something is handled.
    WaitUntil(Timestamp),
    /// None until something is handled.
    Wait,
}

/// Frames that are neither delivered nor lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FramesOutstanding {
    /// How many.
    pub frames: u32,
    /// Bytes of their data.
    pub bytes: u64,
}

/// The content of a frame that is outstanding.
#[derive(Debug, Clone, Copy)]
struct Carried {
    chunk: ChunkId,
    attempt: u8,
    first: u16,
    packets: u16,
    bytes: u32,
    /// It was late once; its packets were given back.
    late: bool,
}

impl Carried {
    fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        let Carried { chunk, first, packets, .. } = *self;
        (0..packets).map(move |place| Slot { chunk, index: first + place })
    }
}

/// The frames of a sender.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) route: Route,
    pub(super) probe: RouteProbe,
    next_id: u64,
    outstanding: BTreeMap<u64, Carried>,
    bytes: u64,
    /// Why the last [`Sender::poll_frame`] gave none; the streams, if it gave one.
    limit: SendLimit,
    /// When the deadline was last looked at where no datagram counts round trips.
    looked: Timestamp,
}

impl Frames {
    pub(super) fn new(now: Timestamp) -> Frames {
        Frames {
            route: Route::default(),
            probe: RouteProbe::new(now),
            next_id: 0,
            outstanding: BTreeMap::new(),
            bytes: 0,
            limit: SendLimit::default(),
            looked: now,
        }
    }

    pub(super) fn limit(&self) -> SendLimit {
        self.limit
    }

    /// Bytes of data in frames outstanding.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn take(&mut self, id: u64) -> Option<Carried> {
        let carried = self.outstanding.remove(&id)?;
        self.bytes -= u64::from(carried.bytes);
        Some(carried)
    }
}

impl Sender {
    /// The next frame, for a stream that can take one now. Packets given back come first, then new ones
    /// within the receiver's credit. A driver asks for datagrams first where both may leave.
    pub fn poll_frame(&mut self, now: Timestamp) -> TransmitFrame {
        if !self.frames.route.has_frames() || self.frames.outstanding.len() >= FRAMES_MAX {
            return TransmitFrame::Wait;
        }
        if let Some(at) = self.budget_wait(now) {
            self.frames.limit = SendLimit::Cap;
            return TransmitFrame::WaitUntil(at);
        }
        let id = self.frames.next_id;
        let Some(frame) = self.fill_frame(id) else {
            self.frames.limit = self.flight.supply.limit_when_idle();
            return TransmitFrame::Wait;
        };
        self.frames.next_id += 1;
        let bytes = frame.record_len() as u64;
        self.flight.stats.packets_framed += u64::from(frame.header.packets);
        self.flight.stats.bytes_framed += bytes;
        self.spend(now, bytes);
        // A driver that asks for no other has no free stream.
        self.frames.limit = SendLimit::Window;
        TransmitFrame::Frame(frame)
    }

    /// The receiver has taken a frame. Ids of frames that are not outstanding are ignored.
    pub fn handle_frame_delivered(&mut self, now: Timestamp, id: u64) {
        let Some(carried) = self.frames.take(id) else { return };
        self.flight.stats.frames_delivered += 1;
        self.flight.stats.bytes_frames_delivered += u64::from(carried.bytes) + FRAME_OVERHEAD as u64;
        for slot in carried.slots() {
            self.flight.supply.chunks.on_acked(slot.chunk, slot.index, carried.attempt);
        }
        self.report_outcomes(now);
        if !self.frames.route.has_datagrams() && now - self.frames.looked >= LOOK_EVERY {
            self.frames.looked = now;
            self.look_at_deadline(now);
        }
    }

    /// A frame will not arrive, because its stream has ended: its packets go back to the schedule.
    pub fn handle_frame_lost(&mut self, _now: Timestamp, id: u64) {
        if let Some(carried) = self.frames.take(id) {
            self.give_back(id, &carried, Origin::Lost);
        }
    }

    /// A frame is on a slow stream: its packets may leave once more by another, and may still arrive by this
    /// one. Only the first such call for a frame has an effect.
    pub fn handle_frame_late(&mut self, _now: Timestamp, id: u64) {
        let Some(carried) = self.frames.outstanding.get_mut(&id).filter(|c| !c.late) else { return };
        carried.late = true;
        let carried = *carried;
        self.give_back(id, &carried, Origin::Repeat);
    }

    /// Frames that are neither delivered nor lost.
    pub fn frames_outstanding(&self) -> FramesOutstanding {
        FramesOutstanding { frames: self.frames.outstanding.len() as u32, bytes: self.frames.bytes }
    }

    /// Until when this sender waits because both ways, or other senders, share the user's rate.
    pub(super) fn budget_wait(&self, now: Timestamp) -> Option<Timestamp> {
        let shared = self.frames.route.has_frames() && self.user_rate().is_some();
        let both = Some(self.pace.budget()).filter(|at| shared && *at > now);
        both.max(self.pace.others_wait(now))
    }

    /// Bytes leave, which count against the user's rate where others share it.
    pub(super) fn spend(&mut self, now: Timestamp, bytes: u64) {
        self.pace.spend_shared(now, bytes);
        if self.frames.route.has_frames()
            && let Some(rate) = self.user_rate()
        {
            self.pace.spend(now, bytes, rate);
        }
    }

    /// The rate that the user set, which holds for datagrams and frames together.
    pub(super) fn user_rate(&self) -> Option<Rate> {
        let controller = &self.controller;
        let chosen = controller.pacing_rate().filter(|_| controller.rate_source() == RateSource::User);
        self.pace.user_rate(chosen)
    }

    /// Packets of a frame that no other transmission has replaced go back to the schedule.
    fn give_back(&mut self, id: u64, carried: &Carried, origin: Origin) {
        let carrier = Carrier::frame(id);
        for slot in carried.slots() {
            if self.flight.supply.chunks.needs_again(slot.chunk, slot.index, carried.attempt, carrier) {
                self.flight.schedule.hand_over(slot, carried.attempt, carrier, origin);
                self.flight.stats.packets_returned += 1;
            }
        }
    }

    /// Takes a run of consecutive packets from the schedule.
    fn fill_frame(&mut self, id: u64) -> Option<FrameOut> {
        let limit = self.flight.supply.limit();
        let flight = &mut self.flight;
        let (start, mut origin) = flight.schedule.peek_for_frame(&flight.supply.chunks, limit)?;
        let Header::Data(first) = flight.describe(start)?.header else { return None };
        let chunk = flight.supply.chunks.get(start.chunk)?;
        let (geometry, attempt, offset) = (chunk.layout()?.geometry, chunk.attempt(), first.packet_index);
        let offset = geometry.offset(offset);
        let most = FRAME_DATA_MAX as u32 / u32::from(geometry.payload_size()).max(1);
        let (mut packets, mut len, mut last) = (0u16, 0u32, false);
        while u32::from(packets) < most {
            let slot = Slot { chunk: start.chunk, index: start.index + packets };
            if packets > 0 {
                match flight.schedule.peek_for_frame(&flight.supply.chunks, limit) {
                    Some((next, from))
                        if next == slot && (from == Origin::New) == (origin == Origin::New) =>
                    {
                        origin = from;
                    }
                    _ => break,
                }
            }
            flight.schedule.take_for_frame(origin);
            // A late frame's packets are counted where they are given back.
            let layout = flight.supply.chunks.get(slot.chunk).and_then(|c| c.layout());
            let by_timer =
                origin == Origin::Repeat && layout.is_some_and(|l| !l.newest(slot.index).is_frame());
            flight.stats.packets_copied += u64::from(by_timer);
            flight.supply.chunks.on_carried(slot.chunk, slot.index, Carrier::frame(id));
            packets += 1;
            len += u32::from(geometry.packet_len(slot.index));
            last = geometry.is_last(slot.index);
            if last {
                break;
            }
        }
        let carried =
            Carried { chunk: start.chunk, attempt, first: start.index, packets, bytes: len, late: false };
        self.frames.outstanding.insert(id, carried);
        self.frames.bytes += u64::from(len);
        let header = FrameHeader { first: crate::wire::DataHeader { last, ..first }, packets };
        Some(FrameOut { id, header, chunk: start.chunk, offset, len })
    }
}

#[cfg(test)]
mod tests;
