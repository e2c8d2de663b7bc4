//! The sending machine: decides which packet leaves when (protocol 5).
//!
//! Told of chunks ([`Sender::push_chunk`]), acks ([`Sender::handle_ack`]) and time ([`Sender::handle_timeout`]); asked for packets
//! ([`Sender::poll_transmit`]), for the next deadline ([`Sender::poll_timeout`]) and for chunks that are done with
//! ([`Sender::poll_freed`]).

mod attribution;
mod chunk;
mod deadline;
mod drain;
mod lessons;
mod limit;
mod opening;
mod schedule;
mod tally;
mod timers;

pub use deadline::Extent;
pub use limit::Limit;
pub use schedule::ScheduleKind;

use crate::congestion::{
    AckSample, BurstSent, Controller, EcnMark, LossCause, LossEpisode, LossEvidence, ModeChange, Outcome,
    PathHistory, Priority,
};
use crate::loss_cause::Judge;
use crate::object::{BLOCK_PACKETS, CHUNK_LEN_MAX, PAYLOAD_MAX, PAYLOAD_MIN};
use crate::pacing::Pacer;
use crate::recovery::{Acked, BASE_DATAGRAM, DeliveryRate, InFlight, Lost, Plpmtu, Rtt, Sent, SentKind};
use crate::wire::{AEAD_TAG_LEN, Ack, DATA_OVERHEAD, DataHeader, Header, PLAIN_HEADER_LEN};
use crate::{ChunkId, PacketNumber, Rate, Timestamp};
use attribution::Attribution;
use chunk::Chunks;
use deadline::Deadline;
use opening::Opening;
use schedule::{Origin, Schedule, Slot, Tail, copy_delay};
use std::collections::VecDeque;
use std::time::Duration;
use tally::Unit;
use timers::ProbeTimeout;

/// Most packets of one burst: what the kernel takes as one GSO super-packet (64), less what a 65,507-byte datagram allows at 1472
/// bytes. 32 to 44 is the knee of the measured curve of rate over burst.
pub const BURST_MAX: u32 = 44;
/// Most datagram bytes of one burst: what UDP over IPv4 carries, which the kernel takes as one GSO super-packet.
pub const BURST_BYTES_MAX: u64 = 65_507;
/// Unsent bytes that are held ready: two full chunks, so that reading and sending overlap.
const READY_BYTES: u64 = 8 << 20;
/// A number may run ahead of the largest acknowledged by this much: half of what 24 bits can tell apart (protocol 4.1),
/// halved again.
const NUMBERS_AHEAD_MAX: u64 = 1 << 22;
/// Packets that leave before the path is probed for larger ones: the first train stays undisturbed.
const PROBE_AFTER_PACKETS: u64 = 64;
/// Packets that one ack is about where none is due earlier (protocol 5.3).
const ACK_PACKETS: u64 = 64;
/// Window of the delivery rate: a quarter of a round trip, within what is steady against batches and stamps (~0.1 ms) on short
/// paths and quick on long ones; and not fewer packets than one ack is about.
const RATE_WINDOW: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(50));
const RATE_WINDOW_MAX: Duration = Duration::from_millis(200);
/// A window that is reported in so many parts flows evenly: it needs no room for what waits for its report.
const ACKS_PER_WINDOW: u64 = 4;

/// What a sender is made with.
#[derive(Debug)]
pub struct SenderConfig {
    /// Who decides the rate.
    pub controller: Box<dyn Controller>,
    /// Who judges whose losses they were.
    pub judge: Judge,
    /// In what order packets leave.
    pub schedule: ScheduleKind,
    /// Never faster than this, datagram bytes per second.
    pub rate_limit: Option<Rate>,
    /// Data bytes per packet, within [`PAYLOAD_MIN`] and [`PAYLOAD_MAX`]; `None` probes the path.
    pub payload_size: Option<u16>,
    /// Bytes of IP and UDP headers: 28 (IPv4) or 48 (IPv6).
    pub ip_overhead: u16,
    /// Packets put out before acks are looked at; `None` for the best.
    pub burst: Option<u32>,
    /// Credit before the first ack.
    pub chunk_limit: ChunkId,
    /// Chunks held at once.
    pub chunks_max: usize,
    /// What the receiver may hold an ack back.
    pub ack_delay_max: Duration,
}

/// One packet to gather, seal and send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketOut {
    /// Its number.
    pub number: PacketNumber,
    /// Its header.
    pub header: Header,
    /// What follows the header.
    pub body: Body,
}

/// The body of a packet, before sealing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// A range of a chunk.
    Chunk {
        /// Chunk of the object.
        chunk: ChunkId,
        /// Bytes from its start.
        offset: u32,
        /// Bytes.
        len: u16,
    },
    /// Zeros.
    Padding {
        /// Bytes.
        len: u16,
    },
}

impl PacketOut {
    /// Length of the datagram, bytes.
    pub fn datagram_len(&self) -> usize {
        let body = match self.body {
            Body::Chunk { len, .. } | Body::Padding { len } => usize::from(len),
        };
        self.header.len() + body + AEAD_TAG_LEN
    }
}

/// What one burst may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Budget {
    /// This many bytes, and the packet that reaches them.
    Bytes(u64),
    /// What the probe timeout lets out.
    TimerOnly,
}

/// What a sender wants to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transmit {
    /// Send the burst: datagrams of equal length, the last one perhaps shorter.
    Burst,
    /// Nothing before this moment, unless something is handled.
    WaitUntil(Timestamp),
    /// Nothing until something is handled or the timeout passes.
    Wait,
}

/// Counters of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SenderStats {
    /// Packets that the object was cut into (first layouts).
    pub packets_needed: u64,
    /// Data packets sent.
    pub packets_sent: u64,
    /// Data packets declared lost.
    pub packets_lost: u64,
    /// Data packets declared lost that arrived after all.
    pub packets_late: u64,
    /// Data packets declared lost that were the receiver's, so that they did not slow the sender down.
    pub packets_spared: u64,
    /// What the receiver's kernel counted as dropped at the socket, as last reported; merged datagrams count once.
    pub socket_drops: u32,
    /// Data packets sent again though nobody had declared them lost: by the circular schedule, by the tail, after a probe
    /// timeout.
    pub packets_copied: u64,
    /// Packets that the local host refused to send.
    pub packets_refused: u64,
    /// Acks handled.
    pub acks: u64,
    /// Chunks that the receiver had in full and not stored, as last reported.
    pub backlog: u16,
    /// Datagram bytes of data packets sent.
    pub bytes_sent: u64,
    /// Datagram bytes acknowledged.
    pub bytes_acked: u64,
    /// Packets that came with a congestion mark.
    pub packets_marked: u32,
}

/// The machine.
#[derive(Debug)]
pub struct Sender {
    controller: Box<dyn Controller>,
    attribution: Attribution,
    rate_limit: Option<Rate>,
    deadline: Option<Deadline>,
    burst: u32,
    chunks_max: usize,
    ack_delay_max: Duration,
    chunks: Chunks,
    schedule: Schedule,
    in_flight: InFlight,
    rtt: Rtt,
    delivery: DeliveryRate,
    /// The newest delivery rate.
    delivered: Option<Rate>,
    opening: Opening,
    plpmtu: Plpmtu,
    pacer: Pacer,
    probe_timeout: ProbeTimeout,
    freed: VecDeque<ChunkId>,
    verified_below: ChunkId,
    chunk_limit: ChunkId,
    object_complete: bool,
    round_end: PacketNumber,
    /// Packets up to this number were sent while data or credit was short.
    app_limited_until: PacketNumber,
    ce_seen: u32,
    limit: Limit,
    /// Bytes of all chunks so far.
    handed: u64,
    stats: SenderStats,
}

impl Sender {
    /// A sender whose first packet may leave at `now`.
    pub fn new(now: Timestamp, config: SenderConfig) -> Sender {
        let burst = config.burst.unwrap_or(BURST_MAX).clamp(1, BURST_MAX);
        let payload_size = config.payload_size.map(|n| n.clamp(PAYLOAD_MIN, PAYLOAD_MAX));
        let plpmtu = match payload_size {
            Some(payload) => Plpmtu::fixed(payload + DATA_OVERHEAD as u16),
            None => Plpmtu::new(config.ip_overhead),
        };
        Sender {
            controller: config.controller,
            attribution: Attribution::new(config.judge),
            rate_limit: config.rate_limit,
            deadline: None,
            burst,
            chunks_max: config.chunks_max,
            ack_delay_max: config.ack_delay_max,
            chunks: Chunks::default(),
            schedule: Schedule::new(config.schedule),
            in_flight: InFlight::default(),
            rtt: Rtt::default(),
            delivery: DeliveryRate::default(),
            delivered: None,
            opening: Opening::default(),
            plpmtu,
            pacer: Pacer::new(now),
            probe_timeout: ProbeTimeout::new(now),
            freed: VecDeque::new(),
            verified_below: 0,
            chunk_limit: config.chunk_limit,
            object_complete: false,
            round_end: 0,
            app_limited_until: 0,
            ce_seen: 0,
            limit: Limit::default(),
            handed: 0,
            stats: SenderStats::default(),
        }
    }

    /// Whether another chunk should be read now.
    pub fn wants_chunk(&self) -> bool {
        let room = self.chunks.count() < self.chunks_max && self.chunks.end() < self.chunk_limit;
        room && !self.object_complete && self.chunks.unsent() < READY_BYTES
    }

    /// The next chunk of the object is in hand: `len` bytes (1 to [`crate::object::CHUNK_LEN_MAX`]). Its number.
    pub fn push_chunk(&mut self, len: u32, is_final: bool) -> ChunkId {
        debug_assert!(!self.object_complete, "a chunk after the final one");
        debug_assert!((1..=CHUNK_LEN_MAX).contains(&len), "a chunk of {len} bytes");
        self.object_complete |= is_final;
        self.handed = self.handed.saturating_add(u64::from(len));
        self.chunks.push(len, is_final)
    }

    /// A chunk that the receiver has verified and whose memory may be used again.
    pub fn poll_freed(&mut self) -> Option<ChunkId> {
        self.freed.pop_front()
    }

    /// Whether every chunk of the object is verified over there.
    pub fn is_complete(&self) -> bool {
        self.object_complete && self.chunks.count() == 0
    }

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// The round-trip estimator.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// From now on the object should be there at `at`: the sender claims no more of the path than that takes, and at most `most`.
    /// Only `auto` can do that. The machine must be told what is left with [`expect`](Self::expect).
    pub fn pursue(&mut self, now: Timestamp, at: Timestamp, most: Priority) {
        let mut deadline = Deadline::new(now, at, most);
        let claim = deadline.look(now, 0, 0);
        if let Some(adaptive) = self.controller.as_adaptive() {
            adaptive.claim(now, claim);
        }
        self.deadline = Some(deadline);
    }

    /// So many bytes are to come in chunks that are not handed over yet. Needed for a deadline only.
    pub fn expect(&mut self, now: Timestamp, beyond: u64, extent: Extent) {
        if let Some(deadline) = &mut self.deadline {
            deadline.expect(now, self.handed, beyond, extent);
        }
    }

    /// By how much the deadline will be missed, if it will be as far as can be told.
    pub fn late(&self) -> Option<Duration> {
        self.deadline.as_ref().and_then(Deadline::late)
    }

    /// Hands the controller what earlier transfers to this peer left.
    pub fn recall(&mut self, history: &PathHistory) {
        self.controller.recall(history);
    }

    /// The controller, for its name and state, and for what it would have remembered.
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// The oldest change of the controller's mode that was not polled yet.
    pub fn poll_mode_change(&mut self) -> Option<ModeChange> {
        self.controller.as_adaptive()?.poll_mode_change()
    }

    /// Data bytes per packet of chunks that start now.
    pub fn payload_size(&self) -> u16 {
        self.plpmtu.datagram() - DATA_OVERHEAD as u16
    }

    /// Datagram bytes on their way.
    pub fn bytes_in_flight(&self) -> u64 {
        self.in_flight.bytes()
    }

    /// What kept the last [`poll_transmit`](Self::poll_transmit) that gave no burst from giving one.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// The rate at which bursts leave at present; `None` as fast as the host can.
    pub fn pacing_rate(&self) -> Option<Rate> {
        let limits = [self.controller.pacing_rate(), self.rate_limit, self.attribution.drain_rate()];
        limits.into_iter().flatten().min()
    }

    /// Most datagram bytes unanswered: the controller's window, and on a path shorter than a report waits what has arrived and waits
    /// for one. The round trips that a controller knows are without that wait, so its window is without those packets: by itself
    /// it would leave once in every [`ack_delay_max`](SenderConfig::ack_delay_max).
    fn window(&self) -> u64 {
        let window = self.controller.congestion_window();
        let (Some(rate), Some(round_trip)) = (self.delivered, self.rtt.min()) else { return window };
        let most = ACK_PACKETS * (u64::from(self.payload_size()) + DATA_OVERHEAD as u64);
        let waits = rate.bytes_in(self.ack_delay_max.saturating_sub(round_trip)).min(most);
        window.saturating_add(waits.saturating_sub(window / ACKS_PER_WINDOW))
    }

    /// The rate that the deadline asks for.
    fn ceiling(&self) -> Option<Rate> {
        self.deadline.as_ref().and_then(|deadline| deadline.claim().ceiling)
    }

    /// The next burst, into `out`; see [`Transmit`]. Call again until it does not return a burst.
    pub fn poll_transmit(&mut self, now: Timestamp, out: &mut Vec<PacketOut>) -> Transmit {
        out.clear();
        if let Some(rate) = self.pacing_rate() {
            let early = now < self.pacer.next_departure();
            if early && !self.probe_timeout.lets_out() {
                self.limit = match Some(rate) {
                    least if least == self.rate_limit => Limit::Cap,
                    least if least == self.attribution.drain_rate() => Limit::Drain,
                    least if least == self.ceiling() => Limit::Deadline,
                    _ => Limit::Pacer,
                };
                return Transmit::WaitUntil(self.pacer.next_departure());
            }
            // A probe timeout's packets are few and must not wait: a slow pacer would let the next one overtake them.
            let budget = if early { Budget::TimerOnly } else { Budget::Bytes(Pacer::quantum(rate)) };
            self.fill_burst(now, budget, out);
        } else {
            self.fill_burst(now, Budget::Bytes(u64::MAX), out);
        }
        if out.is_empty() {
            return self
                .schedule
                .tail_deadline()
                .filter(|at| *at > now)
                .map_or(Transmit::Wait, Transmit::WaitUntil);
        }
        let bytes = out.iter().map(|p| p.datagram_len() as u64).sum();
        self.attribution.on_burst(out.len());
        let bytes_in_flight = self.in_flight.bytes();
        self.controller.on_sent(&BurstSent { now, packets: out.len() as u32, bytes, bytes_in_flight });
        if let Some(rate) = self.pacing_rate() {
            self.pacer.on_sent(now, bytes, rate);
        }
        // Whether it is all that is on its way.
        let first = self.in_flight.bytes() <= bytes;
        self.probe_timeout.on_sent(now, first);
        Transmit::Burst
    }

    /// The receiver reports. Anything it says of packets or chunks that were never sent is ignored.
    pub fn handle_ack(&mut self, now: Timestamp, ack: &Ack) {
        self.stats.acks += 1;
        self.stats.socket_drops = self.stats.socket_drops.max(ack.socket_drops);
        self.stats.backlog = ack.backlog;
        self.chunk_limit = self.chunk_limit.max(ack.chunk_limit);
        self.on_verified_below(ack.verified_below.min(self.chunks.end()));

        let (mut acked_bytes, mut acked_packets, mut newest): (u64, u64, Option<Acked>) = (0, 0, None);
        let (mut large, mut ping) = (false, false);
        for &(low, high) in ack.ranges.iter().rev() {
            let (chunks, plpmtu, stats) = (&mut self.chunks, &mut self.plpmtu, &mut self.stats);
            let attribution = &mut self.attribution;
            self.in_flight.on_ack(low, high, |acked| {
                acked_bytes += u64::from(acked.sent.len);
                acked_packets += 1;
                newest = Some(acked);
                if acked.was_lost {
                    attribution.on_found(acked.number);
                }
                match acked.sent.kind {
                    SentKind::Data { chunk, index, attempt } => {
                        if acked.was_lost {
                            chunks.on_late(chunk, index, attempt);
                        }
                        chunks.on_acked(chunk, index, attempt);
                        stats.packets_late += u64::from(acked.was_lost);
                        large |= acked.sent.len > BASE_DATAGRAM;
                    }
                    SentKind::Probe => {
                        plpmtu.on_acked(acked.sent.len);
                        ping |= acked.sent.len <= BASE_DATAGRAM;
                    }
                }
            });
        }
        self.stats.bytes_acked += acked_bytes;
        self.take_bitmaps(ack);
        if let Some(newest) = newest {
            self.probe_timeout.on_news(now);
            if self.probe_timeout.tells_black_hole(large, ping) && self.plpmtu.on_black_hole(now) {
                self.lose_all(now);
                self.start_over_large();
            }
            if Some(newest.number) == ack.largest {
                let delay = Duration::from_micros(u64::from(ack.ack_delay_us)).min(self.ack_delay_max);
                self.rtt.on_sample(now, now - newest.sent.at, delay);
            }
        }
        self.attribution.on_report(ack);
        self.detect_losses(now);
        if ack.ce > self.ce_seen {
            self.attribution.on_mark();
        }
        self.settle_losses(now);
        self.tell_outcomes(now);
        self.tell_controller(now, ack, (acked_bytes, acked_packets), newest);
    }

    /// The receiver found that a chunk does not verify (control channel): it is sent anew. False if it was tried too often.
    pub fn handle_rejected(&mut self, chunk: ChunkId, attempt: u8) -> bool {
        match self.chunks.get(chunk).map(|c| c.attempt()) {
            Some(current) if current == attempt => self.start_over(chunk),
            // News of an earlier attempt, or of a chunk that we do not hold.
            _ => true,
        }
    }

    /// The local host refused to send this packet. `too_large` tells that its size was why.
    pub fn handle_refused(&mut self, now: Timestamp, number: PacketNumber, too_large: bool) {
        let Some(lost) = self.in_flight.lose(number) else { return };
        self.stats.packets_refused += 1;
        if too_large && lost.sent.kind == SentKind::Probe {
            self.plpmtu.on_too_large(lost.sent.len);
            return;
        }
        let (bytes, sent) = (u64::from(lost.sent.len), lost.sent.at);
        self.on_lost(lost);
        if too_large && self.plpmtu.on_black_hole(now) {
            self.start_over_large();
        }
        let bytes_in_flight = self.in_flight.bytes();
        self.controller.on_loss(&LossEpisode {
            now,
            packets: 1,
            bytes,
            bytes_in_flight,
            sent: (sent, sent),
            evidence: LossEvidence::Acks,
            cause: LossCause::LocalSend,
        });
    }

    fn fill_burst(&mut self, now: Timestamp, budget: Budget, out: &mut Vec<PacketOut>) {
        let ahead = self.in_flight.next_number() - self.in_flight.largest_acked().unwrap_or(0);
        if ahead > NUMBERS_AHEAD_MAX || self.in_flight.is_full() {
            self.limit = Limit::Window;
            return;
        }
        if self.in_flight.next_number() >= PROBE_AFTER_PACKETS
            && budget != Budget::TimerOnly
            && !self.probe_timeout.is_backed_off()
            && let Some(datagram) = self.plpmtu.poll_probe(now)
        {
            out.push(self.emit_probe(now, datagram));
            return;
        }
        let datagram = u64::from(self.payload_size()) + DATA_OVERHEAD as u64;
        let (timer_only, budget) = match budget {
            Budget::TimerOnly => (true, u64::MAX),
            Budget::Bytes(bytes) => (self.probe_timeout.is_backed_off(), bytes),
        };
        let window = self.window();
        let (mut bytes, mut first_len) = (0u64, 0usize);
        while out.len() < self.burst as usize
            && (out.is_empty() || bytes < budget)
            && bytes + first_len as u64 <= BURST_BYTES_MAX
        {
            let full = self.in_flight.bytes() + datagram > window;
            if (full || timer_only) && !self.probe_timeout.take_credit() {
                self.limit = if timer_only { Limit::Silence } else { Limit::Window };
                break;
            }
            let Some((slot, origin)) = self.schedule.peek(&mut self.chunks, self.chunk_limit, now) else {
                self.on_nothing_to_send(now, out.is_empty());
                self.limit = match (self.chunks.unsent(), self.object_complete) {
                    (1.., _) => Limit::Credit,
                    (0, true) => Limit::Answers,
                    (0, false) => Limit::Data,
                };
                break;
            };
            self.lay_out(slot.chunk);
            let Some(packet) = self.describe(slot) else { break };
            let len = packet.datagram_len();
            if first_len != 0 && len > first_len {
                break;
            }
            self.commit(now, slot, origin, packet, out);
            bytes += len as u64;
            if first_len != 0 && len < first_len {
                break;
            }
            first_len = len;
        }
        if out.is_empty() && self.probe_timeout.take_ping() {
            out.push(self.emit_probe(now, (PLAIN_HEADER_LEN + AEAD_TAG_LEN) as u16));
        }
    }

    fn lay_out(&mut self, chunk: ChunkId) {
        let payload = self.payload_size();
        if let Some(packets) = self.chunks.lay_out(chunk, payload) {
            self.stats.packets_needed += u64::from(packets);
        }
    }

    fn describe(&self, slot: Slot) -> Option<PacketOut> {
        let chunk = self.chunks.get(slot.chunk)?;
        let geometry = chunk.layout()?.geometry;
        let header = Header::Data(DataHeader {
            chunk: slot.chunk,
            packet_index: slot.index,
            payload_size: geometry.payload_size(),
            attempt: chunk.attempt(),
            last: geometry.is_last(slot.index),
            final_chunk: chunk.is_final(),
        });
        let body = Body::Chunk {
            chunk: slot.chunk,
            offset: geometry.offset(slot.index),
            len: geometry.packet_len(slot.index),
        };
        debug_assert!(geometry.offset(slot.index) < chunk.len());
        Some(PacketOut { number: self.in_flight.next_number(), header, body })
    }

    fn commit(
        &mut self,
        now: Timestamp,
        slot: Slot,
        origin: Origin,
        packet: PacketOut,
        out: &mut Vec<PacketOut>,
    ) {
        let attempt = self.chunks.get(slot.chunk).map_or(0, |c| c.attempt());
        let kind = SentKind::Data { chunk: slot.chunk, index: slot.index, attempt };
        let number = self.in_flight.on_sent(Sent { kind, at: now, len: packet.datagram_len() as u16 });
        self.opening.on_data(number, now, &mut self.delivery);
        debug_assert_eq!(number, packet.number);
        // A repeat of what may still arrive is sent for want of anything else: the path is not asked for more.
        let filler = origin == Origin::Circle && {
            let before =
                self.chunks.get(slot.chunk).and_then(|c| c.layout()).map_or(0, |l| l.newest(slot.index));
            let heard_of = self.in_flight.largest_acked().unwrap_or(0) as u32;
            before.wrapping_sub(heard_of) as i32 > 0
        };
        self.chunks.on_sent(now, slot.chunk, slot.index, number);
        self.schedule.take(&mut self.chunks, slot, origin, now + copy_delay(self.rtt.smoothed()));
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += packet.datagram_len() as u64;
        if filler {
            self.app_limited_until = number + 1;
        }
        self.stats.packets_copied +=
            u64::from(matches!(origin, Origin::Repeat | Origin::Tail | Origin::Circle));
        out.push(packet);
    }

    fn emit_probe(&mut self, now: Timestamp, datagram: u16) -> PacketOut {
        let number = self.in_flight.on_sent(Sent { kind: SentKind::Probe, at: now, len: datagram });
        let len = datagram - (PLAIN_HEADER_LEN + AEAD_TAG_LEN) as u16;
        PacketOut { number, header: Header::Probe, body: Body::Padding { len } }
    }

    fn on_nothing_to_send(&mut self, now: Timestamp, idle: bool) {
        if idle {
            self.app_limited_until = self.in_flight.next_number();
        }
        if self.object_complete && self.chunks.unsent() == 0 && !self.schedule.tail_begun() {
            let datagram = u64::from(self.payload_size()) + DATA_OVERHEAD as u64;
            let packets_in_flight = self.in_flight.bytes() / datagram;
            // As likely as not that one of what is on its way is lost.
            let lost = self.stats.packets_lost.saturating_sub(self.stats.packets_late);
            let lossy = 2 * lost * packets_in_flight >= self.stats.packets_sent;
            let tail = Tail {
                packets_needed: self.stats.packets_needed,
                packets_in_flight: packets_in_flight as usize,
                lossy,
                copy_at: if lossy { now } else { now + copy_delay(self.rtt.smoothed()) },
            };
            let in_flight = &self.in_flight;
            self.schedule.begin_tail(&tail, |count| newest_slots(in_flight, count));
        }
    }

    fn on_verified_below(&mut self, below: ChunkId) {
        self.verified_below = self.verified_below.max(below);
        while self.chunks.base() < self.verified_below && self.chunks.pop().is_some() {
            self.freed.push_back(self.chunks.base() - 1);
        }
    }

    fn take_bitmaps(&mut self, ack: &Ack) {
        for bitmap in &ack.bitmaps {
            let first = u32::from(bitmap.block) * BLOCK_PACKETS;
            for (byte, bits) in (0u32..).zip(&bitmap.bits) {
                for bit in (0..8).filter(|bit| bits >> bit & 1 == 1) {
                    if let Ok(index) = u16::try_from(first + byte * 8 + bit) {
                        self.chunks.on_acked(bitmap.chunk, index, bitmap.attempt);
                    }
                }
            }
        }
    }

    fn detect_losses(&mut self, now: Timestamp) {
        let mut lost = Vec::new();
        self.in_flight.detect_losses(now, self.rtt.loss_delay(), |packet| lost.push(packet));
        self.account_losses(now, &lost, LossEvidence::Acks);
    }

    fn account_losses(&mut self, now: Timestamp, lost: &[Lost], evidence: LossEvidence) {
        if lost.is_empty() {
            return;
        }
        let mut missed = Vec::with_capacity(lost.len());
        for &packet in lost {
            if self.on_lost(packet) {
                missed.push(packet);
                if let SentKind::Data { chunk, index, attempt } = packet.sent.kind {
                    self.chunks.on_lost(chunk, index, attempt);
                }
            }
        }
        self.stats.packets_lost += missed.len() as u64;
        self.attribute(now, lost, &missed, evidence);
    }

    /// Whether a data packet was lost that no report has acknowledged.
    fn on_lost(&mut self, lost: Lost) -> bool {
        match lost.sent.kind {
            SentKind::Probe => {
                self.plpmtu.on_lost(lost.sent.len);
                false
            }
            SentKind::Data { chunk, index, attempt } => {
                if self.chunks.needs_again(chunk, index, attempt, lost.number) {
                    self.schedule.on_again(Slot { chunk, index }, attempt, lost.number as u32, Origin::Lost);
                }
                self.chunks.get(chunk).and_then(|c| c.layout()).is_some_and(|l| !l.is_acked(index))
            }
        }
    }

    fn start_over(&mut self, chunk: ChunkId) -> bool {
        let again = self.chunks.start_over(chunk);
        if again {
            self.schedule.on_start_over(chunk);
        }
        again
    }

    /// Lays out anew the open chunks whose packets no longer pass.
    fn start_over_large(&mut self) {
        let payload_max = BASE_DATAGRAM - DATA_OVERHEAD as u16;
        for chunk in self.chunks.base()..self.chunks.end() {
            let open = self.chunks.get(chunk).filter(|c| !c.is_acked()).and_then(|c| c.layout());
            if open.is_some_and(|l| l.geometry.payload_size() > payload_max) {
                self.start_over(chunk);
            }
        }
    }

    fn tell_outcomes(&mut self, now: Timestamp) {
        for (unit, tally) in self.chunks.take_outcomes() {
            let outcome = Outcome { now, began: tally.began, packets: tally.sent, lost: tally.lost };
            match unit {
                Unit::Block => self.controller.on_block(&outcome),
                Unit::Chunk => self.controller.on_chunk(&outcome),
            }
        }
    }

    fn tell_controller(
        &mut self,
        now: Timestamp,
        ack: &Ack,
        (acked_bytes, acked_packets): (u64, u64),
        newest: Option<Acked>,
    ) {
        if ack.ce > self.ce_seen {
            let packets = ack.ce - self.ce_seen;
            self.ce_seen = ack.ce;
            self.stats.packets_marked = ack.ce;
            self.controller.on_ecn(&EcnMark { now, packets });
        }
        let (Some(newest), Some(latest_rtt), Some(min_rtt)) = (newest, self.rtt.latest(), self.rtt.min())
        else {
            return;
        };
        let few = ACK_PACKETS * (u64::from(self.payload_size()) + DATA_OVERHEAD as u64);
        let few = self.pacing_rate().map_or(Duration::ZERO, |rate| rate.time_for(few));
        let window = (min_rtt / 4).clamp(RATE_WINDOW.0, RATE_WINDOW.1).max(few).min(RATE_WINDOW_MAX);
        let time_us = ack.receive_time_us.saturating_add(self.opening.wait_after(&newest));
        let slopes = self.delivery.on_ack(time_us, ack.received_bytes, ack.received_packets, window);
        self.delivered = slopes.map(|slopes| slopes.window.rate).or(self.delivered);
        let round_start = newest.number >= self.round_end;
        if round_start {
            self.round_end = self.in_flight.next_number();
            self.attribute_round(now);
            let in_hand = self.chunks.unsent().saturating_add(self.in_flight.bytes());
            if let Some(deadline) = &mut self.deadline {
                let claim = deadline.look(now, in_hand, self.stats.bytes_acked);
                if let Some(adaptive) = self.controller.as_adaptive() {
                    adaptive.claim(now, claim);
                }
            }
        }
        // What the receiver takes says nothing about the path.
        let drained = self.attribution.drain_rate().is_some_and(|rate| Some(rate) == self.pacing_rate());
        self.controller.on_ack(&AckSample {
            now,
            acked_bytes,
            acked_packets,
            packet_len: self.plpmtu.datagram(),
            bytes_in_flight: self.in_flight.bytes(),
            latest_rtt,
            smoothed_rtt: self.rtt.smoothed(),
            min_rtt,
            rate: slopes.map(|slopes| slopes.window),
            step: slopes.map(|slopes| slopes.step),
            app_limited: drained
                || newest.number < self.app_limited_until
                || newest.sent.kind == SentKind::Probe,
            round_start,
        });
    }
}

/// What the newest `count` outstanding data packets carried, in the order of sending.
fn newest_slots(in_flight: &InFlight, count: usize) -> Vec<Slot> {
    let carried = in_flight.outstanding_newest_first().filter_map(|sent| match sent.kind {
        SentKind::Data { chunk, index, .. } => Some(Slot { chunk, index }),
        SentKind::Probe => None,
    });
    let mut slots: Vec<_> = carried.take(count).collect();
    slots.reverse();
    slots
}
