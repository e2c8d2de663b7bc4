//! What outlives the processes of a transfer that is killed and opened again, and the rules over all its
//! attempts: the store gets every byte once and in order; what is stored when an attempt begins is not sent
//! by it; and what is sent in more than one attempt was, when the earlier one ended, in flight or held.
//!
//! *In flight* are the bytes sent in an attempt that no ack has named. *Held* are the bytes that the receiver
//! has taken and not finished storing; the chunk that is being stored counts. A chunk that was rejected or
//! laid out anew counts in full: bytes that had arrived do not count any more.

mod bytes;

pub(super) use bytes::Bytes;

use super::{FobsConfig, Object};
use crate::check::rule;
use crate::host::HostConfig;
use crate::net::Net;
use crate::object::Cut;
use crate::time::{Nanos, SEC};
use fobs_proto::ChunkId;
use fobs_proto::sender::{Body, FrameOut, PacketOut};
use fobs_proto::wire::{DataHeader, Header};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Attempts that may end because the other side was silent.
const SILENCES_MAX: u32 = 3;
/// Pause after such an attempt: the first of the product's back-off.
const SILENCE_PAUSE: Nanos = SEC;

/// Frames' ids begin here, beyond all packet numbers.
const FRAMES: u64 = 1 << 63;

/// Which ends of a transfer die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dies {
    /// The sender; the receiver ends when it finds the control channel closed.
    Sender,
    /// The receiver; the sender ends when it finds the control channel closed.
    Receiver,
    /// Both at once.
    Both,
}

impl Dies {
    pub(super) fn has_sender(self) -> bool {
        self != Dies::Receiver
    }

    pub(super) fn has_receiver(self) -> bool {
        self != Dies::Sender
    }
}

/// A death, and the attempt after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kill {
    /// When, after the attempt began.
    pub after: Nanos,
    /// Who dies.
    pub dies: Dies,
    /// From the end of the attempt to the beginning of the next.
    pub pause: Nanos,
}

/// When the receiver's journal notes a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Journaling {
    /// When it is stored.
    Stored,
    /// When its storing begins: a fault, which the rules must find.
    TooEarly,
}

/// Where a transfer is between its kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// Both ends are at work.
    Alive,
    /// An end has died, and the other does not know.
    Dying { dead: Dies, pause: Nanos },
    /// Both have ended.
    Down,
}

/// What a sender has sent in one attempt.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Bytes of the object that were stored when the attempt began.
    stored: u64,
    sent: Bytes,
    /// By packet number, or [`FRAMES`] and a frame's id, what no ack or report has named.
    in_flight: BTreeMap<u64, Range<u64>>,
    /// Chunks that were laid out anew.
    relaid: Bytes,
}

impl Trace {
    /// A packet leaves.
    pub(super) fn on_sent(&mut self, net: &mut Net, cut: &Cut, packet: &PacketOut) {
        let (Body::Chunk { chunk, offset, len }, Header::Data(data)) = (packet.body, packet.header) else {
            return;
        };
        debug_assert_eq!(chunk, data.chunk);
        let range = self.note(net, cut, &data, offset, u32::from(len));
        self.in_flight.insert(packet.number, range);
    }

    /// What of the object leaves.
    fn note(&mut self, net: &mut Net, cut: &Cut, data: &DataHeader, offset: u32, len: u32) -> Range<u64> {
        let span = cut.span(data.chunk);
        if data.attempt > 0 {
            self.relaid.insert(span.clone());
        }
        // The trailer is no part of the object.
        let from = (span.start + u64::from(offset)).min(span.end);
        let range = from..(from + u64::from(len)).min(span.end);
        let stored = self.stored;
        rule!(net, span.start >= stored, "nothing stored is sent again", "{range:?}, {stored} are stored");
        self.sent.insert(range.clone());
        range
    }

    /// A frame leaves.
    pub(super) fn on_framed(&mut self, net: &mut Net, cut: &Cut, frame: &FrameOut) {
        let range = self.note(net, cut, &frame.header.first, frame.offset, frame.len);
        self.in_flight.insert(FRAMES + frame.id, range);
    }

    /// The receiver has taken a frame.
    pub(super) fn on_frame_delivered(&mut self, id: u64) {
        self.in_flight.remove(&(FRAMES + id));
    }

    /// An ack names packets.
    pub(super) fn on_acked(&mut self, low: u64, high: u64) {
        let named: Vec<u64> = self.in_flight.range(low..=high).map(|(number, _)| *number).collect();
        for number in named {
            self.in_flight.remove(&number);
        }
    }
}

/// What outlives processes, and the account of all attempts.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) life: Life,
    pub(super) hosts: (HostConfig, HostConfig),
    pub(super) seed: u64,
    /// Faults are over.
    pub(super) calm: bool,
    /// Deaths to come.
    kills: VecDeque<Kill>,
    silences: u32,
    journaling: Journaling,
    object: Object,
    /// Bytes of the object in the receiver's store, from its start; and of them what the journal claims.
    stored: u64,
    claimed: u64,
    /// Chunks of this attempt that are stored, and that the journal has noted.
    chunks_stored: ChunkId,
    chunks_noted: ChunkId,
    /// Chunks that were rejected in this attempt.
    rejected: Bytes,
    /// Sent in earlier attempts; how much of it was sent again; and how much may be.
    sent_before: Bytes,
    again: u64,
    allowed: u64,
    attempts: u32,
}

impl Kept {
    /// `None` for a transfer that nobody kills.
    pub(super) fn new(
        config: &FobsConfig,
        hosts: (&HostConfig, &HostConfig),
        seed: u64,
    ) -> Option<Box<Kept>> {
        (!config.kills.is_empty()).then(|| {
            Box::new(Kept {
                life: Life::Alive,
                hosts: (hosts.0.clone(), hosts.1.clone()),
                seed,
                calm: false,
                kills: config.kills.iter().copied().collect(),
                silences: 0,
                journaling: config.journaling,
                object: config.object.clone(),
                stored: 0,
                claimed: 0,
                chunks_stored: 0,
                chunks_noted: 0,
                rejected: Bytes::default(),
                sent_before: Bytes::default(),
                again: 0,
                allowed: 0,
                attempts: 1,
            })
        })
    }

    /// When the next death is, for an attempt that begins now.
    pub(super) fn next_kill(&self, now: Nanos) -> Option<Nanos> {
        self.kills.front().map(|kill| now + kill.after.max(1))
    }

    /// The death that is due.
    pub(super) fn take_kill(&mut self) -> Option<Kill> {
        self.kills.pop_front()
    }

    /// The pause before another attempt after a silence; `None` if there were enough of them.
    pub(super) fn take_silence(&mut self) -> Option<Nanos> {
        self.silences += 1;
        (self.silences <= SILENCES_MAX).then_some(SILENCE_PAUSE)
    }

    /// The account of a new attempt's sender.
    pub(super) fn trace(&self) -> Trace {
        Trace { stored: self.stored, ..Trace::default() }
    }

    /// The object after what the journal claims; `None` if that is all of it.
    pub(super) fn rest(&self) -> Option<Cut> {
        Cut::after(self.object.clone(), self.claimed)
    }

    /// A chunk was rejected.
    pub(super) fn on_rejected(&mut self, cut: &Cut, chunk: ChunkId) {
        self.rejected.insert(cut.span(chunk));
    }

    /// The writer has stored the chunks below `stored`, and begun with those below `begun`.
    pub(super) fn on_written(&mut self, net: &mut Net, cut: &Cut, stored: ChunkId, begun: ChunkId) {
        while self.chunks_stored < stored {
            let (span, end) = (cut.span(self.chunks_stored), self.stored);
            rule!(net, span.start == end, "the store gets each byte once, in order", "{span:?} after {end}");
            self.stored = span.end;
            self.chunks_stored += 1;
        }
        let noted = if self.journaling == Journaling::TooEarly { begun } else { stored };
        while self.chunks_noted < noted {
            self.claimed = cut.span(self.chunks_noted).end;
            self.chunks_noted += 1;
        }
    }

    /// An attempt has ended, of whose packets the receiver holds `held`; another may follow.
    pub(super) fn on_attempt_over(&mut self, net: &mut Net, trace: Option<Trace>, mut held: Bytes) {
        let Some(trace) = trace else { return };
        self.again += trace.sent.shared(&self.sent_before, 0);
        let (again, allowed) = (self.again, self.allowed);
        rule!(net, again <= allowed, "only what was in flight or held is sent again", "{again} of {allowed}");
        trace.in_flight.values().for_each(|range| held.insert(range.clone()));
        held.extend(&trace.relaid);
        held.extend(&self.rejected);
        self.allowed += trace.sent.shared(&held, self.stored);
        self.sent_before.extend(&trace.sent);
        self.rejected = Bytes::default();
        (self.chunks_stored, self.chunks_noted) = (0, 0);
    }

    /// Another attempt begins; its number from 0.
    pub(super) fn begin_attempt(&mut self) -> u32 {
        self.life = Life::Alive;
        self.attempts += 1;
        self.attempts - 1
    }

    /// The transfer is complete.
    pub(super) fn check_end(&self, net: &mut Net) {
        let (stored, total) = (self.stored, self.object.data_bytes());
        rule!(net, stored == total, "complete means every byte in the store", "{stored} of {total} bytes");
    }

    /// Attempts, and bytes of the object that more than one of them sent.
    pub(super) fn figures(&self) -> (u64, u64) {
        (u64::from(self.attempts), self.again)
    }

    pub(super) fn describe(&self) -> String {
        let Kept { life, attempts, stored, claimed, .. } = self;
        format!("attempt {attempts} ({life:?}), {stored} bytes stored, {claimed} in the journal")
    }
}

#[cfg(test)]
mod tests;
