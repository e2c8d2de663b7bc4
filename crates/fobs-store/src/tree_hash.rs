//! Hashing of extents as rows of whole BLAKE3 subtrees (protocol 7.3), so that a file's root is the standard
//! BLAKE3 hash of its content and no side hashes a byte twice.
//!
//! An extent is cut into the largest subtrees that it contains whole: each starts at a multiple of its own
//! length, a power of two; only the piece that ends its file may be shorter. A file's root must come out of a
//! *root* finalisation, so an extent that is its whole file is hashed as root directly, and an extent that
//! begins a file without ending it is cut into at least two pieces. The row of values is merged as in section
//! 2.1 of the BLAKE3 paper: a value waits on a stack until its sibling is complete, and one more, because the
//! very last merge is the root's.

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// Where extents may start, bytes: a file's offset is always a multiple of it (protocol 7.3). 64 BLAKE3
/// chunks: enough for its widest SIMD, small enough to fill chunks well.
pub const GROUP: u64 = 64 << 10;

/// Most values waiting for a merge: one per bit of the number of 1 KiB BLAKE3 chunks in 2^63 bytes, and one.
const STACK_MAX: usize = 54;

/// Whether an extent is the last of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// The file ends with it.
    EndsFile,
    /// More may follow; whether it does is not known yet.
    Continues,
}

/// The lengths of the pieces that an extent is cut into, in order. `offset` is a multiple of [`GROUP`], and
/// so is `len` where the file continues; the sum never overflows (`Record` and `chunk::Items` see to it).
pub fn pieces(offset: u64, len: u64, tail: Tail) -> Pieces {
    Pieces { at: offset, end: offset + len, tail }
}

/// The rest of an extent's pieces.
#[derive(Debug, Clone)]
pub struct Pieces {
    at: u64,
    end: u64,
    tail: Tail,
}

impl Iterator for Pieces {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let (at, left) = (self.at, self.end - self.at);
        let piece = match (left, self.tail) {
            (0, _) => return None,
            (_, Tail::EndsFile) if at == 0 => left,
            (_, Tail::EndsFile) => left.min(alignment(at)),
            // At least two pieces, so that a merge makes the file's root.
            (_, Tail::Continues) if at == 0 && left.is_power_of_two() => left / 2,
            (_, Tail::Continues) => alignment(at).min(1 << left.ilog2()),
        };
        self.at += piece;
        Some(piece)
    }
}

/// The largest power of two that divides `offset`: the longest subtree that may start there.
fn alignment(offset: u64) -> u64 {
    match offset {
        0 => 1 << 63,
        _ => 1 << offset.trailing_zeros(),
    }
}

/// Hashes an extent and appends the values of its pieces: one root hash if it is the whole file, otherwise
/// chaining values.
pub fn hash_extent(data: &[u8], offset: u64, tail: Tail, values: &mut Vec<ChainingValue>) {
    let mut hasher = ExtentHasher::new(offset, data.len() as u64, tail);
    hasher.update(data);
    values.append(&mut hasher.finish().expect("the whole extent was given"));
}

/// Hashes an extent part by part, while each part is in the CPU's cache.
pub struct ExtentHasher {
    pieces: Pieces,
    values: Vec<ChainingValue>,
    /// The current piece, and the bytes that it still lacks.
    hasher: Hasher,
    lacks: u64,
    at: u64,
    whole_file: bool,
}

impl ExtentHasher {
    /// For `len` bytes at `offset`.
    pub fn new(offset: u64, len: u64, tail: Tail) -> ExtentHasher {
        let mut pieces = pieces(offset, len, tail);
        ExtentHasher {
            lacks: pieces.next().unwrap_or(0),
            pieces,
            values: Vec::new(),
            hasher: hasher_at(offset),
            at: offset,
            whole_file: offset == 0 && tail == Tail::EndsFile,
        }
    }

    /// Hashes the next part; bytes beyond the announced length are ignored.
    pub fn update(&mut self, mut data: &[u8]) {
        while !data.is_empty() && self.lacks > 0 {
            let (now, later) = data.split_at(self.lacks.min(data.len() as u64) as usize);
            self.hasher.update(now);
            self.at += now.len() as u64;
            self.lacks -= now.len() as u64;
            data = later;
            if self.lacks == 0 {
                self.end_piece();
            }
        }
    }

    /// The values, if the announced length was reached.
    pub fn finish(mut self) -> Option<Vec<ChainingValue>> {
        // The empty file is one empty piece.
        if self.whole_file && self.values.is_empty() && self.lacks == 0 {
            self.end_piece();
        }
        (self.lacks == 0).then_some(self.values)
    }

    fn end_piece(&mut self) {
        self.values.push(if self.whole_file {
            *self.hasher.finalize().as_bytes()
        } else {
            self.hasher.finalize_non_root()
        });
        if let Some(len) = self.pieces.next() {
            self.lacks = len;
            self.hasher = hasher_at(self.at);
        }
    }
}

fn hasher_at(offset: u64) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(offset);
    hasher
}

/// The tree of a file as far as it is hashed. Bounded by [`STACK_MAX`] values whatever the file's size.
#[derive(Debug, Clone, Default)]
pub struct FileTree {
    len: u64,
    stack: Vec<ChainingValue>,
    /// Set where one extent was the whole file.
    root: Option<[u8; 32]>,
}

impl FileTree {
    /// Bytes hashed so far: where the next extent starts.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Takes the values of the next extent, of `len` bytes, from `values`. `None` if there are too few.
    pub fn extend(
        &mut self,
        len: u64,
        tail: Tail,
        values: &mut impl Iterator<Item = ChainingValue>,
    ) -> Option<()> {
        if self.len == 0 && tail == Tail::EndsFile {
            self.root = Some(values.next()?);
            self.len = len;
            return Some(());
        }
        for piece in pieces(self.len, len, tail) {
            let value = values.next()?;
            // Complete siblings are merged before this piece is pushed and not after, so that the very last
            // merge is left for `root`. 1024 is the BLAKE3 chunk.
            while self.stack.len() > (self.len / 1024).count_ones() as usize {
                self.merge_top();
            }
            self.stack.push(value);
            self.len += piece;
            debug_assert!(self.stack.len() <= STACK_MAX);
        }
        Some(())
    }

    /// The tree of the first `len` bytes of a file, from what [`FileTree::stack`] returned. `None` if it
    /// cannot be one.
    pub fn resume(len: u64, stack: Vec<ChainingValue>) -> Option<FileTree> {
        let fits = len > 0 && len.is_multiple_of(GROUP) && len <= i64::MAX as u64;
        (fits && stack.len() == values_waiting(len)).then_some(FileTree { len, stack, root: None })
    }

    /// The values that stand for the bytes hashed so far, from which [`FileTree::resume`] goes on. `None`
    /// unless a whole number of groups was hashed, and one at least.
    pub fn stack(&self) -> Option<Vec<ChainingValue>> {
        if self.len == 0 || !self.len.is_multiple_of(GROUP) || self.root.is_some() {
            return None;
        }
        let mut tree = self.clone();
        while tree.stack.len() > values_waiting(self.len) {
            tree.merge_top();
        }
        Some(tree.stack)
    }

    /// The standard BLAKE3 hash of the file, now that it is complete.
    pub fn root(mut self) -> [u8; 32] {
        if let Some(root) = self.root {
            return root;
        }
        while self.stack.len() > 2 {
            self.merge_top();
        }
        match self.stack[..] {
            [left, right] => *merge_subtrees_root(&left, &right, Mode::Hash).as_bytes(),
            // No extent: the empty file. A single value does not occur, as `pieces` makes two or a root.
            _ => *blake3::hash(b"").as_bytes(),
        }
    }

    fn merge_top(&mut self) {
        if let (Some(right), Some(left)) = (self.stack.pop(), self.stack.pop()) {
            self.stack.push(merge_subtrees_non_root(&left, &right, Mode::Hash));
        }
    }
}

/// Values on the stack of a tree of `len` bytes when all complete siblings are merged but the two that may be
/// the root's: one for each bit of the length.
fn values_waiting(len: u64) -> usize {
    (len.count_ones() as usize).max(2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    /// The root by way of extents that end at `cuts`; `known_end`: whether the last one knows that it is.
    fn root_in_extents(data: &[u8], cuts: &[u64], known_end: bool) -> [u8; 32] {
        let mut tree = FileTree::default();
        let ends = cuts.iter().copied().filter(|&cut| cut < data.len() as u64).chain([data.len() as u64]);
        for end in ends {
            let start = tree.len();
            if start == end {
                continue;
            }
            let tail = if end == data.len() as u64 && known_end { Tail::EndsFile } else { Tail::Continues };
            let mut values = Vec::new();
            hash_extent(&data[start as usize..end as usize], start, tail, &mut values);
            assert!(values.len() < 16, "{start}..{end} in {} pieces", values.len());
            let mut values = values.into_iter();
            tree.extend(end - start, tail, &mut values).expect("enough values");
            assert_eq!(values.next(), None, "no value is left over");
        }
        tree.root()
    }

    #[test]
    fn a_whole_aligned_chunk_is_one_piece() {
        let chunk = 4 << 20;
        assert_eq!(pieces(chunk, chunk, Tail::Continues).collect::<Vec<_>>(), [chunk]);
        assert_eq!(pieces(0, chunk, Tail::Continues).collect::<Vec<_>>(), [chunk / 2, chunk / 2]);
        assert_eq!(pieces(0, 5, Tail::EndsFile).collect::<Vec<_>>(), [5]);
        assert_eq!(pieces(chunk, 70_000, Tail::EndsFile).collect::<Vec<_>>(), [70_000]);
        assert_eq!(pieces(GROUP, 3 * GROUP, Tail::Continues).collect::<Vec<_>>(), [GROUP, 2 * GROUP]);
    }

    #[test]
    fn every_size_near_a_boundary_has_the_standard_root() {
        let data = content(10 * GROUP as usize);
        for boundary in [0, 1, 2, 3, 4, 5, 7, 8, 9] {
            for delta in [-1025, -1024, -1, 0, 1, 1023, 1024, 1025] {
                let len = boundary * GROUP as i64 + delta;
                let Some(data) = usize::try_from(len).ok().and_then(|len| data.get(..len)) else { continue };
                let expected = *blake3::hash(data).as_bytes();
                let each_group: Vec<u64> = (1..10).map(|i| i * GROUP).collect();
                assert_eq!(root_in_extents(data, &[], true), expected, "one extent of {len}");
                assert_eq!(root_in_extents(data, &each_group, true), expected, "groups of {len}");
                if (len as u64).is_multiple_of(GROUP) {
                    assert_eq!(root_in_extents(data, &[], false), expected, "late end of {len}");
                    assert_eq!(
                        root_in_extents(data, &each_group, false),
                        expected,
                        "groups, late end, {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn offsets_near_the_largest_file_do_not_overflow() {
        let end = i64::MAX as u64 / GROUP * GROUP;
        assert_eq!(pieces(end - 3 * GROUP, 3 * GROUP, Tail::Continues).sum::<u64>(), 3 * GROUP);
        assert!(pieces(0, 1 << 62, Tail::Continues).count() == 2);
        let mut values = Vec::new();
        hash_extent(&[7; GROUP as usize], end - GROUP, Tail::Continues, &mut values);
        assert_eq!(values.len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn an_extent_may_come_in_parts_but_must_come_whole(
            groups in 0_u64..40,
            len in 1_usize..(10 * GROUP as usize),
            cuts in prop::collection::btree_set(0_usize..(10 * GROUP as usize), 0..6),
            ends_file: bool,
        ) {
            let tail = if ends_file { Tail::EndsFile } else { Tail::Continues };
            let (offset, len) = (groups * GROUP, if ends_file { len } else { len.next_multiple_of(GROUP as usize) });
            let data = content(len);
            let mut expected = Vec::new();
            hash_extent(&data, offset, tail, &mut expected);
            let mut hasher = ExtentHasher::new(offset, len as u64, tail);
            let mut at = 0;
            for cut in cuts.into_iter().filter(|&cut| cut < len).chain([len]) {
                hasher.update(&data[at..cut]);
                at = cut;
            }
            prop_assert_eq!(hasher.finish(), Some(expected));
            let mut short = ExtentHasher::new(offset, len as u64, tail);
            short.update(&data[1..]);
            prop_assert_eq!(short.finish(), None);
        }

        #[test]
        fn a_tree_resumed_at_any_group_has_the_standard_root(
            len in 1_usize..(40 * GROUP as usize),
            cuts in prop::collection::btree_set(1_u64..40, 1..12),
        ) {
            let data = content(len);
            let mut tree = FileTree::default();
            let cuts = cuts.iter().map(|cut| cut * GROUP).filter(|&cut| cut < len as u64);
            for end in cuts.chain([len as u64]) {
                let start = tree.len();
                let tail = if end == len as u64 { Tail::EndsFile } else { Tail::Continues };
                let mut values = Vec::new();
                hash_extent(&data[start as usize..end as usize], start, tail, &mut values);
                tree.extend(end - start, tail, &mut values.into_iter()).expect("enough values");
                if tail == Tail::Continues {
                    let stack = tree.stack().expect("a whole number of groups");
                    prop_assert!(FileTree::resume(end, stack[1..].to_vec()).is_none());
                    prop_assert!(FileTree::resume(end + 1, stack.clone()).is_none());
                    tree = FileTree::resume(end, stack).expect("its own stack");
                }
            }
            prop_assert_eq!(tree.root(), *blake3::hash(&data).as_bytes());
        }

        #[test]
        fn any_legal_cuts_give_the_standard_root(
            len in 0_usize..(40 * GROUP as usize),
            cuts in prop::collection::btree_set(1_u64..40, 0..12),
            known_end: bool,
        ) {
            let data = content(len);
            let cuts: Vec<u64> = cuts.into_iter().map(|cut| cut * GROUP).collect();
            // An end that is not on a group's boundary is always known.
            let known_end = known_end || !(len as u64).is_multiple_of(GROUP);
            prop_assert_eq!(root_in_extents(&data, &cuts, known_end), *blake3::hash(&data).as_bytes());
        }
    }
}
