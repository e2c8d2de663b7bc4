//! Random choices of the tests: all from one printed seed, the same on every machine.

/// SplitMix64 (Steele, Lea, Flood 2014): any seed is a good one.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `low..=high`.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high);
        match (high - low).checked_add(1) {
            Some(span) => low + ((u128::from(self.next()) * u128::from(span)) >> 64) as u64,
            None => self.next(),
        }
    }

    /// True in `ppm` of a million cases.
    pub fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.range(0, 999_999) < u64::from(ppm)
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.range(0, of.len() as u64 - 1) as usize]
    }
}
