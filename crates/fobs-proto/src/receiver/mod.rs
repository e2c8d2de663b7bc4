//! The receiving machine: decides what is new, where it belongs, and what to report (protocol 5 and 6).
//!
//! A driver hands it packets ([`Receiver::handle_data`], [`Receiver::handle_probe`]), verdicts
//! ([`Receiver::handle_verdict`]) and stored chunks ([`Receiver::handle_stored`]), and takes acks
//! ([`Receiver::poll_ack`]). The driver owns the bytes.

mod ack_policy;
mod arrivals;
mod bitmaps;
mod chunk;
mod credit;
mod ledger;
mod order;

use crate::wire::{
    ACK_LEN_MAX, ACK_LEN_SMALL, AEAD_TAG_LEN, Ack, AckRatio, DATA_OVERHEAD, DataHeader, HostReport,
    PLAIN_HEADER_LEN,
};
use crate::{ChunkId, PacketNumber, Timestamp};
use ack_policy::AckPolicy;
use arrivals::Arrivals;
use bitmaps::{BITMAP_EVERY, Bitmaps};
use chunk::{Arriving, Progress, Taken};
use credit::Credit;
pub use credit::first_credit;
use ledger::DropLedger;
use order::Order;
use std::collections::VecDeque;
use std::time::Duration;

/// New packets between acks unless the user says otherwise: one ack per 93 kB costs the sender little, and at
/// 1 Gbit/s there is one every 0.75 ms.
pub const ACK_EVERY: u32 = 64;
/// Longest time that a packet waits for its ack.
pub const ACK_DELAY_MAX: Duration = Duration::from_millis(5);
/// Acks whose ranges each ack repeats: only after eight lost in a row does the sender need a bitmap.
const ACKS_REPEATED: u64 = 8;
/// Arrivals that each ack reports at least.
const REPORTED_MIN: u64 = 1024;

/// Configuration of a receiver.
#[derive(Debug, Clone, Copy)]
pub struct ReceiverConfig {
    /// New packets between acks.
    pub ack_every: u32,
    /// Longest time that a packet waits for its ack.
    pub ack_delay_max: Duration,
    /// Chunks that fit in memory at once: the most credit.
    pub chunks_max: u32,
}

/// What is known of a packet beside its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketMeta {
    /// Its number.
    pub number: PacketNumber,
    /// When the kernel had it.
    pub arrived: Timestamp,
    /// Datagram bytes.
    pub len: u16,
    /// Its congestion mark.
    pub ecn: EcnCodepoint,
    /// What the socket noted with it.
    pub socket: SocketNote,
}

/// What the kernel notes with a buffer that it queues at a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketNote {
    /// Buffers that the socket had dropped when it queued this packet, modulo 2^32; `None` where the kernel
    /// does not count.
    pub drops: Option<u32>,
    /// Datagrams that were merged into the buffer that this packet begins; 0 for the others of a buffer.
    pub merged: u16,
}

/// The two ECN bits that matter (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EcnCodepoint {
    /// Not ECN-capable, or not known.
    #[default]
    NotEct,
    /// Capable, not marked.
    Ect0,
    /// Marked.
    Ce,
}

/// What to do with a data packet's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// New: it belongs at `offset` of its chunk; `completes` is the chunk's length if all of it is here now.
    Store {
        /// Bytes from the chunk's start.
        offset: u32,
        /// Length of the chunk, bytes, if this packet completed it.
        completes: Option<u32>,
    },
    /// Received before.
    Duplicate,
    /// Not taken.
    Reject(Reject),
}

/// Why a data packet was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reject {
    /// Beyond the credit.
    NoRoom,
    /// Its chunk has been laid out anew since.
    OldAttempt,
    /// It contradicts what is known of its chunk or of the object.
    Geometry,
}

/// Result of verifying a complete chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkVerification {
    /// Its digest matches.
    Verified,
    /// It does not.
    Mismatch,
}

/// Counters of a receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets authenticated.
    pub packets: u64,
    /// Their datagram bytes.
    pub bytes: u64,
    /// Data packets received before.
    pub duplicates: u64,
    /// Data packets taken for the first time, by whatever way they came.
    pub accepted: u64,
    /// Data packets that were not taken.
    pub rejected: u64,
    /// Acks made.
    pub acks: u64,
    /// Packets that came in frames and were taken or known.
    pub framed: u64,
    /// Packets that came after later ones.
    pub reordered: u64,
    /// Longest time that one came after a later one.
    pub behind_max: Duration,
}

/// The machine.
#[derive(Debug)]
pub struct Receiver {
    policy: AckPolicy,
    numbers: Arrivals,
    newest_arrival: Timestamp,
    largest_arrival: Timestamp,
    ect0: u32,
    ce: u32,
    socket_drops: u32,
    ledger: DropLedger,
    order: Order,
    /// Chunks below are stored.
    base: ChunkId,
    /// The limit that the sender was told before the room became smaller.
    promised: ChunkId,
    credit: Credit,
    chunks: VecDeque<Arriving>,
    verified_below: ChunkId,
    /// One past the final chunk, once a packet of that was seen.
    end: Option<ChunkId>,
    bitmaps: Bitmaps,
    /// Whether acks above [`ACK_LEN_SMALL`] may pass.
    ack_size: AckSize,
    stats: ReceiverStats,
}

/// What is known of the size of acks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckSize {
    /// Large ones may pass.
    Any,
    /// The sender's data comes in packets so small that large ones hardly pass the other way.
    SmallAsData,
    /// This host does not send large ones.
    Small,
}

impl Receiver {
    /// A receiver with its first credit.
    pub fn new(config: ReceiverConfig) -> Receiver {
        Receiver {
            policy: AckPolicy::new(config.ack_every, config.ack_delay_max),
            numbers: Arrivals::new((ACKS_REPEATED * u64::from(config.ack_every)).max(REPORTED_MIN)),
            newest_arrival: Timestamp::ZERO,
            largest_arrival: Timestamp::ZERO,
            ect0: 0,
            ce: 0,
            socket_drops: 0,
            ledger: DropLedger::new(),
            order: Order::default(),
            base: 0,
            promised: 0,
            credit: Credit::new(config.chunks_max),
            chunks: VecDeque::new(),
            verified_below: 0,
            end: None,
            bitmaps: Bitmaps::default(),
            ack_size: AckSize::Any,
            stats: ReceiverStats::default(),
        }
    }

    /// Chunks below are stored.
    pub fn stored_below(&self) -> ChunkId {
        self.base
    }

    /// First chunk that has no room.
    pub fn chunk_limit(&self) -> ChunkId {
        self.base.saturating_add(self.credit.chunks()).max(self.promised)
    }

    /// From now on this number of chunks fits in memory at once. What the sender was told of room stays true.
    pub fn set_room(&mut self, chunks_max: u32) {
        self.promised = self.chunk_limit();
        self.credit.set_most(chunks_max);
    }

    /// Whether every chunk of the object is stored.
    pub fn is_complete(&self) -> bool {
        self.end == Some(self.base)
    }

    /// Counters.
    pub fn stats(&self) -> ReceiverStats {
        let (reordered, behind_max) = (self.order.packets, self.order.behind_max);
        ReceiverStats { reordered, behind_max, ..self.stats }
    }

    /// An authenticated data packet with `payload_len` bytes of payload. A rejected packet is not
    /// acknowledged.
    pub fn handle_data(
        &mut self,
        now: Timestamp,
        meta: &PacketMeta,
        header: &DataHeader,
        payload_len: usize,
    ) -> Disposition {
        let disposition = self.place(now, header, payload_len);
        if self.ack_size != AckSize::Small {
            let largest = ACK_LEN_MAX + PLAIN_HEADER_LEN + AEAD_TAG_LEN;
            let small = usize::from(header.payload_size) + DATA_OVERHEAD < largest;
            self.ack_size = if small { AckSize::SmallAsData } else { AckSize::Any };
        }
        match disposition {
            Disposition::Reject(_) => self.stats.rejected += 1,
            Disposition::Duplicate => {
                self.stats.duplicates += 1;
                self.record(now, meta);
            }
            Disposition::Store { completes, .. } => {
                self.record(now, meta);
                if completes.is_some() {
                    self.policy.at_once();
                }
            }
        }
        disposition
    }

    /// A packet that came in a frame on a stream. It has no number and shows nothing of what datagrams meet;
    /// it is reported by the frame, and with the next ack by chunk.
    pub fn handle_framed(&mut self, now: Timestamp, header: &DataHeader, payload_len: usize) -> Disposition {
        let disposition = self.place(now, header, payload_len);
        if let Disposition::Reject(_) = disposition {
            self.stats.rejected += 1;
            return disposition;
        }
        self.stats.framed += 1;
        self.stats.duplicates += u64::from(disposition == Disposition::Duplicate);
        self.policy.on_framed(now);
        if matches!(disposition, Disposition::Store { completes: Some(_), .. }) {
            self.policy.at_once();
        }
        disposition
    }

    /// Where in its chunk the payload of a data packet would be stored, in bytes, if the packet came now: a
    /// driver may open a sealed packet straight into this place. Nothing is taken and nothing changes;
    /// whether it is genuine need not be known, because those bytes are not read before a packet for them is
    /// taken. `None` where there is no such place.
    pub fn vacancy(&self, header: &DataHeader, payload_len: usize) -> Option<u32> {
        let place = header.chunk.checked_sub(self.base)? as usize;
        self.chunks.get(place)?.vacancy(header, payload_len)
    }

    /// An authenticated probe: answered at once. It may ask for rarer or more acks.
    pub fn handle_probe(&mut self, now: Timestamp, meta: &PacketMeta, ratio: Option<AckRatio>) {
        self.record(now, meta);
        if let Some(ratio) = ratio {
            self.policy.set_ratio(ratio);
        }
        self.policy.at_once();
    }

    /// The kernel's count of drops at the socket, as of now. Packets bring their own count
    /// ([`SocketNote`]); this one also has the drops behind the newest.
    pub fn handle_socket_drops(&mut self, drops: u32) {
        self.socket_drops = drops;
        self.ledger.on_count(drops);
    }

    /// Size of the socket's buffer, bytes as the kernel charges them; to be set at the start and after each
    /// change.
    pub fn handle_socket_buffer(&mut self, bytes: u64) {
        self.ledger.on_buffer(bytes);
    }

    /// Packets that this host has dropped at the socket, modulo 2^32; `None` where the kernel does not count.
    pub fn packets_dropped(&mut self) -> Option<u32> {
        self.ledger.packets()
    }

    /// Packet numbers below the largest that have not arrived, or were not taken.
    pub fn missing(&self) -> u64 {
        self.ledger.expected().saturating_sub(self.stats.packets)
    }

    /// The verdict on a complete chunk. False if a chunk that does not verify has no attempt left.
    pub fn handle_verdict(&mut self, chunk: ChunkId, verdict: ChunkVerification) -> bool {
        let Some(arriving) = self.chunk_mut(chunk).filter(|c| c.progress == Progress::Complete) else {
            return true;
        };
        let mut again = true;
        match verdict {
            ChunkVerification::Verified => arriving.progress = Progress::Verified,
            ChunkVerification::Mismatch => again = arriving.reject(),
        }
        while self.chunk_mut(self.verified_below).is_some_and(|c| c.progress == Progress::Verified) {
            self.verified_below += 1;
        }
        self.policy.at_once();
        again
    }

    /// The lowest chunk that was not stored is stored: its room is free.
    pub fn handle_stored(&mut self, chunk: ChunkId) {
        debug_assert_eq!(chunk, self.base, "chunks are stored in order");
        debug_assert!(chunk < self.verified_below, "only verified chunks are stored");
        if chunk == self.base && self.chunks.pop_front().is_some() {
            self.base += 1;
            self.credit.on_stored(self.backlog());
            self.policy.at_once();
        }
    }

    /// Chunks that are here in full and not stored.
    pub fn backlog(&self) -> u16 {
        let complete = self.chunks.iter().filter(|c| c.progress != Progress::Arriving).count();
        u16::try_from(complete).unwrap_or(u16::MAX)
    }

    /// The attempt under which a chunk is arriving.
    pub fn attempt(&self, chunk: ChunkId) -> Option<u8> {
        self.chunks.get(chunk.checked_sub(self.base)? as usize).map(Arriving::attempt)
    }

    /// When [`poll_ack`](Self::poll_ack) will have an ack without further packets.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.policy.deadline()
    }

    /// Whether an ack is due. Cheap enough for every packet.
    pub fn wants_ack(&self, now: Timestamp) -> bool {
        self.policy.is_due(now)
    }

    /// Most bytes of the body of the ack made last, for `Ack::encode_within`. Every second one is small in
    /// any case: the way back may carry less than the way there, and nothing else would show it.
    pub fn ack_len_max(&self) -> usize {
        let small = self.ack_size != AckSize::Any || self.stats.acks % 2 == 1;
        if small { ACK_LEN_SMALL } else { ACK_LEN_MAX }
    }

    /// The local host refused to send an ack for its size.
    pub fn handle_ack_refused(&mut self) {
        self.ack_size = AckSize::Small;
    }

    /// The ack that is due, if one is.
    pub fn poll_ack(&mut self, now: Timestamp) -> Option<Ack> {
        self.wants_ack(now).then(|| self.make_ack(now))
    }

    /// An ack, due or not: the client's greeting (protocol 5.1).
    pub fn make_ack(&mut self, now: Timestamp) -> Ack {
        let largest = self.numbers.largest();
        let with_bitmap = self.policy.acks() % BITMAP_EVERY == BITMAP_EVERY - 1
            || self.policy.is_usual() && self.policy.deadline().is_some_and(|at| at <= now);
        let delay = if largest.is_some() { now - self.largest_arrival } else { Duration::ZERO };
        let lag = self.ledger.take_lag();
        let chunk_limit = self.chunk_limit();
        self.credit.on_told(now, chunk_limit);
        let ack = Ack {
            largest,
            ack_delay_us: u32::try_from(delay.as_micros()).unwrap_or(u32::MAX),
            receive_time_us: self.newest_arrival.as_micros(),
            received_packets: self.stats.packets,
            received_bytes: self.stats.bytes,
            ect0: self.ect0,
            ce: self.ce,
            socket_drops: self.socket_drops,
            chunk_limit,
            verified_below: self.verified_below,
            backlog: self.backlog(),
            ranges: self.numbers.report(),
            bitmaps: if with_bitmap {
                self.bitmaps.next(self.chunks.iter().zip(self.base..)).into_iter().collect()
            } else {
                Vec::new()
            },
            host: HostReport { dropped: self.ledger.packets(), lag },
        };
        self.stats.acks += 1;
        // A greeting reports nothing: the first acks that do stay dense, and so do those of datagrams after
        // frames.
        if largest.is_some() {
            self.policy.on_ack();
        } else if self.stats.framed > 0 {
            self.policy.on_frames_acked();
        }
        ack
    }

    fn place(&mut self, now: Timestamp, header: &DataHeader, payload_len: usize) -> Disposition {
        if header.chunk < self.base {
            return Disposition::Duplicate;
        }
        if header.chunk >= self.chunk_limit() {
            return Disposition::Reject(Reject::NoRoom);
        }
        let last_known = self.base + self.chunks.len() as u32;
        let consistent = match self.end {
            Some(end) => header.chunk < end && header.final_chunk == (header.chunk + 1 == end),
            None => !header.final_chunk || header.chunk + 1 >= last_known,
        };
        if !consistent {
            return Disposition::Reject(Reject::Geometry);
        }
        while self.base + self.chunks.len() as u32 <= header.chunk {
            self.chunks.push_back(Arriving::new());
        }
        let arriving = &mut self.chunks[(header.chunk - self.base) as usize];
        match arriving.take(header, payload_len) {
            Ok(Taken::New { offset, completes }) => {
                if header.final_chunk {
                    self.end = Some(header.chunk + 1);
                }
                self.stats.accepted += 1;
                if let Some(told_at) = self.credit.awaited(header.chunk) {
                    self.credit.on_used(now - told_at, self.backlog());
                }
                Disposition::Store { offset, completes }
            }
            Ok(Taken::Known) => Disposition::Duplicate,
            Err(reason) => Disposition::Reject(reason),
        }
    }

    fn record(&mut self, now: Timestamp, meta: &PacketMeta) {
        if self.numbers.largest().is_none_or(|largest| meta.number > largest) {
            self.largest_arrival = meta.arrived.min(now);
        }
        self.numbers.insert(meta.number);
        self.newest_arrival = self.newest_arrival.max(meta.arrived);
        self.stats.packets += 1;
        self.stats.bytes += u64::from(meta.len);
        match meta.ecn {
            EcnCodepoint::NotEct => {}
            EcnCodepoint::Ect0 => self.ect0 = self.ect0.wrapping_add(1),
            EcnCodepoint::Ce => self.ce = self.ce.wrapping_add(1),
        }
        self.ledger.on_packet(now, meta);
        self.order.on_packet(meta.number, meta.arrived.min(now));
        self.policy.on_packet(now);
    }

    fn chunk_mut(&mut self, chunk: ChunkId) -> Option<&mut Arriving> {
        self.chunks.get_mut(chunk.checked_sub(self.base)? as usize)
    }
}
