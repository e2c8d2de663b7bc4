//! Shapiro and Wilk's test of normality, by P. Royston's algorithm AS R94 (Applied Statistics 44, 1995).

/// Smallest sample that the algorithm's approximations hold for.
const SAMPLE_MIN: usize = 6;

/// Probability of a sample as far from normal as this one if it came from a normal distribution; `None` for
/// fewer than six values or values that are all equal.
pub fn shapiro_wilk(sample: &[f64]) -> Option<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let mean = sorted.iter().sum::<f64>() / n as f64;
    let scatter: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
    if n < SAMPLE_MIN || scatter <= 0.0 {
        return None;
    }
    // The weights are antisymmetric: each counts for the distance of a pair of order statistics.
    let pairs = weights(n)
        .into_iter()
        .enumerate()
        .map(|(place, weight)| weight * (sorted[n - 1 - place] - sorted[place]));
    let w = pairs.sum::<f64>().powi(2) / scatter;
    Some(p_value(1.0 - w, n as f64))
}

/// Weights of the larger half of the order statistics, the largest first.
fn weights(n: usize) -> Vec<f64> {
    let scores: Vec<f64> =
        (1..=n / 2).map(|place| -quantile((place as f64 - 0.375) / (n as f64 + 0.25))).collect();
    let squares = 2.0 * scores.iter().map(|score| score * score).sum::<f64>();
    let root = 1.0 / (n as f64).sqrt();
    let first = scores[0] / squares.sqrt()
        + polynomial(&[0.0, 0.221_157, -0.147_981, -2.071_19, 4.434_685, -2.706_056], root);
    let second = scores[1] / squares.sqrt()
        + polynomial(&[0.0, 0.042_981, -0.293_762, -1.752_461, 5.682_633, -3.582_633], root);
    let rest = (squares - 2.0 * scores[0].powi(2) - 2.0 * scores[1].powi(2))
        / (1.0 - 2.0 * first * first - 2.0 * second * second);
    let mut weights: Vec<f64> = scores.iter().map(|score| score / rest.sqrt()).collect();
    (weights[0], weights[1]) = (first, second);
    weights
}

/// The probability of a statistic at least that far from 1.
fn p_value(distance: f64, n: f64) -> f64 {
    let y = distance.max(f64::MIN_POSITIVE).ln();
    let (y, mean, deviation) = if n <= 11.0 {
        let limit = polynomial(&[-2.273, 0.459], n);
        if y >= limit {
            return 0.0;
        }
        let mean = polynomial(&[0.544, -0.399_78, 0.025_054, -6.714e-4], n);
        let deviation = polynomial(&[1.382_2, -0.778_57, 0.062_767, -0.002_032_2], n).exp();
        (-(limit - y).ln(), mean, deviation)
    } else {
        let log = n.ln();
        let mean = polynomial(&[-1.586_1, -0.310_82, -0.083_751, 0.003_891_5], log);
        (y, mean, polynomial(&[-0.480_3, -0.082_676, 0.003_030_2], log).exp())
    };
    upper_tail((y - mean) / deviation)
}

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

/// Probability that a standard normal variable is larger than `z`.
fn upper_tail(z: f64) -> f64 {
    libm::erfc(z / std::f64::consts::SQRT_2) / 2.0
}

/// The value that a standard normal variable is below with probability `p`, by halving.
fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if upper_tail(-middle) < p { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are scipy 1.17's (`stats.shapiro`).
    #[test]
    fn p_values_are_those_of_scipy() {
        let waves = |n: u32| (0..n).map(|n| (1.7 * f64::from(n)).sin()).collect::<Vec<f64>>();
        let squares = |n: u32| (0..n).map(|n| f64::from(n * n)).collect::<Vec<f64>>();
        for (sample, expected) in [
            (waves(8), 0.5158726591367202),
            (waves(11), 0.22379162937105324),
            (waves(12), 0.32979589892401867),
            (waves(50), 0.0005072243949819582),
            (waves(157), 6.082930636824522e-09),
            (squares(8), 0.2967325939947968),
            (squares(11), 0.17631317895936022),
            (squares(12), 0.1479425449091029),
            (squares(50), 0.00029843571782400434),
            (squares(157), 3.457598765012876e-09),
        ] {
            let p = shapiro_wilk(&sample).unwrap();
            assert!(
                (p - expected).abs() <= 1e-4 * expected,
                "{} values: {p} instead of {expected}",
                sample.len()
            );
        }
    }

    #[test]
    fn too_small_and_constant_samples_have_no_p_value() {
        assert_eq!(shapiro_wilk(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert_eq!(shapiro_wilk(&[1.0; 20]), None);
    }
}
