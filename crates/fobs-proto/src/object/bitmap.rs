//! A dense set of small numbers: which packets of a chunk have arrived or were acknowledged.

/// Bits `0..len`, all clear at first. 64 to a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    len: u32,
    ones: u32,
}

impl Bitmap {
    /// `len` clear bits.
    pub fn new(len: u32) -> Bitmap {
        Bitmap { words: vec![0; len.div_ceil(64) as usize], len, ones: 0 }
    }

    /// How many bits there are.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no bits at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bits are set.
    pub fn count_ones(&self) -> u32 {
        self.ones
    }

    /// Whether every bit is set.
    pub fn is_full(&self) -> bool {
        self.ones == self.len
    }

    /// Bit `i`; false past the end.
    pub fn contains(&self, i: u32) -> bool {
        i < self.len && self.words[(i / 64) as usize] >> (i % 64) & 1 == 1
    }

    /// Sets bit `i`; whether it was clear. Past the end nothing happens.
    pub fn insert(&mut self, i: u32) -> bool {
        if i >= self.len || self.contains(i) {
            return false;
        }
        self.words[(i / 64) as usize] |= 1 << (i % 64);
        self.ones += 1;
        true
    }

    /// Clears all.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.ones = 0;
    }

    /// The lowest clear bit at or above `from`.
    pub fn next_clear(&self, from: u32) -> Option<u32> {
        let mut word = (from / 64) as usize;
        let mut mask = u64::MAX << (from % 64);
        while word < self.words.len() {
            let clear = !self.words[word] & mask;
            if clear != 0 {
                let i = word as u32 * 64 + clear.trailing_zeros();
                return (i < self.len).then_some(i);
            }
            mask = u64::MAX;
            word += 1;
        }
        None
    }

    /// The highest set bit.
    pub fn highest(&self) -> Option<u32> {
        let word = self.words.iter().rposition(|w| *w != 0)?;
        Some(word as u32 * 64 + 63 - self.words[word].leading_zeros())
    }

    /// Appends bits `from..from + count` as bytes, bit `i` of the slice in bit `i mod 8` of byte `i / 8`;
    /// `from` is a multiple of 8. Bits past the end are clear.
    pub fn write_bytes(&self, from: u32, count: u32, out: &mut Vec<u8>) {
        debug_assert_eq!(from % 8, 0);
        for byte in 0..count.div_ceil(8) {
            let bit = from + byte * 8;
            let word = self.words.get((bit / 64) as usize).copied().unwrap_or(0);
            out.push((word >> (bit % 64)) as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_as_a_set(len in 0u32..700, ops in prop::collection::vec(0u32..800, 0..400), from in 0u32..720) {
            let mut bitmap = Bitmap::new(len);
            let mut model = BTreeSet::new();
            for i in ops {
                let new = i < len && model.insert(i);
                prop_assert_eq!(bitmap.insert(i), new);
                prop_assert!(i >= len || bitmap.contains(i));
            }
            prop_assert_eq!(bitmap.count_ones() as usize, model.len());
            prop_assert_eq!(bitmap.is_full(), model.len() == len as usize);
            prop_assert_eq!(bitmap.next_clear(from), (from..len).find(|i| !model.contains(i)));
            prop_assert_eq!(bitmap.highest(), model.last().copied());
            let mut bytes = Vec::new();
            bitmap.write_bytes(0, len, &mut bytes);
            prop_assert_eq!(bytes.len(), len.div_ceil(8) as usize);
            for i in 0..len {
                prop_assert_eq!(bytes[(i / 8) as usize] >> (i % 8) & 1 == 1, model.contains(&i));
            }
            bitmap.clear();
            prop_assert_eq!(bitmap, Bitmap::new(len));
        }
    }
}
