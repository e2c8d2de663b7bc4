//! The last bytes of one direction of a pipe: those that the other end has not confirmed can be sent again
//! over another connection.

use std::collections::VecDeque;

/// Bytes of one piece: few enough that little is kept beyond what is unconfirmed, many enough that their
/// number does not matter.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that are kept for use: fresh pages cost more than the copy (10 us each).
const SPARE_MAX: usize = 64;

/// Bytes by their positions in the stream.
#[derive(Default)]
pub(crate) struct Kept {
    /// All but the last one are full.
    pieces: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    /// The position of the first byte of the first piece.
    start: u64,
    /// The position of the first byte that is wanted.
    from: u64,
    /// That behind the last one.
    to: u64,
}

impl Kept {
    /// Nothing, before the byte at this position.
    pub(crate) fn at(at: u64) -> Kept {
        Kept { start: at, from: at, to: at, ..Kept::default() }
    }

    /// The position of the first byte that is kept.
    pub(crate) fn from(&self) -> u64 {
        self.from
    }

    /// The position behind the last one.
    pub(crate) fn to(&self) -> u64 {
        self.to
    }

    /// Bytes that are kept.
    pub(crate) fn len(&self) -> u64 {
        self.to - self.from
    }

    /// Adds what follows.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        self.to += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.pieces.back().is_none_or(|piece| piece.len() == PIECE_BYTES) {
                let fresh = || Vec::with_capacity(PIECE_BYTES);
                self.pieces.push_back(self.spare.pop().unwrap_or_else(fresh));
            }
            let Some(piece) = self.pieces.back_mut() else { return };
            let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - piece.len()));
            piece.extend_from_slice(now);
            bytes = later;
        }
    }

    /// Passes over what follows.
    pub(crate) fn pass(&mut self, count: u64) {
        self.forget(self.to);
        self.pieces.clear();
        self.to += count;
        (self.start, self.from) = (self.to, self.to);
    }

    /// Copies bytes from `at` on; how many.
    pub(crate) fn copy(&self, at: u64, room: &mut [u8]) -> usize {
        let mut copied = 0;
        while copied < room.len() {
            let at = at + copied as u64;
            if at < self.from || at >= self.to {
                break;
            }
            let offset = at - self.start;
            let (index, within) = (offset / PIECE_BYTES as u64, (offset % PIECE_BYTES as u64) as usize);
            let Some(piece) = usize::try_from(index).ok().and_then(|index| self.pieces.get(index)) else {
                break;
            };
            let count = (piece.len() - within).min(room.len() - copied);
            room[copied..copied + count].copy_from_slice(&piece[within..within + count]);
            copied += count;
        }
        copied
    }

    /// What is before this position is wanted no more. Positions that are not kept change nothing more.
    pub(crate) fn forget(&mut self, before: u64) {
        self.from = self.from.max(before.min(self.to));
        while self.from - self.start >= PIECE_BYTES as u64 {
            let Some(mut piece) = self.pieces.pop_front() else { break };
            self.start += piece.len() as u64;
            if self.spare.len() < SPARE_MAX {
                piece.clear();
                self.spare.push(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(at: u64) -> u8 {
        (at % 251) as u8
    }

    #[test]
    fn what_is_kept_is_what_was_pushed_wherever_it_is_read() {
        let mut random = 1_u64;
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut kept = Kept::default();
        for step in 0..200 {
            match next(4) {
                0 | 1 => {
                    let count = next(700_000);
                    let bytes: Vec<u8> = (kept.to()..kept.to() + count).map(byte).collect();
                    kept.push(&bytes);
                }
                2 => {
                    let span = kept.len() + 10;
                    kept.forget(kept.from() + next(span));
                }
                _ if next(20) == 0 => kept.pass(next(1_000_000)),
                _ => {}
            }
            let at = kept.from() + next(kept.len() + 1);
            let mut room = vec![0; 1 + next(600_000) as usize];
            let count = kept.copy(at, &mut room);
            assert_eq!(count as u64, (kept.to() - at).min(room.len() as u64), "step {step}");
            assert!(room[..count].iter().zip(at..).all(|(&read, at)| read == byte(at)), "step {step}");
            if kept.len() > 8 << 20 {
                kept.forget(kept.to() - 1000);
            }
            let held = kept.pieces.len() * PIECE_BYTES;
            assert!(held as u64 <= kept.len() + 2 * PIECE_BYTES as u64, "step {step}: {held}");
        }
    }

    #[test]
    fn positions_outside_give_nothing() {
        let mut kept = Kept::default();
        kept.push(&[1; 10]);
        kept.forget(4);
        kept.forget(2);
        kept.forget(u64::MAX);
        assert_eq!((kept.from(), kept.to(), kept.len()), (10, 10, 0));
        kept.push(&[2; 3]);
        let mut room = [0; 20];
        assert_eq!(
            (kept.copy(9, &mut room), kept.copy(13, &mut room), kept.copy(u64::MAX, &mut room)),
            (0, 0, 0)
        );
        assert_eq!((kept.copy(11, &mut room), room[..2].to_vec()), (2, vec![2, 2]));
    }
}
