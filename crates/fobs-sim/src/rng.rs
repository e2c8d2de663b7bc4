//! Random numbers: every actor has a stream of its own from the world's seed, so that one more draw in a link changes nothing at a
//! host. Logarithms come from `libm`, whose results are the same on every machine.

use crate::time::Nanos;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng as _, SeedableRng};

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Rng(Pcg64Mcg);

/// A probability, as a share of 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chance(u64);

impl Chance {
    /// Never.
    pub const NEVER: Chance = Chance(0);

    /// A probability of `p`, cut to 0 to 1.
    pub fn of(p: f64) -> Chance {
        // A float above 2^64 - 1 becomes exactly that; not a number becomes 0.
        Chance((p * 18_446_744_073_709_551_616.0) as u64)
    }

    /// One in a million, `ppm` times.
    pub fn ppm(ppm: u32) -> Chance {
        Chance::of(f64::from(ppm) / 1e6)
    }
}

impl Rng {
    /// Stream `stream` of a world's seed.
    pub fn new(seed: u64, stream: u64) -> Rng {
        // Neighbouring seeds and streams must not give neighbouring states; an odd multiplier keeps all of them apart.
        Rng(Pcg64Mcg::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `low..=high`; `low` where `high` is below it.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        match high.saturating_sub(low).checked_add(1) {
            Some(span) => low + ((u128::from(self.bits()) * u128::from(span)) >> 64) as u64,
            None => self.bits(),
        }
    }

    /// Whether something of this probability happens. Costs no draw where it never does.
    pub fn happens(&mut self, chance: Chance) -> bool {
        chance.0 > 0 && self.bits() <= chance.0
    }

    /// An exponentially distributed time with this mean.
    pub fn exponential(&mut self, mean: Nanos) -> Nanos {
        // 53 bits above zero: the logarithm is finite, and no draw is longer than 37 means.
        let unit = ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        (-libm::log(unit) * mean as f64) as Nanos
    }

    /// One of them, all equally likely. `of` is not empty.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.range(0, of.len() as u64 - 1) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_stream_give_the_same_numbers() {
        let draw = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            (0..4).map(|_| rng.bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn chances_and_means_are_what_they_say() {
        let mut rng = Rng::new(3, 0);
        let hits = (0..100_000).filter(|_| rng.happens(Chance::of(0.01))).count();
        assert!((900..1100).contains(&hits), "{hits} of 100,000 at 1%");
        assert!((0..1000).all(|_| !rng.happens(Chance::NEVER)));
        assert!((0..1000).all(|_| rng.happens(Chance::of(1.0))));
        let sum: u64 = (0..100_000).map(|_| rng.exponential(1_000)).sum();
        assert!((98_000_000..102_000_000).contains(&sum), "{sum} instead of 10^8");
        assert!((0..1000).all(|_| (5..=9).contains(&rng.range(5, 9))));
        assert_eq!(rng.range(9, 5), 9);
    }
}
