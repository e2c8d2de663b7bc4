//! Which runs of a file's data are zeros and become holes (`--sparse`), as with rsync whatever the source
//! has.

/// What becomes of long runs of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zeros {
    /// They are written.
    Written,
    /// They are left out.
    Left,
}

/// The unit in which file systems allocate, bytes: a shorter hole saves nothing.
pub(super) const BLOCK: usize = 4096;

/// A part of the data, and its offset in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Run<'a> {
    Data(&'a [u8], u64),
    Zeros(u64, u64),
}

/// The data, at `offset` of its file, as runs: whole blocks of zeros, and what lies between them.
pub(super) fn runs(data: &[u8], offset: u64) -> impl Iterator<Item = Run<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let begin = at;
        let first = zeros_at(data, begin, offset);
        while at < data.len() && zeros_at(data, at, offset) == first {
            at = end_of_block(data, at, offset);
        }
        let place = offset + begin as u64;
        let run = &data[begin..at];
        match (run.is_empty(), first) {
            (true, _) => None,
            (false, true) => Some(Run::Zeros(run.len() as u64, place)),
            (false, false) => Some(Run::Data(run, place)),
        }
    })
}

/// Where the block of the file ends in which a byte of the data lies.
fn end_of_block(data: &[u8], at: usize, offset: u64) -> usize {
    let within = usize::try_from((offset + at as u64) % BLOCK as u64).unwrap_or(0);
    (at + BLOCK - within).min(data.len())
}

/// Whether a block of zeros begins at a byte of the data: a whole one, or what the data has of the last.
fn zeros_at(data: &[u8], at: usize, offset: u64) -> bool {
    let begins = (offset + at as u64).is_multiple_of(BLOCK as u64);
    let block = &data[at.min(data.len())..end_of_block(data, at, offset).max(at.min(data.len()))];
    begins && !block.is_empty() && block.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_of_zeros_are_runs() {
        let mut data = vec![0; 4 * BLOCK + 10];
        data[5] = 1;
        let found: Vec<Run<'_>> = runs(&data, 0).collect();
        let (block, len) = (BLOCK as u64, data.len());
        assert_eq!(found, [Run::Data(&data[..BLOCK], 0), Run::Zeros(3 * block + 10, block),]);
        // A last byte is enough for the last block to be data.
        data[len - 1] = 1;
        assert_eq!(runs(&data, 0).last(), Some(Run::Data(&data[len - 10..], 4 * block)));
        // A run that does not begin with a block is written up to the next one.
        let shifted: Vec<Run<'_>> = runs(&data[BLOCK..], 100).collect();
        assert_eq!(shifted[0], Run::Data(&data[BLOCK..2 * BLOCK - 100], 100));
        assert_eq!(runs(&[], 7).count(), 0);
    }

    proptest! {
        #[test]
        fn runs_are_all_of_the_data(
            pieces in prop::collection::vec((any::<bool>(), 1..3 * BLOCK), 0..6),
            offset in 0..3 * BLOCK as u64,
        ) {
            let data: Vec<u8> = pieces.iter().flat_map(|(is_zero, len)| vec![u8::from(!is_zero); *len]).collect();
            let mut made = Vec::new();
            for run in runs(&data, offset) {
                let (bytes, at) = match run {
                    Run::Data(bytes, at) => (bytes.to_vec(), at),
                    Run::Zeros(len, at) => (vec![0; usize::try_from(len).unwrap()], at),
                };
                prop_assert_eq!(at, offset + made.len() as u64);
                made.extend(bytes);
            }
            prop_assert_eq!(made, data);
        }
    }
}
