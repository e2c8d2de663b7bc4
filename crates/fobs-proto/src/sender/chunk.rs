//! The chunks a sender holds: from the first byte read until the receiver has verified them.

use super::carrier::Carrier;
use super::tally::{Tally, Unit};
use crate::object::{BLOCK_PACKETS, Bitmap, Geometry};
use crate::{ChunkId, PacketNumber, Timestamp};
use std::collections::VecDeque;

/// A chunk that the sender holds.
#[derive(Debug)]
pub(super) struct Chunk {
    len: u32,
    is_final: bool,
    attempt: u8,
    layout: Option<Layout>,
}

/// How a chunk is cut, and the state of its packets.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) geometry: Geometry,
    acked: Bitmap,
    /// First packet that was never sent under this layout.
    next_new: u32,
    /// The newest transmission of each packet.
    newest: Vec<Carrier>,
    /// A frame has carried some of them: blocks may then have no datagrams, and no outcome.
    framed: bool,
    /// Whole passes of the circular schedule, and where the next one stands.
    passes: u32,
    circle: u32,
    /// Of each block.
    tallies: Vec<Tally>,
}

impl Layout {
    fn new(geometry: Geometry) -> Layout {
        let packets = geometry.packets();
        Layout {
            geometry,
            acked: Bitmap::new(packets),
            next_new: 0,
            newest: vec![Carrier::NONE; packets as usize],
            framed: false,
            passes: 0,
            circle: 0,
            tallies: Tally::of_blocks(packets),
        }
    }

    fn tally(&mut self, index: u16) -> &mut Tally {
        &mut self.tallies[usize::from(index) / BLOCK_PACKETS as usize]
    }

    pub(super) fn is_acked(&self, index: u16) -> bool {
        self.acked.contains(u32::from(index))
    }

    pub(super) fn next_new(&self) -> Option<u16> {
        (self.next_new < self.geometry.packets()).then_some(self.next_new as u16)
    }

    /// The packet's newest transmission.
    pub(super) fn newest(&self, index: u16) -> Carrier {
        self.newest[usize::from(index)]
    }

    /// First packet at or above `from` that was sent, is not acknowledged, and that no frame carries.
    pub(super) fn next_unacked_sent(&self, mut from: u32) -> Option<u16> {
        if self.acked.is_full() {
            return None;
        }
        loop {
            let index = self.acked.next_clear(from).filter(|i| *i < self.next_new)?;
            if !self.newest[index as usize].is_frame() {
                return Some(index as u16);
            }
            from = index + 1;
        }
    }

    /// Outcomes of blocks say nothing where frames carried everything.
    fn has_outcome(&self, tally: &Tally) -> bool {
        tally.sent > 0 || !self.framed
    }
}

impl Chunk {
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn is_final(&self) -> bool {
        self.is_final
    }

    pub(super) fn attempt(&self) -> u8 {
        self.attempt
    }

    pub(super) fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    pub(super) fn is_acked(&self) -> bool {
        self.layout.as_ref().is_some_and(|l| l.acked.is_full())
    }

    /// Bytes that were never sent under the present layout.
    fn unsent(&self) -> u64 {
        let sent = self.layout.as_ref().map_or(0, |l| l.next_new * u32::from(l.geometry.payload_size()));
        u64::from(self.len.saturating_sub(sent))
    }
}

/// The chunks that the sender holds, ascending without gaps.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    base: ChunkId,
    chunks: VecDeque<Chunk>,
    /// Sum of what each chunk has unsent.
    unsent: u64,
    /// Outcomes of blocks and chunks, to be reported; bounded by the chunks held.
    outcomes: Vec<(Unit, Tally)>,
}

impl Chunks {
    /// Number of the next chunk to come.
    pub(super) fn end(&self) -> ChunkId {
        self.base + self.chunks.len() as u32
    }

    /// The oldest chunk held.
    pub(super) fn base(&self) -> ChunkId {
        self.base
    }

    pub(super) fn count(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes held that were never sent.
    pub(super) fn unsent(&self) -> u64 {
        self.unsent
    }

    pub(super) fn push(&mut self, len: u32, is_final: bool) -> ChunkId {
        self.unsent += u64::from(len);
        self.chunks.push_back(Chunk { len, is_final, attempt: 0, layout: None });
        self.end() - 1
    }

    pub(super) fn pop(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.base += 1;
        self.unsent -= chunk.unsent();
        // The receiver has verified packets that no ack has named: their outcome is reported late.
        if let Some(layout) = chunk.layout.as_ref().filter(|l| !l.acked.is_full()) {
            let open = layout.tallies.iter().filter(|t| t.missing > 0 && layout.has_outcome(t));
            self.outcomes.extend(open.map(|t| (Unit::Block, *t)));
            let whole = Tally::sum(&layout.tallies).filter(|t| layout.has_outcome(t));
            self.outcomes.extend(whole.map(|t| (Unit::Chunk, t)));
        }
        Some(chunk)
    }

    /// Blocks and chunks of which the receiver has every packet, each reported once.
    pub(super) fn take_outcomes(&mut self) -> Vec<(Unit, Tally)> {
        std::mem::take(&mut self.outcomes)
    }

    /// Whether a packet was sent by datagram whose arrival nothing has shown.
    pub(super) fn any_unanswered(&self) -> bool {
        self.chunks.iter().filter_map(Chunk::layout).any(|layout| layout.next_unacked_sent(0).is_some())
    }

    pub(super) fn get(&self, id: ChunkId) -> Option<&Chunk> {
        self.chunks.get(id.checked_sub(self.base)? as usize)
    }

    fn get_mut(&mut self, id: ChunkId) -> Option<&mut Chunk> {
        self.chunks.get_mut(id.checked_sub(self.base)? as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ChunkId, &Chunk)> {
        (self.base..).zip(self.chunks.iter())
    }

    /// Cuts a chunk that is not cut yet; the number of its packets if this was its first layout.
    pub(super) fn lay_out(&mut self, id: ChunkId, payload_size: u16) -> Option<u32> {
        let chunk = self.get_mut(id)?;
        if chunk.layout.is_some() {
            return None;
        }
        let geometry = Geometry::new(chunk.len, payload_size)?;
        chunk.layout = Some(Layout::new(geometry));
        (chunk.attempt == 0).then(|| geometry.packets())
    }

    /// Forgets a chunk's layout, so that it is cut and sent anew under the next attempt. False if the
    /// attempts are used up.
    pub(super) fn start_over(&mut self, id: ChunkId) -> bool {
        match self.get_mut(id) {
            Some(chunk) if chunk.attempt < crate::wire::ATTEMPT_MAX => {
                let sent = u64::from(chunk.len) - chunk.unsent();
                chunk.attempt += 1;
                chunk.layout = None;
                self.unsent += sent;
                true
            }
            _ => false,
        }
    }

    /// Another body takes a chunk's place, of which no packet has left under the present attempt. Returns the
    /// length of the one before.
    pub(super) fn replace(&mut self, id: ChunkId, len: u32) -> Option<u32> {
        let chunk = self.get_mut(id).filter(|chunk| chunk.layout.is_none())?;
        let before = std::mem::replace(&mut chunk.len, len);
        self.unsent = self.unsent - u64::from(before) + u64::from(len);
        Some(before)
    }

    /// `index` of the chunk is acknowledged, under this attempt.
    pub(super) fn on_acked(&mut self, id: ChunkId, index: u16, attempt: u8) {
        let Some(layout) = layout_of(&mut self.chunks, self.base, id, attempt) else { return };
        if u32::from(index) >= layout.next_new || !layout.acked.insert(u32::from(index)) {
            return;
        }
        let tally = layout.tally(index);
        tally.missing -= 1;
        if tally.missing == 0 {
            let block = Some(*tally).filter(|t| layout.has_outcome(t));
            self.outcomes.extend(block.map(|t| (Unit::Block, t)));
            if layout.acked.is_full() {
                let whole = Tally::sum(&layout.tallies).filter(|t| layout.has_outcome(t));
                self.outcomes.extend(whole.map(|t| (Unit::Chunk, t)));
            }
        }
    }

    /// A transmission of `index` was lost.
    pub(super) fn on_lost(&mut self, id: ChunkId, index: u16, attempt: u8) {
        if let Some(layout) = layout_of(&mut self.chunks, self.base, id, attempt) {
            layout.tally(index).lost += 1;
        }
    }

    /// A transmission that had been declared lost arrived after all.
    pub(super) fn on_late(&mut self, id: ChunkId, index: u16, attempt: u8) {
        if let Some(layout) = layout_of(&mut self.chunks, self.base, id, attempt) {
            let tally = layout.tally(index);
            tally.lost = tally.lost.saturating_sub(1);
        }
    }

    /// Records a transmission by datagram.
    pub(super) fn on_sent(&mut self, now: Timestamp, id: ChunkId, index: u16, number: PacketNumber) {
        if let Some(layout) = self.get_mut(id).and_then(|c| c.layout.as_mut()) {
            layout.tally(index).on_sent(now);
        }
        self.on_carried(id, index, Carrier::datagram(number));
    }

    /// Records a transmission by either way.
    pub(super) fn on_carried(&mut self, id: ChunkId, index: u16, carrier: Carrier) {
        let Some(layout) = self.get_mut(id).and_then(|c| c.layout.as_mut()) else { return };
        layout.newest[usize::from(index)] = carrier;
        layout.framed |= carrier.is_frame();
        if u32::from(index) >= layout.next_new {
            debug_assert_eq!(layout.next_new, u32::from(index), "packets are new in order");
            layout.next_new = u32::from(index) + 1;
            self.unsent -= u64::from(layout.geometry.packet_len(index));
        }
    }

    /// The chunk whose circular pass goes on: of the fewest passes, the oldest, among those with something
    /// unacknowledged.
    pub(super) fn least_passed(&self) -> Option<ChunkId> {
        let open = self.iter().filter_map(|(id, c)| Some((c.layout.as_ref()?, id)));
        open.filter(|(l, _)| l.next_unacked_sent(0).is_some())
            .min_by_key(|(l, id)| (l.passes, *id))
            .map(|(_, id)| id)
    }

    /// The next packet of a chunk's circular pass; `None` ends the pass.
    pub(super) fn circle(&mut self, id: ChunkId) -> Option<u16> {
        let layout = self.get_mut(id)?.layout.as_mut()?;
        let next = layout.next_unacked_sent(layout.circle);
        if next.is_none() {
            layout.passes += 1;
            layout.circle = 0;
        }
        next
    }

    /// The pass over a chunk has reached `index`.
    pub(super) fn on_circled(&mut self, id: ChunkId, index: u16) {
        if let Some(layout) = self.get_mut(id).and_then(|c| c.layout.as_mut()) {
            layout.circle = u32::from(index) + 1;
        }
    }

    /// Whether the loss of this transmission leaves the packet with none in flight.
    pub(super) fn needs_again(&self, id: ChunkId, index: u16, attempt: u8, carrier: Carrier) -> bool {
        match self.get(id) {
            Some(Chunk { attempt: current, layout: Some(layout), .. }) if *current == attempt => {
                !layout.is_acked(index) && layout.newest(index) == carrier
            }
            _ => false,
        }
    }
}

/// The layout of a chunk, if it is still that of `attempt`.
fn layout_of(chunks: &mut VecDeque<Chunk>, base: ChunkId, id: ChunkId, attempt: u8) -> Option<&mut Layout> {
    let chunk = chunks.get_mut(id.checked_sub(base)? as usize)?;
    chunk.layout.as_mut().filter(|_| chunk.attempt == attempt)
}
