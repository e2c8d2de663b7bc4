//! The regression of `fobs-diagnose` against the same one over nalgebra's Cholesky factorisation.

use fobs_diagnose::regression::{Fitted, Prior, Sample, fit, stiffness};
use fobs_proto::loss_cause::Features;
use fobs_proto::loss_cause::features::{COVARIATES, FEATURES};
use fobs_proto::loss_cause::mixture::DEGREES_OF_FREEDOM;
use nalgebra::{SMatrix, SVector};

use super::*;

/// As in `fobs_diagnose::regression`.
const ROUNDS: usize = 30;
const DEVIATION_MIN: f64 = 0.15;
/// Largest difference of two results, relative to the largest number of theirs or 1.
const NOISE: f64 = 1e-9;

fn reference(samples: &[Sample], prior: &Prior) -> Fitted {
    let rows: Vec<(SVector<f64, FEATURES>, SVector<f64, COVARIATES>)> =
        samples.iter().map(|sample| (sample.values.into(), sample.covariates.into())).collect();
    let stiffness = SMatrix::<f64, COVARIATES, COVARIATES>::from_fn(|i, j| prior.stiffness[i][j]);
    let expected = SMatrix::<f64, COVARIATES, FEATURES>::from_fn(|i, j| prior.expected.mean[i][j]);
    let expected_scale = SMatrix::<f64, FEATURES, FEATURES>::from_fn(|i, j| prior.expected.scale[i][j]);
    let floor = SMatrix::<f64, FEATURES, FEATURES>::identity() * (DEVIATION_MIN * DEVIATION_MIN);
    let mut weights = vec![1.0; rows.len()];
    let (mut mean, mut scale) = (expected, floor);
    for _ in 0..ROUNDS {
        let mut left = stiffness;
        let mut right = stiffness * expected;
        for ((values, covariates), weight) in rows.iter().zip(&weights) {
            left += covariates * covariates.transpose() * *weight;
            right += covariates * values.transpose() * *weight;
        }
        mean = left.cholesky().expect("positive definite").solve(&right);
        let mut spread = expected_scale * prior.windows;
        for ((values, covariates), weight) in rows.iter().zip(&weights) {
            let deviation = values - mean.transpose() * covariates;
            spread += deviation * deviation.transpose() * *weight;
        }
        scale = spread / (rows.len() as f64 + prior.windows) + floor;
        let factor = scale.cholesky().expect("positive definite");
        for ((values, covariates), weight) in rows.iter().zip(&mut weights) {
            let deviation = values - mean.transpose() * covariates;
            let distance = deviation.dot(&factor.solve(&deviation));
            *weight = (DEGREES_OF_FREEDOM + FEATURES as f64) / (DEGREES_OF_FREEDOM + distance);
        }
    }
    Fitted {
        mean: std::array::from_fn(|i| std::array::from_fn(|j| mean[(i, j)])),
        scale: std::array::from_fn(|i| std::array::from_fn(|j| scale[(i, j)])),
    }
}

fn samples(windows: &[Window]) -> Vec<Sample> {
    let features = windows.iter().filter_map(|window| Features::of(&window.signature));
    features.map(|f| Sample { values: f.values(), covariates: f.covariates() }).collect()
}

fn assert_same(found: &Fitted, expected: &Fitted, of: &str) {
    let numbers = |fitted: &Fitted| -> Vec<f64> {
        fitted.mean.iter().chain(&fitted.scale).flatten().copied().collect()
    };
    let (found, expected) = (numbers(found), numbers(expected));
    let largest = expected.iter().fold(1.0, |largest: f64, number| largest.max(number.abs()));
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() <= NOISE * largest, "{of}: {found}, not {expected}");
    }
}

#[test]
fn regression_equals_the_reference_solver() {
    let receivers: Vec<Window> = receivers().iter().flat_map(|window| window.slices(10_000)).collect();
    let sets = [("receivers", samples(&receivers)), ("networks", samples(&networks(8, 10_000, 3)))];
    for (name, samples) in &sets {
        assert!(samples.len() > 30, "{name}: {}", samples.len());
        // Many samples, few, and one: alone, with no prior, and with one from the other windows.
        for count in [samples.len(), 8, 1] {
            let samples = &samples[..count];
            let of = format!("{count} of {name}");
            assert_same(&fit(samples, &Prior::none()), &reference(samples, &Prior::none()), &of);
            let expected = fit(&sets[0].1, &Prior::none());
            let prior = Prior { expected, stiffness: stiffness(samples, 4.0, 64.0), windows: 8.0 };
            assert_same(&fit(samples, &prior), &reference(samples, &prior), &format!("{of}, with a prior"));
        }
    }
}
