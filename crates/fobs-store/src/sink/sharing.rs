//! Data that stands in a basis already: the new file shares its blocks where the file system can.

use rustix::io::Errno;

use crate::delta::{Copied, Offers};
use crate::temporary::TemporaryFile;

/// What file systems share, bytes, at the least. Where a block is longer, the kernel copies.
const BLOCK: u64 = 4096;
/// Shorter runs are written: to share them costs more.
const RUN_MIN: u64 = 64 << 10;

/// Where data comes from.
pub(super) struct Origins<'o> {
    offers: &'o Offers,
    copied: &'o [Copied],
    /// Where in the chunk's data the next extent begins.
    at: usize,
}

impl<'o> Origins<'o> {
    /// Of a chunk of which this was copied.
    pub(super) fn of(offers: &'o Offers, copied: &'o [Copied]) -> Origins<'o> {
        Origins { offers, copied, at: 0 }
    }

    /// An extent of this length was taken care of.
    pub(super) fn pass(&mut self, len: usize) {
        self.at += len;
    }

    /// Whether all of the extent stands at the same place in the basis of a row.
    pub(super) fn are_of(&self, row: u64, offset: u64, len: usize) -> bool {
        let is_it = |copied: &Copied| {
            let from = copied.from.checked_add(self.at.wrapping_sub(copied.at) as u64);
            (copied.row, from) == (row, Some(offset))
                && copied.at <= self.at
                && self.at + len <= copied.at + copied.len
        };
        self.copied.iter().any(is_it)
    }

    /// Writes an extent at `offset` of a file.
    pub(super) fn write(&self, file: &TemporaryFile, data: &[u8], offset: u64) -> Result<(), Errno> {
        let mut written = 0;
        for copied in self.copied {
            let begin = copied.at.max(self.at);
            let end = (copied.at + copied.len).min(self.at + data.len());
            if begin >= end {
                continue;
            }
            let from = copied.from + (begin - copied.at) as u64;
            let (begin, end) = (begin - self.at, end - self.at);
            let Some((skipped, len)) = whole_blocks(from, offset + begin as u64, (end - begin) as u64) else {
                continue;
            };
            let basis = self.offers.basis(copied.row).filter(|basis| basis.shares());
            let Some(basis) = basis.and_then(|basis| basis.file()) else { continue };
            // Both are within the chunk.
            let first = begin + skipped as usize;
            file.write(&data[written..first], offset + written as u64)?;
            let shared = file.share(&basis, from + skipped, offset + first as u64, len as usize);
            written = first + shared;
        }
        if written < data.len() || data.is_empty() {
            file.write(&data[written..], offset + written as u64)?;
        }
        Ok(())
    }
}

/// What of `len` bytes lies in whole blocks at both places: how many bytes before, and how many; none if too
/// little does.
fn whole_blocks(from: u64, to: u64, len: u64) -> Option<(u64, u64)> {
    if from % BLOCK != to % BLOCK {
        return None;
    }
    let skipped = (BLOCK - from % BLOCK) % BLOCK;
    let whole = len.checked_sub(skipped)? / BLOCK * BLOCK;
    (whole >= RUN_MIN).then_some((skipped, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_are_those_of_both_files() {
        let run = RUN_MIN;
        for (from, to, len, expected) in [
            (0, 0, run, Some((0, run))),
            (0, BLOCK, run + 5, Some((0, run))),
            (BLOCK - 1, 3 * BLOCK - 1, run + 1, Some((1, run))),
            (1, BLOCK + 1, run + BLOCK - 1, Some((BLOCK - 1, run))),
            (1, BLOCK + 1, run + BLOCK - 2, None),
            (1, 2, 2 * run, None),
            (5, 5, 3, None),
            (0, 0, run - 1, None),
        ] {
            assert_eq!(whole_blocks(from, to, len), expected, "{from} {to} {len}");
        }
    }
}
