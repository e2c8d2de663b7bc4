//! The fit of one sub-cause: linear regression of all features at once with multivariate Student t
//! deviations, by iterated weights (K. Lange, R. Little, J. Taylor: Robust Statistical Modeling Using the t
//! Distribution, 1989), from a prior.

use fobs_proto::loss_cause::features::{COVARIATES, FEATURES};
use fobs_proto::loss_cause::mixture::{DEGREES_OF_FREEDOM, whiten};

/// Rounds of weighting; the weights settle within about ten.
const ROUNDS: usize = 30;
/// Added to the diagonal for each slope: without it, the slope of a burst that never varies has no solution.
const RIDGE: f64 = 1.0;
/// Smallest standard deviation of a feature, in units of log2: sub-causes with few windows look narrower than
/// they are.
const DEVIATION_MIN: f64 = 0.15;
/// Weight, in windows, of a prior scale with deviations of twice [`DEVIATION_MIN`].
const PRETENDED: f64 = 4.0;

type Square<const N: usize> = [[f64; N]; N];

/// Features of a window and what they depend on.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// [`fobs_proto::loss_cause::Features::values`].
    pub values: [f64; FEATURES],
    /// [`fobs_proto::loss_cause::Features::covariates`].
    pub covariates: [f64; COVARIATES],
}

/// What is expected before any window is seen.
#[derive(Debug, Clone, Copy)]
pub struct Prior {
    /// Expected mean and scale.
    pub expected: Fitted,
    /// Resistance of the mean to change: the cost of a change of its rows is this quadratic form of it, where
    /// a window's is 1.
    pub stiffness: Square<COVARIATES>,
    /// Weight of the expected scale, in windows.
    pub windows: f64,
}

impl Prior {
    /// The prior where nothing is known.
    pub fn none() -> Prior {
        let mut scale = [[0.0; FEATURES]; FEATURES];
        for (i, row) in scale.iter_mut().enumerate() {
            row[i] = 4.0 * DEVIATION_MIN * DEVIATION_MIN;
        }
        let mean = [[0.0; FEATURES]; COVARIATES];
        let mut stiffness = [[0.0; COVARIATES]; COVARIATES];
        for (i, row) in stiffness.iter_mut().enumerate() {
            row[i] = if i == 0 { 1e-6 } else { RIDGE };
        }
        Prior { expected: Fitted { mean, scale }, stiffness, windows: PRETENDED }
    }
}

/// The stiffness of a mean whose level resists a change at the middle of the samples, and whose slopes each
/// resist on their own.
pub fn stiffness(samples: &[Sample], level: f64, slope: f64) -> Square<COVARIATES> {
    let mean =
        |i: usize| samples.iter().map(|sample| sample.covariates[i]).sum::<f64>() / samples.len() as f64;
    let middle: [f64; COVARIATES] = std::array::from_fn(mean);
    let own = |i: usize, j: usize| if i == j && i > 0 { slope } else { 0.0 };
    std::array::from_fn(|i| std::array::from_fn(|j| level * middle[i] * middle[j] + own(i, j)))
}

/// What was fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fitted {
    /// Expected feature values: for each covariate, what a unit of it adds to each feature.
    pub mean: [[f64; FEATURES]; COVARIATES],
    /// Scale matrix of the deviations.
    pub scale: Square<FEATURES>,
}

impl Fitted {
    /// How far a sample is from its expected values.
    fn deviation(&self, sample: &Sample) -> [f64; FEATURES] {
        let mut deviation = sample.values;
        for (row, covariate) in self.mean.iter().zip(sample.covariates) {
            for (deviation, slope) in deviation.iter_mut().zip(row) {
                *deviation -= slope * covariate;
            }
        }
        deviation
    }
}

/// Fits to at least one sample.
pub fn fit(samples: &[Sample], prior: &Prior) -> Fitted {
    let mut weights = vec![1.0; samples.len()];
    let mut fitted = prior.expected;
    for _ in 0..ROUNDS {
        // With some stiffness the system is positive definite.
        fitted.mean = weighted_mean(samples, &weights, prior).unwrap_or(fitted.mean);
        fitted.scale = weighted_scale(samples, &weights, prior, &fitted);
        let Some((whitening, _)) = whiten(&fitted.scale) else { break };
        for (sample, weight) in samples.iter().zip(&mut weights) {
            let white = times(&whitening, &fitted.deviation(sample).map(|value| [value]));
            let distance: f64 = white.iter().map(|[value]| value * value).sum();
            *weight = (DEGREES_OF_FREEDOM + FEATURES as f64) / (DEGREES_OF_FREEDOM + distance);
        }
    }
    fitted
}

fn weighted_mean(
    samples: &[Sample],
    weights: &[f64],
    prior: &Prior,
) -> Option<[[f64; FEATURES]; COVARIATES]> {
    let mut left = prior.stiffness;
    let mut right = times(&prior.stiffness, &prior.expected.mean);
    for (sample, weight) in samples.iter().zip(weights) {
        add_product(&mut left, &sample.covariates, &sample.covariates, *weight);
        add_product(&mut right, &sample.covariates, &sample.values, *weight);
    }
    solve(&left, &right)
}

fn weighted_scale(samples: &[Sample], weights: &[f64], prior: &Prior, fitted: &Fitted) -> Square<FEATURES> {
    let mut spread = prior.expected.scale.map(|row| row.map(|value| value * prior.windows));
    for (sample, weight) in samples.iter().zip(weights) {
        let deviation = fitted.deviation(sample);
        add_product(&mut spread, &deviation, &deviation, *weight);
    }
    let windows = samples.len() as f64 + prior.windows;
    let floor = |i, j| if i == j { DEVIATION_MIN * DEVIATION_MIN } else { 0.0 };
    let cell = |i: usize, j: usize| (spread[i][j] + spread[j][i]) / 2.0 / windows + floor(i, j);
    std::array::from_fn(|i| std::array::from_fn(|j| cell(i, j)))
}

/// Adds the outer product of two vectors, weighted.
fn add_product<const N: usize, const M: usize>(
    to: &mut [[f64; M]; N],
    a: &[f64; N],
    b: &[f64; M],
    weight: f64,
) {
    for (row, a) in to.iter_mut().zip(a) {
        for (cell, b) in row.iter_mut().zip(b) {
            *cell += a * b * weight;
        }
    }
}

fn times<const N: usize, const M: usize>(a: &Square<N>, b: &[[f64; M]; N]) -> [[f64; M]; N] {
    std::array::from_fn(|i| std::array::from_fn(|j| (0..N).map(|k| a[i][k] * b[k][j]).sum()))
}

/// The solution of a linear system; `None` unless the matrix is symmetric and positive definite.
fn solve<const N: usize, const M: usize>(matrix: &Square<N>, right: &[[f64; M]; N]) -> Option<[[f64; M]; N]> {
    let (inverse_factor, _) = whiten(matrix)?;
    let transposed = std::array::from_fn(|i| std::array::from_fn(|j| inverse_factor[j][i]));
    Some(times(&transposed, &times(&inverse_factor, right)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn a_linear_system_is_solved() {
        let matrix = [[4.0, 2.0, 0.5], [2.0, 5.0, 1.0], [0.5, 1.0, 3.0]];
        let expected = [[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25]];
        let found = solve(&matrix, &times(&matrix, &expected)).expect("positive definite");
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
        }
        assert_eq!(solve(&[[1.0, 2.0], [2.0, 1.0]], &[[1.0], [1.0]]), None, "not positive definite");
    }

    /// With few samples at one place, their level replaces the prior's, and the prior's slope stays.
    #[test]
    fn samples_move_the_level_and_keep_the_prior_slope() {
        let mut mean = [[0.0; FEATURES]; COVARIATES];
        mean[1] = [0.5; FEATURES];
        let expected = Fitted { mean, scale: Prior::none().expected.scale };
        let at =
            |x: f64, level: f64| Sample { values: [level + 0.5 * x; FEATURES], covariates: [1.0, x, 2.0] };
        // All windows lose the same number of packets, and lie two above the expected level.
        let samples = vec![at(8.0, 2.0); 64];
        let prior = Prior { expected, stiffness: stiffness(&samples, 4.0, 64.0), windows: 8.0 };
        let fitted = fit(&samples, &prior);
        let value = |x: f64| fitted.mean[0][0] + fitted.mean[1][0] * x + fitted.mean[2][0] * 2.0;
        assert!((value(8.0) - 6.0).abs() < 0.1, "at the samples: {}", value(8.0));
        assert!((value(12.0) - value(8.0) - 2.0).abs() < 0.3, "slope: {}", value(12.0) - value(8.0));
    }

    #[test]
    fn a_line_with_noise_and_outliers_is_recovered() {
        let seed = 3;
        let mut random = Random::new(seed);
        let samples: Vec<Sample> = (0..2000)
            .map(|i| {
                let x = random.uniform(3.0, 12.0);
                let noise = |random: &mut Random| (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                let outlier = if i % 50 == 0 { 40.0 } else { 0.0 };
                let values = std::array::from_fn(|j| j as f64 + 0.5 * x + noise(&mut random) + outlier);
                Sample { values, covariates: [1.0, x, 0.0] }
            })
            .collect();
        let fitted = fit(&samples, &Prior::none());
        for j in 0..FEATURES {
            let (constant, slope) = (fitted.mean[0][j], fitted.mean[1][j]);
            assert!((slope - 0.5).abs() < 0.05, "seed {seed}: slope {slope}");
            assert!((constant - j as f64).abs() < 0.4, "seed {seed}: constant {constant}");
            assert!((0.4..1.5).contains(&fitted.scale[j][j]), "seed {seed}: scale {}", fitted.scale[j][j]);
        }
    }
}
