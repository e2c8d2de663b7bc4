//! Least squares of sums of exponentials within bounds.
//!
//! The method is that of Levenberg and Marquardt (D. Marquardt, An algorithm for least-squares estimation of
//! nonlinear parameters, 1963) with every step cut at the bounds.

use nalgebra::{DMatrix, DVector};

/// Most steps; a fit takes some tens.
const STEPS_MAX: usize = 2000;
/// A step that improves the sum of squares by less than this share is the last.
const IMPROVEMENT_MIN: f64 = 1e-14;
/// Half the width of a 95% interval of a normal distribution, in standard deviations.
pub const BAND_95: f64 = 1.96;

/// A parameter's start and bounds.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub start: f64,
    pub low: f64,
    pub high: f64,
}

/// A fitted sum of exponentials: `a * exp(b * x)` for each pair (a, b) of `values`.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// a, b, a, b, ...
    pub values: Vec<f64>,
    /// Covariance of the values, from the scatter around the curve.
    pub covariance: DMatrix<f64>,
    /// Standard deviation of the scatter around the curve.
    pub deviation: f64,
}

impl Curve {
    /// Fits `y` at `x`.
    ///
    /// # Errors
    /// One sentence if there are fewer points than parameters, or the points do not determine the parameters.
    pub fn fit(parameters: &[Parameter], x: &[f64], y: &[f64]) -> Result<Curve, String> {
        if x.len() <= parameters.len() {
            return Err(format!("{} windows cannot determine {} parameters", x.len(), parameters.len()));
        }
        let mut values: Vec<f64> = parameters.iter().map(|parameter| parameter.start).collect();
        let mut squares = sum_of_squares(&values, x, y);
        let mut damping = 1e-3;
        for _ in 0..STEPS_MAX {
            let slopes = slopes(&values, x);
            let left = DVector::from_iterator(x.len(), x.iter().zip(y).map(|(x, y)| y - at(&values, *x)));
            let (normal, gradient) = (slopes.transpose() * &slopes, slopes.transpose() * left);
            let mut damped = normal.clone();
            for place in 0..parameters.len() {
                damped[(place, place)] += damping * normal[(place, place)].max(f64::MIN_POSITIVE);
            }
            let step = damped.cholesky().map(|factor| factor.solve(&gradient));
            let next = step.map(|step| {
                let moved = values.iter().zip(step.iter()).zip(parameters);
                moved.map(|((value, step), p)| (value + step).clamp(p.low, p.high)).collect::<Vec<f64>>()
            });
            let better =
                next.map(|next| (sum_of_squares(&next, x, y), next)).filter(|(next, _)| *next < squares);
            if let Some((fewer, next)) = better {
                let improvement = (squares - fewer) / squares;
                (values, squares) = (next, fewer);
                damping = (damping / 10.0).max(1e-12);
                if improvement < IMPROVEMENT_MIN {
                    break;
                }
            } else if damping > 1e12 {
                break;
            } else {
                damping *= 10.0;
            }
        }
        let variance = squares / (x.len() - values.len()) as f64;
        let slopes = slopes(&values, x);
        let inverse = (slopes.transpose() * slopes).try_inverse();
        let covariance = inverse.ok_or("the windows do not determine the parameters")? * variance;
        Ok(Curve { values, covariance, deviation: variance.sqrt() })
    }

    /// The curve at `x`.
    pub fn at(&self, x: f64) -> f64 {
        at(&self.values, x)
    }

    /// Half the width of the 95% confidence band at `x`, by the delta method.
    pub fn band(&self, x: f64) -> f64 {
        let slopes = slopes(&self.values, &[x]);
        let variance = (&slopes * &self.covariance * slopes.transpose())[(0, 0)];
        BAND_95 * variance.max(0.0).sqrt()
    }

    /// Half the width of each parameter's 95% interval.
    pub fn errors(&self) -> Vec<f64> {
        self.covariance.diagonal().iter().map(|variance| BAND_95 * variance.sqrt()).collect()
    }
}

fn at(values: &[f64], x: f64) -> f64 {
    values.chunks_exact(2).map(|pair| pair[0] * (pair[1] * x).exp()).sum()
}

/// Derivatives by the parameters, a row for each `x`.
fn slopes(values: &[f64], x: &[f64]) -> DMatrix<f64> {
    DMatrix::from_fn(x.len(), values.len(), |row, place| {
        let pair = place / 2 * 2;
        let power = (values[pair + 1] * x[row]).exp();
        if place == pair { power } else { values[pair] * x[row] * power }
    })
}

fn sum_of_squares(values: &[f64], x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| (y - at(values, *x)).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points around a curve; the scatter is not random, so that other programs can fit the same.
    fn points(values: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let x: Vec<f64> = (0..200).map(|n| 5e-4 * 100_f64.powf(f64::from(n) / 199.0)).collect();
        let y = x.iter().enumerate().map(|(n, x)| at(values, *x) + 0.03 * (1.7 * n as f64).sin());
        (x.clone(), y.collect())
    }

    fn close(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() <= tolerance * expected.abs(), "{value} instead of {expected}");
    }

    /// The expected values are scipy 1.17's (`optimize.curve_fit`) for the same points, start and bounds.
    #[test]
    fn two_exponentials_are_fitted_as_scipy_does() {
        let (x, y) = points(&[0.42, 4.1, -0.22, -178.0]);
        let parameter = |start, low, high| Parameter { start, low, high };
        let parameters = [
            parameter(0.45, 0.05, 1.0),
            parameter(2.0, -5.0, 30.0),
            parameter(-0.2, -1.0, 0.0),
            parameter(-100.0, -2000.0, -5.0),
        ];
        let curve = Curve::fit(&parameters, &x, &y).unwrap();
        for (value, expected) in curve.values.iter().zip(TWO.0) {
            close(*value, expected, 1e-3);
        }
        for (error, expected) in curve.errors().iter().zip(TWO.1) {
            close(*error, expected, 5e-3);
        }
        close(curve.deviation, TWO.2, 1e-6);
    }

    #[test]
    fn a_bound_holds_and_too_few_points_are_refused() {
        let (x, y) = points(&[0.5, 2.0]);
        let parameters =
            [Parameter { start: 0.3, low: 0.05, high: 1.0 }, Parameter { start: 1.0, low: -20.0, high: 1.5 }];
        let curve = Curve::fit(&parameters, &x, &y).unwrap();
        assert!((curve.values[1] - 1.5).abs() < 1e-9, "{:?}", curve.values);
        assert!(Curve::fit(&parameters, &x[..2], &y[..2]).is_err());
    }

    const TWO: ([f64; 4], [f64; 4], f64) = (
        [0.42284592547584354, 3.868401381834234, -0.2220513262380949, -174.08846880779322],
        [0.021147912065913897, 1.4509533931403482, 0.018996549466648836, 32.883391061313276],
        0.021402468283332875,
    );
}
