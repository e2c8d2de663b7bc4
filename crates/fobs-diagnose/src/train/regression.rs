//! Linear regression of all features at once with multivariate Student t deviations, by iterated weights (K. Lange,
//! R. Little, J. Taylor: Robust Statistical Modeling Using the t Distribution, 1989).

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

/// What was fitted.
#[derive(Debug, Clone, Copy)]
pub struct Fitted {
    /// By covariate.
    pub mean: [[f64; FEATURES]; COVARIATES],
    /// Scale of the deviations.
    pub scale: [[f64; FEATURES]; FEATURES],
}

/// Fits to at least one sample.
pub fn fit(samples: &[Sample]) -> Fitted {
    let rows: Vec<(Values, Covariates)> =
        samples.iter().map(|sample| (sample.values.into(), sample.covariates.into())).collect();
    let count = rows.len() as f64;
    let ridge = SMatrix::<f64, COVARIATES, COVARIATES>::from_diagonal(&Covariates::from_fn(|i, _| {
        if i == 0 { 1e-6 } else { RIDGE }
    }));
    let floor = SMatrix::<f64, FEATURES, FEATURES>::identity() * (DEVIATION_MIN * DEVIATION_MIN);
    let mut weights = vec![1.0; rows.len()];
    let mut mean = SMatrix::<f64, COVARIATES, FEATURES>::zeros();
    let mut scale = floor;
    for _ in 0..ROUNDS {
        let mut left = ridge;
        let mut right = SMatrix::<f64, COVARIATES, FEATURES>::zeros();
        for ((values, covariates), weight) in rows.iter().zip(&weights) {
            left += covariates * covariates.transpose() * *weight;
            right += covariates * values.transpose() * *weight;
        }
        // With the ridge it is positive definite.
        mean = left.cholesky().map_or(mean, |factor| factor.solve(&right));
        let mut spread = floor * (4.0 * PRETENDED);
        for ((values, covariates), weight) in rows.iter().zip(&weights) {
            let deviation = values - mean.transpose() * covariates;
            spread += deviation * deviation.transpose() * *weight;
        }
        scale = spread / (count + PRETENDED) + floor;
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
        let fitted = fit(&samples);
        for j in 0..FEATURES {
            let (constant, slope) = (fitted.mean[0][j], fitted.mean[1][j]);
            assert!((slope - 0.5).abs() < 0.05, "seed {seed}: slope {slope}");
            assert!((constant - j as f64).abs() < 0.4, "seed {seed}: constant {constant}");
            assert!((0.4..1.5).contains(&fitted.scale[j][j]), "seed {seed}: scale {}", fitted.scale[j][j]);
        }
    }
}
