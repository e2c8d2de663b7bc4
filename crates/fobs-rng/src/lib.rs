//! Seeded random numbers for simulations, training and tests: the same seed gives the same numbers on every
//! machine.
//!
//! The generator is PCG (O'Neill 2014) from `rand_pcg`; logarithms come from `libm`, because those of the
//! platform differ in the last bit. Not for secrets.

#![forbid(unsafe_code)]

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng as _, SeedableRng};

/// A sequence of random numbers.
#[derive(Debug, Clone)]
pub struct Rng(Pcg64Mcg);

/// A probability, as a share of 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chance(u64);

impl Chance {
    /// Never.
    pub const NEVER: Chance = Chance(0);

    /// A probability of `p`, clamped to 0 to 1.
    pub fn of(p: f64) -> Chance {
        // The cast saturates: 1.0 and above become 2^64 - 1, NaN becomes 0.
        Chance((p * 18_446_744_073_709_551_616.0) as u64)
    }

    /// A probability of `ppm` in a million.
    pub fn ppm(ppm: u32) -> Chance {
        Chance::of(f64::from(ppm) / 1e6)
    }
}

impl Rng {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng::stream(seed, 0)
    }

    /// One of many independent sequences of the same seed: one more draw in one of them changes nothing in
    /// the others.
    pub fn stream(seed: u64, stream: u64) -> Rng {
        // Neighbouring seeds and streams must not give neighbouring states; an odd multiplier keeps all of
        // them apart.
        Rng(Pcg64Mcg::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `low..=high`; `low` where `high` is below it.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        match high.saturating_sub(low).checked_add(1) {
            Some(span) => low + self.scaled(span),
            None => self.bits(),
        }
    }

    /// Uniform in 0 to `n` - 1; 0 where `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.scaled(n as u64) as usize
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [low, high).
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform in the logarithm, in [low, high); both above 0.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        libm::exp(self.uniform(libm::log(low), libm::log(high)))
    }

    /// Exponentially distributed with this mean; at most 37 times the mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 53 bits above zero: the logarithm is finite.
        let unit = ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -libm::log(unit) * mean
    }

    /// Whether something of this probability happens. Draws nothing where the probability is 0.
    pub fn happens(&mut self, chance: Chance) -> bool {
        chance.0 > 0 && self.bits() <= chance.0
    }

    /// Whether something of probability `p` happens. Draws nothing where `p` is 0.
    pub fn chance(&mut self, p: f64) -> bool {
        self.happens(Chance::of(p))
    }

    /// One of these, all equally likely.
    ///
    /// # Panics
    /// If `of` is empty.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Fills a buffer with random bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        self.0.fill_bytes(buffer);
    }

    fn scaled(&mut self, span: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(span)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_stream_give_the_same_numbers() {
        let draw = |seed, stream| {
            let mut rng = Rng::stream(seed, stream);
            (0..4).map(|_| rng.bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    /// Seeds that stand in reports and golden tables must keep their meaning when the dependency is updated.
    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        let mut rng = Rng::stream(1, 2);
        assert_eq!([rng.bits(), rng.bits()], [4_749_736_344_894_152_755, 13_892_983_252_806_897_334]);
    }

    #[test]
    fn probabilities_are_met() {
        let mut rng = Rng::new(3);
        let hits = (0..100_000).filter(|_| rng.happens(Chance::of(0.01))).count();
        assert!((900..1100).contains(&hits), "{hits} of 100,000 at 1%");
        assert!((0..1000).all(|_| !rng.happens(Chance::NEVER)));
        assert!((0..1000).all(|_| rng.chance(1.0)));
    }

    #[test]
    fn distributions_have_their_means_and_bounds() {
        let mut rng = Rng::new(3);
        let mean = |draw: &mut dyn FnMut() -> f64| (0..100_000).map(|_| draw()).sum::<f64>() / 1e5;
        let exponential = mean(&mut || rng.exponential(1000.0));
        assert!((980.0..1020.0).contains(&exponential), "{exponential} instead of 1000");
        let logarithm = mean(&mut || libm::log10(rng.log_uniform(1e-4, 1e2)));
        assert!((-1.02..-0.98).contains(&logarithm), "{logarithm} instead of -1");
        assert!((0..1000).all(|_| (5..=9).contains(&rng.range(5, 9))));
        assert!((0..1000).all(|_| rng.below(3) < 3));
        assert!((0..1000).all(|_| (-2.0..3.0).contains(&rng.uniform(-2.0, 3.0))));
        assert_eq!((rng.range(9, 5), rng.below(0)), (9, 0));
    }

    #[test]
    fn every_byte_of_a_buffer_is_filled() {
        let mut buffer = [0; 1003];
        Rng::new(1).fill(&mut buffer);
        assert!(buffer.iter().filter(|byte| **byte == 0).count() < 20);
        assert!(buffer[1000..].iter().any(|byte| *byte != 0));
    }
}
