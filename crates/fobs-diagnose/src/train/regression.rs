//! Linear regression of all features at once with multivariate Student t deviations, by iterated weights (K. Lange,
//! R. Little, J. Taylor: Robust Statistical Modeling Using the t Distribution, 1989), from what is expected beforehand.

use fobs_proto::loss_cause::features::{COVARIATES, FEATURES};
use fobs_proto::loss_cause::mixture::DEGREES_OF_FREEDOM;
use nalgebra::{SMatrix, SVector};

/// Rounds of weighting; the weights settle within some ten.
const ROUNDS: usize = 30;
/// Added to the diagonal for each slope: a burst that never varies has none.
const RIDGE: f64 = 1.0;
/// No feature is expected more exactly than this, in units of log2: sub-causes with few windows look narrower than
/// they are.
const DEVIATION_MIN: f64 = 0.15;
/// So many windows are pretended, with deviations of twice [`DEVIATION_MIN`].
const PRETENDED: f64 = 4.0;

type Values = SVector<f64, FEATURES>;
type Covariates = SVector<f64, COVARIATES>;

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
    /// Expected feature values.
    pub expected: Fitted,
    /// How much the mean resists: the cost of a change of its rows is this quadratic form of it, where a window's is 1.
    pub stiffness: [[f64; COVARIATES]; COVARIATES],
    /// Windows that the scale counts as.
    pub windows: f64,
}

impl Prior {
    /// Nothing is known.
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

/// The stiffness of a mean whose level resists where the samples lie, and whose slopes resist on their own.
pub fn stiffness(samples: &[Sample], level: f64, slope: f64) -> [[f64; COVARIATES]; COVARIATES] {
    let mean =
        |i: usize| samples.iter().map(|sample| sample.covariates[i]).sum::<f64>() / samples.len() as f64;
    let middle: [f64; COVARIATES] = std::array::from_fn(mean);
    let own = |i: usize, j: usize| if i == j && i > 0 { slope } else { 0.0 };
    std::array::from_fn(|i| std::array::from_fn(|j| level * middle[i] * middle[j] + own(i, j)))
}

/// What was fitted.
#[derive(Debug, Clone, Copy)]
pub struct Fitted {
    /// By covariate.
    pub mean: [[f64; FEATURES]; COVARIATES],
    /// Scale of the deviations.
    pub scale: [[f64; FEATURES]; FEATURES],
}

/// Fits to at least one sample.
pub fn fit(samples: &[Sample], prior: &Prior) -> Fitted {
    let rows: Vec<(Values, Covariates)> =
        samples.iter().map(|sample| (sample.values.into(), sample.covariates.into())).collect();
    let count = rows.len() as f64;
    let stiffness = SMatrix::<f64, COVARIATES, COVARIATES>::from_fn(|i, j| prior.stiffness[i][j]);
    let expected = SMatrix::<f64, COVARIATES, FEATURES>::from_fn(|i, j| prior.expected.mean[i][j]);
    let expected_scale = SMatrix::<f64, FEATURES, FEATURES>::from_fn(|i, j| prior.expected.scale[i][j]);
    let floor = SMatrix::<f64, FEATURES, FEATURES>::identity() * (DEVIATION_MIN * DEVIATION_MIN);
    let mut weights = vec![1.0; rows.len()];
    let mut mean = expected;
    let mut scale = floor;
    for _ in 0..ROUNDS {
        let mut left = stiffness;
        let mut right = stiffness * expected;
        for ((values, covariates), weight) in rows.iter().zip(&weights) {
            left += covariates * covariates.transpose() * *weight;
            right += covariates * values.transpose() * *weight;
        }
        // With some stiffness it is positive definite.
        mean = left.cholesky().map_or(mean, |factor| factor.solve(&right));
        let mut spread = expected_scale * prior.windows;
        for ((values, covariates), weight) in rows.iter().zip(&weights) {
            let deviation = values - mean.transpose() * covariates;
            spread += deviation * deviation.transpose() * *weight;
        }
        scale = spread / (count + prior.windows) + floor;
        let Some(factor) = scale.cholesky() else { break };
        for ((values, covariates), weight) in rows.iter().zip(&mut weights) {
            let deviation = values - mean.transpose() * covariates;
            let distance = deviation.dot(&factor.solve(&deviation));
            *weight = (DEGREES_OF_FREEDOM + FEATURES as f64) / (DEGREES_OF_FREEDOM + distance);
        }
    }
    Fitted {
        mean: std::array::from_fn(|i| std::array::from_fn(|j| mean[(i, j)])),
        scale: std::array::from_fn(|i| std::array::from_fn(|j| (scale[(i, j)] + scale[(j, i)]) / 2.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// With few samples, what is expected holds where they say nothing and gives way where they do.
    #[test]
    fn what_is_expected_gives_way_to_what_is_seen() {
        let mut mean = [[0.0; FEATURES]; COVARIATES];
        mean[1] = [0.5; FEATURES];
        let expected = Fitted { mean, scale: Prior::none().expected.scale };
        let at =
            |x: f64, level: f64| Sample { values: [level + 0.5 * x; FEATURES], covariates: [1.0, x, 2.0] };
        // Two levels higher, all windows with the same losses.
        let samples = vec![at(8.0, 2.0); 64];
        let prior = Prior { expected, stiffness: stiffness(&samples, 4.0, 64.0), windows: 8.0 };
        let fitted = fit(&samples, &prior);
        let says = |x: f64| fitted.mean[0][0] + fitted.mean[1][0] * x + fitted.mean[2][0] * 2.0;
        assert!((says(8.0) - 6.0).abs() < 0.1, "where it was seen: {}", says(8.0));
        assert!((says(12.0) - says(8.0) - 2.0).abs() < 0.3, "the slope stays: {}", says(12.0) - says(8.0));
    }

    /// A known line with known noise and some outliers is found again.
    #[test]
    fn finds_the_line_it_was_made_from() {
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
