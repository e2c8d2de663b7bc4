//! The object's packets: which there are, which are outstanding, acknowledged or lost. Knows no rate and no
//! window.

use super::attribution::{Attribution, Found};
use super::carrier::Carrier;
use super::local::Refusal;
use super::packet::{Body, PacketOut};
use super::schedule::{Origin, Schedule, Slot, Tail};
use super::stats::SenderStats;
use super::supply::Supply;
use crate::recovery::{Acked, InFlight, LEAST_DATAGRAM, Lost, Plpmtu, Sent, SentKind};
use crate::wire::{
    ACK_LEN_SMALL, AEAD_TAG_LEN, Ack, AckRatio, DATA_OVERHEAD, DataHeader, Header, PLAIN_HEADER_LEN,
};
use crate::{ChunkId, PacketNumber, Timestamp};
use std::time::Duration;

/// A number may run ahead of the largest acknowledged by this much: half of what 24 bits can tell apart
/// (protocol 4.1), halved again.
const NUMBERS_AHEAD_MAX: u64 = 1 << 22;

const _: () = assert!(ACK_LEN_SMALL + PLAIN_HEADER_LEN + AEAD_TAG_LEN == LEAST_DATAGRAM as usize);
/// Datagram bytes of a probe without a body.
const PING_LEN: u16 = (PLAIN_HEADER_LEN + AEAD_TAG_LEN) as u16;

/// Chunks, their order of transmission, and the transmissions.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) supply: Supply,
    pub(super) schedule: Schedule,
    pub(super) sent: InFlight,
    pub(super) plpmtu: Plpmtu,
    pub(super) stats: SenderStats,
}

/// What an ack acknowledges for the first time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Acknowledged {
    pub(super) bytes: u64,
    pub(super) packets: u64,
    /// Data packets that the controller takes for lost and that have arrived.
    pub(super) found: u64,
    /// The packet with the largest number.
    pub(super) newest: Option<Acked>,
    /// Bytes of data packets among them.
    pub(super) data_bytes: u64,
    /// A data packet was among them that is larger than what the size falls back to.
    pub(super) large: bool,
    /// A probe was among them that is not.
    pub(super) ping: bool,
}

/// A packet that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departed {
    pub(super) number: PacketNumber,
    /// It repeats a packet that may still arrive, because there is nothing else to send: the path is not
    /// loaded by demand.
    pub(super) filler: bool,
}

impl Flight {
    /// Data bytes per packet of chunks that start now.
    pub(super) fn payload_size(&self) -> u16 {
        self.plpmtu.datagram() - DATA_OVERHEAD as u16
    }

    /// Datagram bytes of a full data packet.
    pub(super) fn datagram_len(&self) -> u64 {
        u64::from(self.payload_size()) + DATA_OVERHEAD as u64
    }

    /// Whether no more packets can be outstanding.
    pub(super) fn is_full(&self) -> bool {
        let ahead = self.sent.next_number() - self.sent.largest_acked().unwrap_or(0);
        ahead > NUMBERS_AHEAD_MAX || self.sent.is_full()
    }

    /// The packet to send next, if there is one.
    pub(super) fn peek(&mut self, now: Timestamp) -> Option<(Slot, Origin)> {
        let limit = self.supply.limit();
        self.schedule.peek(&mut self.supply.chunks, limit, now)
    }

    /// The packet in a slot, whose chunk is laid out if it was not.
    pub(super) fn describe(&mut self, slot: Slot) -> Option<PacketOut> {
        let payload = self.payload_size();
        if let Some(packets) = self.supply.chunks.lay_out(slot.chunk, payload) {
            self.stats.packets_needed += u64::from(packets);
        }
        let chunk = self.supply.chunks.get(slot.chunk)?;
        let geometry = chunk.layout()?.geometry;
        let header = Header::Data(DataHeader {
            chunk: slot.chunk,
            packet_index: slot.index,
            payload_size: geometry.payload_size(),
            attempt: chunk.attempt(),
            last: geometry.is_last(slot.index),
            final_chunk: chunk.is_final(),
        });
        let offset = geometry.offset(slot.index);
        debug_assert!(offset < chunk.len());
        let body = Body::Chunk { chunk: slot.chunk, offset, len: geometry.packet_len(slot.index) };
        Some(PacketOut { number: self.sent.next_number(), header, body })
    }

    /// The packet of the last [`peek`](Self::peek) leaves; its redundant copy may follow after `copy_delay`.
    pub(super) fn send(
        &mut self,
        now: Timestamp,
        (slot, origin): (Slot, Origin),
        packet: &PacketOut,
        copy_delay: Duration,
    ) -> Departed {
        let len = packet.datagram_len();
        let attempt = self.supply.chunks.get(slot.chunk).map_or(0, |c| c.attempt());
        let kind = SentKind::Data { chunk: slot.chunk, index: slot.index, attempt };
        let number = self.sent.on_sent(Sent { kind, at: now, len: len as u16 });
        debug_assert_eq!(number, packet.number);
        let filler = origin == Origin::Circle && self.may_arrive(slot);
        self.supply.chunks.on_sent(now, slot.chunk, slot.index, number);
        self.schedule.take(&mut self.supply.chunks, slot, origin, now + copy_delay);
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += len as u64;
        let copied = matches!(origin, Origin::Repeat | Origin::Tail | Origin::Circle);
        self.stats.packets_copied += u64::from(copied);
        Departed { number, filler }
    }

    /// Whether the newest transmission of a slot is later than every packet acknowledged.
    fn may_arrive(&self, slot: Slot) -> bool {
        let layout = self.supply.chunks.get(slot.chunk).and_then(|c| c.layout());
        let newest = layout.map_or(Carrier::NONE, |l| l.newest(slot.index));
        newest.is_later_than(self.sent.largest_acked().unwrap_or(0))
    }

    /// A probe of this many datagram bytes leaves.
    pub(super) fn send_probe(&mut self, now: Timestamp, datagram: u16, ack_ratio: AckRatio) -> PacketOut {
        let number = self.sent.on_sent(Sent { kind: SentKind::Probe, at: now, len: datagram });
        let len = datagram - (PLAIN_HEADER_LEN + AEAD_TAG_LEN) as u16;
        PacketOut { number, header: Header::Probe, body: Body::Probe { len, ack_ratio } }
    }

    /// The smallest probe leaves.
    pub(super) fn send_ping(&mut self, now: Timestamp) -> PacketOut {
        self.send_probe(now, PING_LEN, AckRatio::USUAL)
    }

    /// The smallest probe leaves that asks for acks as rare as this.
    pub(super) fn send_request(&mut self, now: Timestamp, ack_ratio: AckRatio) -> PacketOut {
        self.send_probe(now, PING_LEN + 1, ack_ratio)
    }

    /// Once everything was sent, redundant copies of the last packets may follow.
    pub(super) fn begin_tail(&mut self, now: Timestamp, copy_delay: Duration) {
        if !self.supply.is_sent() || self.schedule.tail_begun() {
            return;
        }
        let packets_in_flight = self.sent.bytes() / self.datagram_len();
        // With a probability of about a half, one of the packets in flight is lost.
        let lost = self.stats.packets_lost.saturating_sub(self.stats.packets_late);
        let lossy = 2 * lost * packets_in_flight >= self.stats.packets_sent;
        let tail = Tail {
            packets_needed: self.stats.packets_needed,
            packets_in_flight: packets_in_flight as usize,
            lossy,
            copy_at: if lossy { now } else { now + copy_delay },
        };
        let sent = &self.sent;
        self.schedule.begin_tail(&tail, |count| newest_slots(sent, count));
    }

    /// Takes an ack. Packets and chunks in it that were never sent are ignored. Packets found after they were
    /// declared lost are also reported to `attribution`.
    pub(super) fn on_ack(&mut self, ack: &Ack, attribution: &mut Attribution) -> Acknowledged {
        self.stats.acks += 1;
        self.stats.socket_drops = self.stats.socket_drops.max(ack.socket_drops);
        self.stats.backlog = ack.backlog;
        self.supply.on_ack(ack);
        let mut news = Acknowledged::default();
        let small = self.plpmtu.next_lower().unwrap_or(u16::MAX);
        let Flight { supply, sent, plpmtu, stats, .. } = self;
        for &(low, high) in ack.ranges.iter().rev() {
            sent.on_ack(low, high, |acked| {
                news.bytes += u64::from(acked.sent.len);
                news.packets += 1;
                news.newest = Some(acked);
                let found = if acked.was_lost { attribution.on_found(acked.number) } else { Found::Held };
                match acked.sent.kind {
                    SentKind::Data { chunk, index, attempt } => {
                        news.found += u64::from(found == Found::Reported);
                        if acked.was_lost {
                            supply.chunks.on_late(chunk, index, attempt);
                        }
                        supply.chunks.on_acked(chunk, index, attempt);
                        stats.packets_late += u64::from(acked.was_lost);
                        news.large |= acked.sent.len > small;
                        news.data_bytes += u64::from(acked.sent.len);
                    }
                    SentKind::Probe => {
                        stats.probes_acked += 1;
                        plpmtu.on_acked(acked.sent.len);
                        news.ping |= acked.sent.len <= small;
                    }
                }
            });
        }
        self.stats.bytes_acked += news.bytes;
        self.stats.data_bytes_acked += news.data_bytes;
        self.supply.on_bitmaps(ack);
        news
    }

    /// Takes what an ack says of chunks: credit, verdicts, and which of their packets have arrived.
    pub(super) fn on_chunks(&mut self, ack: &Ack) {
        self.supply.on_ack(ack);
        self.supply.on_bitmaps(ack);
    }

    /// Congestion marks that the receiver has counted since the last ack.
    pub(super) fn take_marks(&mut self, ack: &Ack) -> u32 {
        let marks = ack.ce.saturating_sub(self.stats.packets_marked);
        self.stats.packets_marked += marks;
        marks
    }

    /// Books packets that were declared lost; those whose data no report has acknowledged.
    pub(super) fn on_losses(&mut self, lost: &[Lost]) -> Vec<Lost> {
        let mut missed = Vec::with_capacity(lost.len());
        for &packet in lost {
            if self.on_lost(packet) {
                missed.push(packet);
                if let SentKind::Data { chunk, index, attempt } = packet.sent.kind {
                    self.supply.chunks.on_lost(chunk, index, attempt);
                }
            }
        }
        self.stats.packets_lost += missed.len() as u64;
        missed
    }

    /// Whether a data packet was lost that no report has acknowledged.
    fn on_lost(&mut self, lost: Lost) -> bool {
        match lost.sent.kind {
            SentKind::Probe => {
                self.plpmtu.on_lost(lost.sent.len);
                false
            }
            SentKind::Data { chunk, index, attempt } => {
                let chunks = &self.supply.chunks;
                let carrier = Carrier::datagram(lost.number);
                if chunks.needs_again(chunk, index, attempt, carrier) {
                    self.schedule.on_again(Slot { chunk, index }, attempt, carrier, Origin::Lost);
                }
                chunks.get(chunk).and_then(|c| c.layout()).is_some_and(|l| !l.is_acked(index))
            }
        }
    }

    /// The local host refused to send a packet. Returns the packet, unless it was a probe for a larger size,
    /// whose refusal says nothing else.
    pub(super) fn on_refused(&mut self, now: Timestamp, number: PacketNumber, why: Refusal) -> Option<Lost> {
        let lost = self.sent.lose(number)?;
        self.stats.packets_refused += 1;
        if lost.sent.kind == SentKind::Probe && lost.sent.len > self.plpmtu.datagram() {
            match why {
                Refusal::Size => self.plpmtu.on_too_large(lost.sent.len),
                Refusal::Room => self.plpmtu.on_refused(now, lost.sent.len),
            }
            return None;
        }
        self.on_lost(lost);
        Some(lost)
    }

    /// These losses were the receiver's: they do not count in the outcome of their chunks, which is the
    /// path's.
    pub(super) fn spare(&mut self, lost: &[Lost]) {
        for packet in lost {
            if let SentKind::Data { chunk, index, attempt } = packet.sent.kind {
                self.supply.chunks.on_late(chunk, index, attempt);
            }
        }
        self.stats.packets_spared += lost.len() as u64;
    }

    /// A chunk is laid out and sent anew. False if its attempts are used up.
    pub(super) fn start_over(&mut self, chunk: ChunkId) -> bool {
        let again = self.supply.chunks.start_over(chunk);
        if again {
            self.schedule.on_start_over(chunk);
        }
        again
    }

    /// Lays out anew the open chunks whose packets no longer pass.
    pub(super) fn start_over_large(&mut self) {
        let payload_max = self.payload_size();
        for chunk in self.supply.chunks.base()..self.supply.chunks.end() {
            let open = self.supply.chunks.get(chunk).filter(|c| !c.is_acked()).and_then(|c| c.layout());
            if open.is_some_and(|l| l.geometry.payload_size() > payload_max) {
                self.start_over(chunk);
            }
        }
    }

    /// Queues the oldest unacknowledged packet: the receiver stores in order and waits for it.
    pub(super) fn resend_oldest(&mut self) {
        let oldest = self.supply.chunks.iter().find_map(|(id, chunk)| {
            let index = chunk.layout()?.next_unacked_sent(0)?;
            Some((Slot { chunk: id, index }, chunk.attempt(), chunk.layout()?.newest(index)))
        });
        if let Some((slot, attempt, carrier)) = oldest {
            self.schedule.on_again(slot, attempt, carrier, Origin::Repeat);
        }
    }
}

/// Slots of the newest `count` outstanding data packets, in the order of sending.
fn newest_slots(sent: &InFlight, count: usize) -> Vec<Slot> {
    let carried = sent.outstanding_newest_first().filter_map(|sent| match sent.kind {
        SentKind::Data { chunk, index, .. } => Some(Slot { chunk, index }),
        SentKind::Probe => None,
    });
    let mut slots: Vec<_> = carried.take(count).collect();
    slots.reverse();
    slots
}
