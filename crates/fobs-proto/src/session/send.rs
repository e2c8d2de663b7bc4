//! The sending side around its machine: what is read ahead, retries, remembered history, silence.

use super::holding::{Holding, first_chunk_data_max, round_trip_bytes};
use super::limits::{ANSWER_WAIT, CHUNKS_MAX, GRANTS_MAX, MISMATCHES_MAX};
use super::{Pause, Side, Silence, Wait};
use crate::congestion::PathHistory;
use crate::sender::{Extent, Sender};
use crate::{ChunkId, PacketNumber, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// How many times as long as its bytes on the wire file data is where what is read ahead follows from it:
/// compression alone does not make chunks larger than the CPU's cache likes.
const SHORTER: u64 = 4;

/// What a [`SendPolicy`] is made with.
#[derive(Debug, Clone)]
pub struct SendPolicyConfig {
    /// When the session's data plane began.
    pub began: Timestamp,
    /// Which side of the session the sender is.
    pub side: Side,
    /// Chunks held at once, at most.
    pub chunks_max: u32,
    /// Empty buffers at the reader, at most: [`GRANTS_MAX`], and one for each thread that helps it.
    pub grants_max: u32,
    /// How long packets may wait for an answer once the peer has been heard.
    pub timeout: Duration,
    /// What earlier transfers to this peer left.
    pub history: PathHistory,
}

impl Default for SendPolicyConfig {
    fn default() -> SendPolicyConfig {
        SendPolicyConfig {
            began: Timestamp::ZERO,
            side: Side::Client,
            chunks_max: CHUNKS_MAX,
            grants_max: GRANTS_MAX,
            timeout: ANSWER_WAIT,
            history: PathHistory::default(),
        }
    }
}

/// A chunk that the reader has filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRead {
    /// Bytes on the wire, 1 to [`CHUNK_LEN_MAX`](crate::object::CHUNK_LEN_MAX).
    pub len: u32,
    /// File data in it, bytes, before compression.
    pub data_bytes: u64,
    /// It ends the object.
    pub is_final: bool,
}

/// The size of the object, as far as the reader knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectSize {
    /// File data, read and unread, bytes.
    pub data_bytes: u64,
    /// Whether that is all.
    pub extent: Extent,
}

/// What follows from a chunk that did not verify at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The chunk is not held: old news.
    Stale,
    /// It is sent anew.
    Again,
    /// It failed so often that the transfer ends.
    Hopeless {
        /// How often it was tried.
        tries: u8,
    },
}

/// Policy of the sending side. The driver reads a chunk for each [`next_grant`](Self::next_grant) and
/// hands them over with [`handle_chunk`](Self::handle_chunk).
#[derive(Debug)]
pub struct SendPolicy {
    config: SendPolicyConfig,
    /// What is known of the path, until the machine has it.
    history: Option<PathHistory>,
    /// Buffers at the reader, and all that were ever granted.
    granted: u32,
    grants: u64,
    /// The oldest chunk held, and how often each one held did not verify.
    base: ChunkId,
    mismatches: VecDeque<u8>,
    /// File data of the chunks so far, bytes, and their length on the wire.
    data_bytes: u64,
    wire_bytes: u64,
    /// Since when packets have been outstanding without anything new being acknowledged, as of the last check
    /// for silence, and the largest number acknowledged and the frames delivered by then.
    unanswered_since: Option<Timestamp>,
    answered: (Option<PacketNumber>, u64),
}

impl SendPolicy {
    /// A policy before its first chunk.
    pub fn new(config: SendPolicyConfig) -> SendPolicy {
        SendPolicy {
            history: Some(config.history.clone()),
            config,
            granted: 0,
            grants: 0,
            base: 0,
            mismatches: VecDeque::new(),
            data_bytes: 0,
            wire_bytes: 0,
            unanswered_since: None,
            answered: (None, 0),
        }
    }

    /// Hands the remembered path to the machine as soon as the present round trip is known, before any data
    /// is sent. `answered` is the time that the peer took to answer: in the session's set-up, or with its
    /// first datagram.
    pub fn recall(&mut self, machine: &mut Sender, answered: Option<Duration>) {
        if let Some(answered) = answered
            && let Some(history) = self.history.take()
        {
            machine.recall(&history.met(answered));
        }
    }

    /// Whether the reader should get another buffer now: most file data to read into it, bytes.
    pub fn next_grant(&self, machine: &Sender) -> Option<u32> {
        let in_flight = self.data_bytes_of(round_trip_bytes(machine));
        let holding = Holding::for_bytes(in_flight, self.config.chunks_max);
        let room = self.granted < self.config.grants_max && self.held() + self.granted < holding.chunks;
        (room && machine.wants_chunk()).then(|| holding.data_max.min(first_chunk_data_max(self.grants)))
    }

    /// Whether another buffer is within the limits, where a schedule of several lanes chooses the chunks.
    pub fn has_room(&self, machine: &Sender) -> bool {
        let held = self.held() + self.granted;
        self.granted < self.config.grants_max && held < self.config.chunks_max && machine.wants_chunk()
    }

    /// The reader has got a buffer.
    pub fn handle_granted(&mut self) {
        self.granted += 1;
        self.grants += 1;
    }

    /// The reader has filled a buffer: the chunk goes to the machine. Its number.
    pub fn handle_chunk(
        &mut self,
        now: Timestamp,
        machine: &mut Sender,
        chunk: ChunkRead,
        object: ObjectSize,
    ) -> ChunkId {
        self.granted = self.granted.saturating_sub(1);
        self.mismatches.push_back(0);
        self.data_bytes = self.data_bytes.saturating_add(chunk.data_bytes);
        self.wire_bytes = self.wire_bytes.saturating_add(u64::from(chunk.len));
        let id = machine.push_chunk(chunk.len, chunk.is_final);
        let unread = object.data_bytes.saturating_sub(self.data_bytes);
        machine.expect(now, self.wire_bytes_of(unread), object.extent);
        id
    }

    /// File data in `wire` bytes on the wire, where chunks leave in a shorter form; `wire` itself elsewhere.
    fn data_bytes_of(&self, wire: u64) -> u64 {
        if self.data_bytes / SHORTER <= self.wire_bytes {
            return wire;
        }
        let data = u128::from(wire) * u128::from(self.data_bytes) / u128::from(self.wire_bytes.max(1));
        u64::try_from(data).unwrap_or(u64::MAX)
    }

    /// Length of unread data on the wire, bytes: as much for each byte as so far.
    fn wire_bytes_of(&self, unread: u64) -> u64 {
        let wire =
            u128::from(unread) * u128::from(self.wire_bytes.max(1)) / u128::from(self.data_bytes.max(1));
        u64::try_from(wire).unwrap_or(u64::MAX)
    }

    /// A chunk whose buffer is free again, oldest first.
    pub fn poll_freed(&mut self, machine: &mut Sender) -> Option<ChunkId> {
        let chunk = machine.poll_freed()?;
        debug_assert_eq!(chunk, self.base, "chunks are freed in order");
        self.mismatches.pop_front();
        self.base += 1;
        Some(chunk)
    }

    /// The receiver reports that a chunk does not verify.
    pub fn handle_rejected(&mut self, machine: &mut Sender, chunk: ChunkId, attempt: u8) -> Rejection {
        let place = chunk.checked_sub(self.base).and_then(|place| usize::try_from(place).ok());
        let Some(mismatches) = place.and_then(|place| self.mismatches.get_mut(place)) else {
            return Rejection::Stale;
        };
        *mismatches = mismatches.saturating_add(1);
        let tries = *mismatches;
        if machine.handle_rejected(chunk, attempt) && tries < MISMATCHES_MAX {
            Rejection::Again
        } else {
            Rejection::Hopeless { tries }
        }
    }

    /// Why the machine, which gives no burst, is waiting.
    pub fn wait(&self, machine: &Sender) -> Wait {
        let pause = Pause {
            limit: machine.limit(),
            rate: machine.controller().rate_source(),
            bytes_in_flight: machine.bytes_in_flight() + machine.frames_outstanding().bytes,
            backlog: machine.stats().backlog,
            granted: self.granted,
            held: self.held(),
        };
        pause.reason()
    }

    /// To be called with every heartbeat; `newest` is when the peer's newest datagram or record came. Only
    /// packets that are outstanding wait for an answer, and only an ack of something new is one: a receiver
    /// that is not reached repeats its newest ack.
    pub fn check_silence(&mut self, now: Timestamp, machine: &Sender, newest: Option<Timestamp>) -> Silence {
        if newest.is_none() {
            return Silence::at_start(now, self.config.began, self.config.side);
        }
        if !machine.awaits_answer() {
            self.unanswered_since = None;
            return Silence::Short;
        }
        let answered = (machine.largest_acked(), machine.stats().frames_delivered);
        if answered != self.answered {
            self.answered = answered;
            self.unanswered_since = Some(now);
        }
        Silence::since(now, *self.unanswered_since.get_or_insert(now), self.config.timeout)
    }

    /// The number of the next chunk that the machine gets.
    pub fn next_chunk(&self) -> ChunkId {
        self.base + self.held()
    }

    /// Buffers at the reader.
    pub fn granted(&self) -> u32 {
        self.granted
    }

    /// Chunks read and not freed.
    pub fn held(&self) -> u32 {
        u32::try_from(self.mismatches.len()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
