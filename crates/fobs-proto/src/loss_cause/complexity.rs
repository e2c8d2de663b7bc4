//! C1, first-order complexity: the number of different words in a signature (001 section 3.1.1, after
//! d'Alessandro and Politi).
//!
//! The paper prints C1 = lim log2(Na(n)) / 2, which is 8.5 for a random string, while its text requires 1. We
//! read the divisor as n: C1 = log2(Na(n)) / n. One solid block of losses then has log2(34)/17 = 0.299,
//! isolated losses far apart log2(18)/17 = 0.245.
//!
//! The paper inserts words into a binary tree: 21 ns a packet on our hardware. A bitmap of all 2^17 words is
//! cheaper, and a stretch of equal packets longer than a word adds no new word. The cost grows with runs, not
//! packets, while runs are far apart (`cargo bench -p fobs-proto --bench loss_cause`).

use super::Signature;
use crate::math;

/// Word length, packets; longer words gain little (001 section 3.1.3).
pub const WORD_LEN: u32 = 17;

/// 64-bit slots of the bitmap of words.
const SLOTS: usize = 1 << (WORD_LEN - 6);
/// Packets for each run below which reading every packet is cheaper than reading the ends of runs (measured).
const DENSE_RUNS: u32 = 16;

/// Counts the different words of signatures. Keeps a bitmap of 16 KiB for reuse.
#[derive(Debug, Clone)]
pub struct WordCounter {
    /// One bit for each word that occurs; all clear between windows.
    seen: Box<[u64]>,
    /// Indices of the slots that are not clear.
    touched: Vec<u16>,
    /// The packets of a window with dense runs, one bit each: 1 is received.
    packets: Vec<u64>,
}

impl Default for WordCounter {
    fn default() -> WordCounter {
        WordCounter::new()
    }
}

impl WordCounter {
    /// A counter for words of up to [`WORD_LEN`] packets.
    pub fn new() -> WordCounter {
        WordCounter {
            seen: vec![0; SLOTS].into_boxed_slice(),
            touched: Vec::with_capacity(SLOTS),
            packets: Vec::new(),
        }
    }

    /// C1 with words of [`WORD_LEN`] packets: 0 for a window without loss or shorter than a word, near 1 for
    /// random loss.
    pub fn complexity(&mut self, signature: &Signature) -> f64 {
        math::log2(f64::from(self.words(signature, WORD_LEN).max(1))) / f64::from(WORD_LEN)
    }

    /// Na: the number of different words of `len` packets, which is clamped to 1 to [`WORD_LEN`].
    pub fn words(&mut self, signature: &Signature, len: u32) -> u32 {
        let len = len.clamp(1, WORD_LEN);
        if signature.packets() < len {
            return 0;
        }
        if signature.runs().len() as u64 * u64::from(DENSE_RUNS) > u64::from(signature.packets()) {
            self.words_of_packets(signature, len)
        } else {
            self.words_of_runs(signature, len)
        }
    }

    /// Counts words at the ends of runs only.
    fn words_of_runs(&mut self, signature: &Signature, len: u32) -> u32 {
        let mut window = Window { counter: self, len, word: 0, missing: len - 1 };
        let mut position = 0;
        for run in signature.runs() {
            window.push(1, run.start - position);
            window.push(0, run.len);
            position = run.end();
        }
        window.push(1, signature.packets() - position);
        let count = self.touched.iter().map(|slot| self.seen[usize::from(*slot)].count_ones()).sum();
        self.touched.drain(..).for_each(|slot| self.seen[usize::from(slot)] = 0);
        count
    }

    /// Counts words at every packet, without branches. The first packet of a word is its lowest bit: all
    /// words are mirrored, which does not change their number.
    fn words_of_packets(&mut self, signature: &Signature, len: u32) -> u32 {
        let packets = signature.packets() as usize;
        self.packets.clear();
        // One slot more than needed: the last word may end in it.
        self.packets.resize(packets / 64 + 2, u64::MAX);
        for run in signature.runs() {
            clear_bits(&mut self.packets, run.start as usize, run.end() as usize);
        }
        let mask = (1u64 << len) - 1;
        let words = packets - len as usize + 1;
        let Ok(seen) = <&mut [u64; SLOTS]>::try_from(&mut self.seen[..]) else {
            return 0; // not reached: the bitmap has SLOTS slots
        };
        let mut see = |word: u64| seen[(word / 64) as usize % SLOTS] |= 1 << (word % 64);
        for (index, pair) in self.packets.windows(2).enumerate().take(words.div_ceil(64)) {
            // 32 words begin in each half of 64 bits, so a shift by a constant extracts each word.
            let halves = [pair[0], pair[0] >> 32 | pair[1] << 32];
            match words - index * 64 {
                64.. => halves.iter().for_each(|half| (0..32).for_each(|shift| see(half >> shift & mask))),
                left => (0..left).for_each(|shift| see(halves[shift / 32] >> (shift % 32) & mask)),
            }
        }
        let used = &mut self.seen[..(1usize << len).div_ceil(64)];
        let count = used.iter().map(|bits| bits.count_ones()).sum();
        used.fill(0);
        count
    }

    fn see(&mut self, word: usize) {
        let slot = &mut self.seen[word / 64];
        if *slot == 0 {
            self.touched.push((word / 64) as u16);
        }
        *slot |= 1 << (word % 64);
    }
}

/// Clears bits `start` to `end` (exclusive), which lie within `bits`.
fn clear_bits(bits: &mut [u64], start: usize, end: usize) {
    let (first, last) = (start / 64, (end - 1) / 64);
    let (head, tail) = (u64::MAX << (start % 64), u64::MAX >> (63 - (end - 1) % 64));
    if first == last {
        bits[first] &= !(head & tail);
    } else {
        bits[first] &= !head;
        bits[first + 1..last].fill(0);
        bits[last] &= !tail;
    }
}

/// The last `len` packets as bits, 1 for received, sliding over the signature.
struct Window<'a> {
    counter: &'a mut WordCounter,
    len: u32,
    word: usize,
    /// Packets that are missing for the first whole word.
    missing: u32,
}

impl Window<'_> {
    /// Appends `count` equal packets; after `len` of them all words are the same.
    fn push(&mut self, symbol: usize, count: u32) {
        let mask = (1 << self.len) - 1;
        let mut steps = count.min(self.len);
        while self.missing > 0 && steps > 0 {
            self.word = (self.word << 1 | symbol) & mask;
            self.missing -= 1;
            steps -= 1;
        }
        // Packets used to complete the first word are part of the stretch: start the steps over.
        if count > self.len {
            steps = self.len;
        }
        for _ in 0..steps {
            self.word = (self.word << 1 | symbol) & mask;
            self.counter.see(self.word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn parse(text: &str) -> Signature {
        let pairs = text.bytes().map(|symbol| if symbol == b'0' { (0, 1) } else { (1, 0) });
        Signature::from_gaps(text.len() as u64, 1, pairs).expect("a good window")
    }

    /// The examples of 001 section 3.1.1 and 3.1.3.
    #[test]
    fn counts_the_words_of_the_papers_examples() {
        let mut counter = WordCounter::new();
        let string = parse("0010100");
        assert_eq!([1, 2, 3].map(|len| counter.words(&string, len)), [2, 3, 4]);
        assert_eq!(counter.words(&parse("00100101"), 4), 4);
    }

    #[test]
    fn known_windows_have_known_complexity() {
        let mut counter = WordCounter::new();
        let window =
            |pairs: &[(u64, u64)]| Signature::from_gaps(70_000, 1, pairs.iter().copied()).expect("good");
        assert_eq!(counter.complexity(&window(&[])), 0.0);
        assert_eq!(counter.complexity(&window(&[(0, 70_000)])), 0.0);
        assert_eq!(counter.words(&window(&[(30_000, 400)]), WORD_LEN), 34);
        assert_eq!(counter.words(&window(&[(100, 1), (5000, 1), (900, 1)]), WORD_LEN), 18);
        assert_eq!(counter.words(&parse("1011"), WORD_LEN), 0);
    }

    #[test]
    fn a_random_string_comes_close_to_one() {
        let mut state = 7u64;
        let pairs = std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if state >> 63 == 0 { (0, 1) } else { (1, 0) }
        });
        let window = Signature::from_gaps(70_000, 1, pairs.take(70_000)).expect("good");
        let c1 = WordCounter::new().complexity(&window);
        // 0.925 at this length; the limit is 1.
        assert!((0.91..0.94).contains(&c1), "{c1}");
    }

    proptest! {
        /// Compares with a hash set of words.
        #[test]
        fn word_counts_equal_those_of_a_set(bits in prop::collection::vec(prop::bool::weighted(0.7), 0..400), stretch in 1usize..60, len in 1u32..=WORD_LEN) {
            let text: String = bits.iter().enumerate()
                .flat_map(|(i, bit)| std::iter::repeat_n(if *bit { '1' } else { '0' }, if i % 7 == 0 { stretch } else { 1 }))
                .collect();
            let naive: BTreeSet<&[u8]> = text.as_bytes().windows(len as usize).collect();
            let (string, mut counter) = (parse(&text), WordCounter::new());
            prop_assert_eq!(counter.words(&string, len) as usize, naive.len());
            if text.len() >= len as usize {
                // Both methods agree, and leave the bitmap clear.
                for _ in 0..2 {
                    prop_assert_eq!(counter.words_of_runs(&string, len) as usize, naive.len());
                    prop_assert_eq!(counter.words_of_packets(&string, len) as usize, naive.len());
                }
            }
        }
    }
}
