//! The classifier of the paper, for comparison (001 section 3.3).
//!
//! | loss rate | metric | likelihood from |
//! |---|---|---|
//! | below 0.00008 | none | 50% each |
//! | to 0.0005 | success proportion | a constant for each cause |
//! | from 0.0005 on | C1 | two exponentials of the loss rate for the network, one for the receiver |
//!
//! Our reading where the text is ambiguous:
//!
//! - C1 is divided by n, not by 2 ([`super::complexity`]).
//! - A likelihood is the two-sided tail area of the normal distribution beyond the observed distance, as
//!   section 3.3 computes it with figure 7, not the density that its name suggests.
//! - The paper gives its fits only in figures 4 to 6. Ours have the same form and use our own recordings
//!   (`docs/classifier.md`), for windows of 70,000 and of 10,000 packets; the nearer length is used.
//! - Each curve has one standard deviation, not one for each loss rate.
//! - If both areas are 0, the observation is "outside of the range of both causes" (001 section 7.1): 50%
//!   each.

use super::Signature;
use super::complexity::WordCounter;
use super::features::Features;
use crate::math;

/// Loss rate below which a window has too little information (001 section 3.1.5).
pub const LOSS_RATE_MIN: f64 = 0.000_08;
/// Loss rate from which C1 is the metric; below it, the success proportion is (001 section 3.1.4).
pub const COMPLEXITY_FROM: f64 = 0.000_5;

/// A normal distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normal {
    /// Mean.
    pub mean: f64,
    /// Standard deviation, above 0.
    pub deviation: f64,
}

impl Normal {
    /// Two-sided tail area: probability of a larger distance from the mean than that of `value` (001 figure
    /// 7).
    fn tails(self, value: f64) -> f64 {
        erfc((value - self.mean).abs() / (self.deviation * std::f64::consts::SQRT_2))
    }
}

/// A sum of exponentials `factor * exp(rate * p)` of the loss rate p.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Pairs of factor and rate: two for the network, one for the receiver (001 section 3.1.6).
    pub terms: Vec<(f64, f64)>,
    /// Standard deviation around the curve, above 0.
    pub deviation: f64,
}

impl Curve {
    fn at(&self, loss_rate: f64) -> Normal {
        let mean = self.terms.iter().map(|(factor, rate)| factor * math::exp(rate * loss_rate)).sum();
        Normal { mean, deviation: self.deviation }
    }
}

/// Fits to windows of one length.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Length of the windows, packets.
    pub packets: u32,
    /// C1 of network losses.
    pub network: Curve,
    /// C1 of receiver losses.
    pub receiver: Curve,
    /// Success proportion of network losses.
    pub network_success: Normal,
    /// Success proportion of receiver losses.
    pub receiver_success: Normal,
}

/// The paper's classifier.
#[derive(Debug, Clone)]
pub struct Paper {
    fits: Vec<Fit>,
}

impl Paper {
    /// A classifier with these fits; `None` if there are none, or if a number is not usable.
    pub fn new(fits: Vec<Fit>) -> Option<Paper> {
        let usable = |fit: &Fit| {
            let normals =
                [fit.network.at(0.01), fit.receiver.at(0.01), fit.network_success, fit.receiver_success];
            fit.packets > 0
                && normals.iter().all(|normal| normal.mean.is_finite() && normal.deviation.is_finite())
                && normals.iter().all(|normal| normal.deviation > 0.0)
        };
        (!fits.is_empty() && fits.iter().all(usable)).then_some(Paper { fits })
    }

    /// Probability that the receiver lost the packets.
    pub fn p_receiver(&self, signature: &Signature, words: &mut WordCounter) -> f64 {
        let loss_rate = signature.loss_rate();
        let Some(features) = Features::of(signature).filter(|_| loss_rate >= LOSS_RATE_MIN) else {
            return 0.5;
        };
        let fit = self.nearest(signature.packets());
        let (network, receiver) = if loss_rate >= COMPLEXITY_FROM {
            let complexity = words.complexity(signature);
            (fit.network.at(loss_rate).tails(complexity), fit.receiver.at(loss_rate).tails(complexity))
        } else {
            let success = features.success_proportion;
            (fit.network_success.tails(success), fit.receiver_success.tails(success))
        };
        // Equal priors (001 section 3.3).
        if network + receiver > 0.0 { receiver / (network + receiver) } else { 0.5 }
    }

    /// The fit with the most similar window length.
    fn nearest(&self, packets: u32) -> &Fit {
        let apart = |fit: &Fit| math::ln(f64::from(fit.packets) / f64::from(packets.max(1))).abs();
        let by_distance = |a: &&Fit, b: &&Fit| apart(a).total_cmp(&apart(b));
        self.fits.iter().min_by(by_distance).unwrap_or(&self.fits[0])
    }
}

/// Complementary error function of `x` >= 0, relative error below 1e-12: the series of erf below 2,
/// Legendre's continued fraction above (Abramowitz and Stegun 7.1.6 and 7.1.14). The standard library has
/// none.
fn erfc(x: f64) -> f64 {
    let gauss = math::exp(-x * x);
    let root_pi = std::f64::consts::PI.sqrt();
    if x < 2.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..60 {
            term *= 2.0 * x * x / f64::from(2 * n + 1);
            sum += term;
        }
        1.0 - 2.0 / root_pi * gauss * sum
    } else {
        let mut fraction = x;
        for n in (1..=120).rev() {
            fraction = x + f64::from(n) / 2.0 / fraction;
        }
        gauss / (root_pi * fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(packets: u32) -> Fit {
        Fit {
            packets,
            network: Curve { terms: vec![(0.43, 3.2), (-0.22, -160.0)], deviation: 0.05 },
            receiver: Curve { terms: vec![(0.31, 0.5)], deviation: 0.03 },
            network_success: Normal { mean: 0.0, deviation: 0.05 },
            receiver_success: Normal { mean: 1.0, deviation: 0.05 },
        }
    }

    fn p(packets: u64, pairs: &[(u64, u64)]) -> f64 {
        let signature = Signature::from_gaps(packets, 1, pairs.iter().copied()).expect("good");
        Paper::new(vec![fit(70_000)]).expect("good").p_receiver(&signature, &mut WordCounter::new())
    }

    #[test]
    fn the_error_function_agrees_with_published_tables() {
        // Abramowitz and Stegun, tables 7.1 and 7.3.
        for (x, expected) in [
            (0.0, 1.0),
            (0.5, 0.479_500_122_186_953_5),
            (1.0, 0.157_299_207_050_285_1),
            (1.9, 0.007_209_570_764_742_5),
            (2.0, 0.004_677_734_981_047_3),
            (3.0, 2.209_049_699_858_544e-5),
            (5.0, 1.537_459_794_428_035e-12),
        ] {
            let got = erfc(x);
            assert!((got / expected - 1.0).abs() < 1e-9, "erfc({x}) = {got}, not {expected}");
        }
        assert_eq!(erfc(40.0), 0.0);
    }

    #[test]
    fn each_band_has_its_metric() {
        assert_eq!(p(70_000, &[]), 0.5);
        assert_eq!(p(70_000, &[(9, 5)]), 0.5, "too little");
        assert!(p(70_000, &[(9, 20)]) > 0.95, "contiguous");
        assert!(p(70_000, &[(900, 1); 20]) < 0.05, "single");
        assert!(p(70_000, &[(9000, 1000), (1500, 900)]) > 0.95, "low complexity");
    }

    #[test]
    fn an_observation_outside_both_ranges_is_undecided() {
        let narrow = |mut fit: Fit| {
            fit.network.deviation = 1e-4;
            fit.receiver.deviation = 1e-4;
            fit
        };
        let paper = Paper::new(vec![narrow(fit(70_000))]).expect("good");
        let pairs = (0..200).map(|i| (40 + i, 1 + i % 9));
        let signature = Signature::from_gaps(70_000, 1, pairs).expect("good");
        assert_eq!(paper.p_receiver(&signature, &mut WordCounter::new()), 0.5);
    }

    #[test]
    fn the_nearest_length_serves_and_bad_fits_are_refused() {
        let paper = Paper::new(vec![fit(70_000), fit(10_000)]).expect("good");
        let serving = [1_000, 20_000, 40_000, 1 << 25].map(|packets| paper.nearest(packets).packets);
        assert_eq!(serving, [10_000, 10_000, 70_000, 70_000]);
        assert!(Paper::new(vec![]).is_none());
        let mut bad = fit(70_000);
        bad.receiver.deviation = 0.0;
        assert!(Paper::new(vec![bad]).is_none());
    }
}
