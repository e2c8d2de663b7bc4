//! Transmissions and losses of a block, for controllers that decide per block or chunk (`seeds/004`
//! section 2.2).

use crate::Timestamp;
use crate::object::BLOCK_PACKETS;

/// The unit that a tally counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Block,
    Chunk,
}

/// Counts of one block, or summed over a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    /// When the first packet left.
    pub(super) began: Timestamp,
    /// Transmissions.
    pub(super) sent: u32,
    /// Transmissions that were lost.
    pub(super) lost: u32,
    /// Packets not acknowledged.
    pub(super) missing: u32,
}

impl Tally {
    /// Empty tallies of the blocks of a chunk of `packets`.
    pub(super) fn of_blocks(packets: u32) -> Vec<Tally> {
        let blocks = 0..packets.div_ceil(BLOCK_PACKETS);
        blocks
            .map(|block| Tally {
                began: Timestamp::ZERO,
                sent: 0,
                lost: 0,
                missing: (packets - block * BLOCK_PACKETS).min(BLOCK_PACKETS),
            })
            .collect()
    }

    /// A packet left.
    pub(super) fn on_sent(&mut self, now: Timestamp) {
        if self.sent == 0 {
            self.began = now;
        }
        self.sent = self.sent.saturating_add(1);
    }

    /// All blocks of a chunk together; `None` if there are none.
    pub(super) fn sum(tallies: &[Tally]) -> Option<Tally> {
        tallies.iter().copied().reduce(|a, b| Tally {
            began: a.began.min(b.began),
            sent: a.sent.saturating_add(b.sent),
            lost: a.lost.saturating_add(b.lost),
            missing: a.missing + b.missing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::chunk::Chunks;

    #[test]
    fn blocks_and_chunks_are_reported_once() {
        let packets = BLOCK_PACKETS + 10;
        let mut chunks = Chunks::default();
        let id = chunks.push(packets * 512, true);
        chunks.lay_out(id, 512);
        let at = |ms| Timestamp::from_nanos(ms * 1_000_000);
        for i in 0..packets as u16 {
            chunks.on_sent(at(u64::from(i)), id, i, u64::from(i));
        }
        // Two packets of the second block are lost and sent again; one of the losses was none.
        for i in [BLOCK_PACKETS as u16, BLOCK_PACKETS as u16 + 1] {
            chunks.on_lost(id, i, 0);
            chunks.on_sent(at(9000), id, i, 9000 + u64::from(i));
        }
        chunks.on_late(id, BLOCK_PACKETS as u16, 0);
        for i in 0..BLOCK_PACKETS as u16 {
            chunks.on_acked(id, i, 0);
            chunks.on_acked(id, i, 0);
        }
        let first = Tally { began: at(0), sent: BLOCK_PACKETS, lost: 0, missing: 0 };
        assert_eq!(chunks.take_outcomes(), [(Unit::Block, first)]);
        for i in BLOCK_PACKETS as u16..packets as u16 {
            chunks.on_acked(id, i, 0);
        }
        let second = Tally { began: at(u64::from(BLOCK_PACKETS)), sent: 12, lost: 1, missing: 0 };
        let whole = Tally { began: at(0), sent: packets + 2, lost: 1, missing: 0 };
        assert_eq!(chunks.take_outcomes(), [(Unit::Block, second), (Unit::Chunk, whole)]);
        chunks.pop();
        assert_eq!(chunks.take_outcomes(), []);
    }

    #[test]
    fn a_chunk_whose_acks_were_lost_is_reported_when_verified() {
        let mut chunks = Chunks::default();
        let id = chunks.push(5120, true);
        chunks.lay_out(id, 512);
        for i in 0..10 {
            chunks.on_sent(Timestamp::ZERO, id, i, u64::from(i));
        }
        chunks.on_acked(id, 3, 0);
        chunks.pop();
        let tally = Tally { began: Timestamp::ZERO, sent: 10, lost: 0, missing: 9 };
        assert_eq!(chunks.take_outcomes(), [(Unit::Block, tally), (Unit::Chunk, tally)]);
    }
}
