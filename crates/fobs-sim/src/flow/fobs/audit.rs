//! Rules for a sender's packets, beside the ledger of outstanding bytes.

use crate::check::rule;
use crate::net::Net;
use crate::object::Cut;
use fobs_proto::ChunkId;
use fobs_proto::sender::{Body, FrameOut, PacketOut, SenderStats};
use fobs_proto::session::GRANTS_MAX;
use fobs_proto::wire::{ATTEMPT_MAX, DataHeader, FRAME_DATA_MAX, Header};
use std::collections::{BTreeSet, HashMap};

/// Checks each burst, and keeps what the checks at the end need.
#[derive(Debug)]
pub(super) struct Audit {
    /// Retransmissions have causes: the schedule sends nothing twice without one.
    loss_driven: bool,
    /// First chunk without credit, as of the newest ack.
    credit: ChunkId,
    /// Layouts beyond the first that packets were seen of, and their packets.
    layouts: BTreeSet<(ChunkId, u8)>,
    relaid: u64,
    /// How far each chunk held has been sent for the first time, bytes; and data packets beside those.
    sent_below: HashMap<ChunkId, u32>,
    repeated: u64,
    /// Frames outstanding, and what of the chunks held frames have delivered, by attempt and first byte.
    frames: HashMap<u64, FrameOut>,
    delivered: HashMap<ChunkId, BTreeSet<(u8, u32)>>,
}

impl Audit {
    pub(super) fn new(loss_driven: bool, credit: ChunkId) -> Audit {
        Audit {
            loss_driven,
            credit,
            layouts: BTreeSet::new(),
            relaid: 0,
            sent_below: HashMap::new(),
            repeated: 0,
            frames: HashMap::new(),
            delivered: HashMap::new(),
        }
    }

    /// An ack gives credit.
    pub(super) fn on_credit(&mut self, chunk_limit: ChunkId) {
        self.credit = self.credit.max(chunk_limit);
    }

    /// The receiver has verified a chunk.
    pub(super) fn on_freed(&mut self, chunk: ChunkId) {
        self.sent_below.remove(&chunk);
        self.delivered.remove(&chunk);
    }

    /// A frame leaves: its packets are what it says, and the receiver is not known to have any of them.
    pub(super) fn check_frame(&mut self, net: &mut Net, cut: &Cut, pushed: ChunkId, frame: &FrameOut) {
        let within = frame.len as usize <= FRAME_DATA_MAX && frame.chunk == frame.header.first.chunk;
        rule!(net, within, "a frame has its length", "{frame:?}");
        for (data, range) in frame.header.packets(frame.len as usize) {
            let offset = frame.offset + range.start as u32;
            self.check_piece(net, cut, pushed, &data, (frame.chunk, offset, range.len() as u16));
            let known = self.delivered.get(&frame.chunk).is_some_and(|d| d.contains(&(data.attempt, offset)));
            rule!(net, !known, "nothing delivered is sent again", "chunk {} at {offset}", frame.chunk);
        }
        let fresh = self.frames.insert(frame.id, *frame).is_none();
        rule!(net, fresh, "a frame's id is used once", "{}", frame.id);
    }

    /// The receiver has taken a frame.
    pub(super) fn on_frame_delivered(&mut self, id: u64) {
        let Some(frame) = self.frames.remove(&id) else { return };
        // A chunk that is no longer held is verified.
        if !self.sent_below.contains_key(&frame.chunk) {
            return;
        }
        let delivered = self.delivered.entry(frame.chunk).or_default();
        for (data, range) in frame.header.packets(frame.len as usize) {
            delivered.insert((data.attempt, frame.offset + range.start as u32));
        }
    }

    /// A frame's stream has ended.
    pub(super) fn on_frame_lost(&mut self, id: u64) {
        self.frames.remove(&id);
    }

    /// Chunks held are within their limit.
    pub(super) fn check_memory(&self, net: &mut Net, held: u32, granted: u32, chunks_max: u32) {
        let bounded = held + granted <= chunks_max && granted <= GRANTS_MAX;
        rule!(
            net,
            bounded,
            "the sender's memory is bounded",
            "{held} chunks held, {granted} buffers granted"
        );
    }

    /// GSO can cut a burst: equal lengths, but for a shorter last one.
    pub(super) fn check_burst(&self, net: &mut Net, out: &[PacketOut], burst_max: usize) {
        let fits = !out.is_empty() && out.len() <= burst_max;
        rule!(net, fits, "a burst has its length", "{} packets", out.len());
        let first = out.first().map_or(0, PacketOut::datagram_len);
        for (i, packet) in out.iter().enumerate() {
            let len = packet.datagram_len();
            let cut = len == first || i + 1 == out.len() && len < first;
            rule!(net, cut, "GSO can cut a burst", "{len} bytes after {first}");
        }
    }

    /// Where a packet's body lies in its chunk, and its length; `None` if header and body do not agree.
    pub(super) fn check_packet(
        &mut self,
        net: &mut Net,
        cut: &Cut,
        pushed: ChunkId,
        packet: &PacketOut,
    ) -> Option<(u32, u16)> {
        match (packet.body, packet.header) {
            (Body::Chunk { chunk, offset, len }, Header::Data(data)) => {
                self.check_piece(net, cut, pushed, &data, (chunk, offset, len));
                Some((offset, len))
            }
            (Body::Probe { len, .. }, Header::Probe) => Some((0, len)),
            (body, header) => {
                net.breach("header and body agree", format!("{header:?} and {body:?}"));
                None
            }
        }
    }

    fn check_piece(
        &mut self,
        net: &mut Net,
        cut: &Cut,
        pushed: ChunkId,
        data: &DataHeader,
        (chunk, offset, len): (ChunkId, u32, u16),
    ) {
        let chunk_len = cut.len(chunk);
        let in_place = chunk == data.chunk
            && offset == u32::from(data.packet_index) * u32::from(data.payload_size)
            && data.last == (offset + u32::from(len) == chunk_len)
            && data.final_chunk == cut.is_final(chunk)
            && data.attempt <= ATTEMPT_MAX;
        rule!(net, in_place, "headers say where data belongs", "{data:?}, {offset}+{len} of {chunk_len}");
        let credit = self.credit;
        rule!(
            net,
            chunk < pushed && chunk < credit,
            "nothing beyond credit",
            "{chunk} of {pushed}, {credit}"
        );
        let below = self.sent_below.entry(chunk).or_insert(0);
        self.repeated += u64::from(offset < *below);
        *below = (*below).max(offset + u32::from(len));
        if data.attempt > 0 && self.layouts.insert((chunk, data.attempt)) {
            self.relaid += u64::from(chunk_len.div_ceil(u32::from(data.payload_size)));
        }
    }

    /// Every packet sent beyond those that the object needs has a cause.
    pub(super) fn check_end(&self, net: &mut Net, stats: &SenderStats) {
        let SenderStats {
            packets_needed,
            packets_sent,
            packets_lost,
            packets_refused,
            packets_copied,
            packets_framed,
            packets_abandoned,
            packets_returned,
            ..
        } = *stats;
        let excused = packets_needed + self.relaid + packets_lost + packets_refused + packets_copied;
        let excused = excused + packets_abandoned + packets_returned;
        let sent = packets_sent + packets_framed;
        let waste_has_causes = !self.loss_driven || sent <= excused;
        rule!(net, waste_has_causes, "waste has its causes", "{sent} sent, {excused} excused");
    }

    /// Data packets beside first transmissions.
    pub(super) fn repeated(&self) -> u64 {
        self.repeated
    }
}
