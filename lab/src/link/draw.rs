//! Random numbers. Each purpose in each direction has its own stream from one seed, so that enabling one
//! feature does not change the draws of another.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::clock::Nanos;
use super::spec::Way;

/// The purpose of a stream.
#[derive(Debug, Clone, Copy)]
pub enum Purpose {
    Loss,
    Red,
    Jitter,
    Reorder,
    Duplicate,
    Corrupt,
    /// The n-th kind of cross traffic.
    Cross(u8),
}

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Draw {
    generator: Pcg64,
}

impl Draw {
    pub fn new(seed: u64, way: Way, purpose: Purpose) -> Draw {
        let purpose = match purpose {
            Purpose::Loss => 1,
            Purpose::Red => 2,
            Purpose::Jitter => 3,
            Purpose::Reorder => 4,
            Purpose::Duplicate => 5,
            Purpose::Corrupt => 6,
            Purpose::Cross(index) => 256 + u64::from(index),
        };
        let way = match way {
            Way::Forward => 1,
            Way::Backward => 2,
        };
        let mut key = [0; 32];
        for (place, word) in key.chunks_exact_mut(8).zip([seed, way, purpose, 0]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let mut generator = Pcg64::from_seed(key);
        // Neighbouring keys give similar first outputs: seed a generator from a few steps of another.
        for _ in 0..8 {
            generator.random::<u64>();
        }
        Draw { generator: Pcg64::from_seed(generator.random()) }
    }

    /// Normally distributed (Box and Muller 1958), in standard deviations from the mean.
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.fraction(), self.fraction());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    /// True with the given probability, 0 to 1. Consumes a draw even if the result is certain, so that the
    /// stream stays in step.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// Uniform in 0 (inclusive) to 1 (exclusive).
    pub fn fraction(&mut self) -> f64 {
        self.generator.random()
    }

    pub fn word(&mut self) -> u32 {
        self.generator.random()
    }

    /// Exponentially distributed with the given mean.
    pub fn exponential(&mut self, mean: f64) -> Nanos {
        (-mean * (1.0 - self.fraction()).ln()).round() as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_draws_have_mean_zero_and_deviation_one() {
        let mut draw = Draw::new(1, Way::Forward, Purpose::Reorder);
        let values: Vec<f64> = (0..20_000).map(|_| draw.normal()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean}, {variance}");
    }

    #[test]
    fn streams_depend_on_seed_and_purpose() {
        let first = |seed, way, purpose| {
            let mut draw = Draw::new(seed, way, purpose);
            [draw.word(), draw.word()]
        };
        let base = first(1, Way::Forward, Purpose::Loss);
        assert_eq!(base, first(1, Way::Forward, Purpose::Loss));
        let others = [
            first(2, Way::Forward, Purpose::Loss),
            first(1, Way::Backward, Purpose::Loss),
            first(1, Way::Forward, Purpose::Red),
            first(1, Way::Forward, Purpose::Cross(0)),
        ];
        assert!(others.iter().all(|other| *other != base), "{others:?}");
    }

    #[test]
    fn draws_have_their_means() {
        let mut draw = Draw::new(3, Way::Forward, Purpose::Loss);
        let hits = (0..100_000).filter(|_| draw.chance(0.01)).count();
        // Binomial: 1000, standard deviation 31.
        assert!((870..1130).contains(&hits), "{hits}");
        let mean = (0..100_000).map(|_| draw.exponential(1000.0)).sum::<u64>() / 100_000;
        assert!((980..1020).contains(&mean), "{mean}");
        assert!(!draw.chance(0.0) && draw.chance(1.0));
    }
}
