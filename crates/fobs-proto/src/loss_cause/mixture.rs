//! Our classifier: a mixture model with one component, a sub-cause, for each known way to lose packets. A
//! window's features give each sub-cause a probability.
//!
//! The expected feature values of a sub-cause are linear in the logarithms of the number of losses and of the
//! burst; deviations follow a multivariate Student t distribution, so a window far from all sub-causes is
//! uncertain. Sub-causes form three groups: all losses at the receiver, all in the network, or some of each.
//! The third group is the residual test: losses that a receiver's blocks do not explain must be fewer than in
//! a mixed window.
//!
//! A diagnosis names the likeliest sub-cause.

use super::features::{COVARIATES, FEATURES};
use super::{Features, Verdict};
use crate::math;

/// Minimum number of lost packets for the verdict `receiver`: a queue that drops one short run looks the same
/// (measured, `docs/classifier.md`).
pub const LOST_MIN: u32 = 8;
/// Upper bound of the receiver's probability for a window with an objection ([`Withheld`]).
const P_DOUBTFUL: f64 = 0.5;
/// Pores (gaps of at most 32 packets) that a receiver's window may have, however few its runs are. Of 903
/// recorded windows (180 whole, the others of 10,000 packets), two have more.
const PORES_MAX: u32 = 4;
/// Pores for each run that it may have. Those two have one for 12 runs; bursty on/off traffic leaves one for
/// 3 or 4.
const PORES_PER_RUN_MAX: f64 = 0.125;
/// Degrees of freedom of the Student t distribution. Small, because windows of one sub-cause differ more than
/// a normal distribution allows.
pub const DEGREES_OF_FREEDOM: f64 = 4.0;
/// Maximum number of sub-causes in a model.
pub const SUB_CAUSES_MAX: usize = 256;

/// Where the losses of a sub-cause happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    /// All at the receiver.
    Receiver,
    /// All in the network.
    Network,
    /// Some at each.
    Mixed,
}

impl Group {
    /// All groups, in the order of the priors of [`Mixture::new`].
    pub const ALL: &[Group] = &[Group::Receiver, Group::Network, Group::Mixed];

    /// Lower-case name, as in model files.
    pub fn name(self) -> &'static str {
        match self {
            Group::Receiver => "receiver",
            Group::Network => "network",
            Group::Mixed => "mixed",
        }
    }
}

/// A known way to lose packets: one component of the mixture.
#[derive(Debug, Clone, PartialEq)]
pub struct SubCause {
    /// Name, as in model files.
    pub name: String,
    /// Where its losses happen.
    pub group: Group,
    /// Its share of the group; shares are normalised to a sum of 1.
    pub share: f64,
    /// Expected feature values: one row of slopes for each covariate.
    pub mean: [[f64; FEATURES]; COVARIATES],
    /// Scale matrix of the deviations: symmetric, positive definite.
    pub scale: [[f64; FEATURES]; FEATURES],
}

/// Tolerance for losses in short runs; above it `receiver` is withheld whatever the probabilities are. A
/// receiver's blocks leave few such losses, additional random loss many.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residual {
    /// This number of packets is always tolerated.
    pub packets: u32,
    /// This share of all losses is tolerated.
    pub share: f64,
}

/// A mixture model: sub-causes with their prior probabilities.
#[derive(Debug, Clone)]
pub struct Mixture {
    sub_causes: Vec<SubCause>,
    residual: Residual,
    /// For each sub-cause: logarithm of prior, share and the constant factor of the density.
    log_weights: Vec<f64>,
    /// For each sub-cause: rows of the inverse Cholesky factor of its scale matrix.
    whitening: Vec<[[f64; FEATURES]; FEATURES]>,
}

/// Why numbers are not a valid model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// Too few or too many sub-causes, or an empty group.
    #[error(
        "a model has 1 to {SUB_CAUSES_MAX} sub-causes and at least one of the receiver and one of the network"
    )]
    SubCauses,
    /// A number is not finite, or a share or prior is not positive.
    #[error("a number of `{0}` is not finite, or its share or prior is not positive")]
    Number(String),
    /// The scale matrix is not symmetric and positive definite.
    #[error("the scale of `{0}` is not a symmetric positive definite matrix")]
    Scale(String),
}

/// The result for one window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Diagnosis {
    /// Probability that all losses are the receiver's.
    pub p_receiver: f64,
    /// Probability that the receiver and the network lost some packets each.
    pub p_mixed: f64,
    /// Index of the likeliest sub-cause in [`Mixture::sub_causes`].
    pub likeliest: usize,
    /// Why the receiver's probability was reduced, if it was.
    pub withheld: Option<Withheld>,
}

/// Why the verdict `receiver` is withheld although the probabilities favour it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// Fewer than [`LOST_MIN`] packets were lost.
    TooFew,
    /// Too many losses in short runs ([`Residual`]).
    Residual,
    /// Too many pores: gaps of only a few packets between runs.
    Porous,
    /// The runs are periodic in time ([`super::Beat`]).
    Clocked,
}

impl Withheld {
    /// The reason, for output.
    pub fn reason(self) -> &'static str {
        match self {
            Withheld::TooFew => "too few lost to blame the receiver",
            Withheld::Residual => "too much of it in short runs that a receiver does not leave",
            Withheld::Porous => "runs too close to each other for a receiver",
            Withheld::Clocked => "the runs come by a clock, as at a queue that is served in ticks",
        }
    }
}

impl Diagnosis {
    /// The verdict that follows from the receiver's probability.
    pub fn verdict(&self) -> Verdict {
        Verdict::from_probability(self.p_receiver)
    }
}

impl Mixture {
    /// Makes a model. `priors` are in the order of [`Group::ALL`] and are normalised to a sum of 1.
    ///
    /// # Errors
    ///
    /// [`ModelError`] if the numbers are not a valid model.
    pub fn new(
        priors: [f64; Group::ALL.len()],
        residual: Residual,
        sub_causes: Vec<SubCause>,
    ) -> Result<Mixture, ModelError> {
        let total = |group: Group| -> f64 {
            sub_causes.iter().filter(|sub| sub.group == group).map(|sub| sub.share).sum()
        };
        let totals: [f64; Group::ALL.len()] = std::array::from_fn(|place| total(Group::ALL[place]));
        if sub_causes.len() > SUB_CAUSES_MAX || !(totals[0] > 0.0 && totals[1] > 0.0) {
            return Err(ModelError::SubCauses);
        }
        if !(residual.share.is_finite() && residual.share >= 0.0) {
            return Err(ModelError::Number("residual".to_owned()));
        }
        let mut log_weights = Vec::with_capacity(sub_causes.len());
        let mut whitening = Vec::with_capacity(sub_causes.len());
        for sub in &sub_causes {
            let group = sub.group as usize;
            let weight = priors[group] * sub.share / totals[group];
            let finite = sub.mean.iter().flatten().all(|value| value.is_finite());
            if !(finite && weight.is_finite() && weight > 0.0) {
                return Err(ModelError::Number(sub.name.clone()));
            }
            let (inverse, log_determinant) =
                whiten(&sub.scale).ok_or_else(|| ModelError::Scale(sub.name.clone()))?;
            log_weights.push(math::ln(weight) - log_determinant / 2.0);
            whitening.push(inverse);
        }
        Ok(Mixture { sub_causes, residual, log_weights, whitening })
    }

    /// The sub-causes, in the order given.
    pub fn sub_causes(&self) -> &[SubCause] {
        &self.sub_causes
    }

    /// Computes the probabilities for a window's features.
    pub fn diagnose(&self, features: &Features) -> Diagnosis {
        let (values, covariates) = (features.values(), features.covariates());
        let mut groups = [f64::NEG_INFINITY; Group::ALL.len()];
        let mut best = (f64::NEG_INFINITY, 0);
        for (index, sub) in self.sub_causes.iter().enumerate() {
            let log_density = self.log_density(index, &values, &covariates);
            if log_density > best.0 {
                best = (log_density, index);
            }
            let group = &mut groups[sub.group as usize];
            *group = log_sum(*group, log_density);
        }
        let all = groups.iter().copied().fold(f64::NEG_INFINITY, log_sum);
        let [receiver, _, mixed] = groups.map(|group| math::exp(group - all));
        let withheld = if receiver > P_DOUBTFUL { self.objection(features) } else { None };
        Diagnosis {
            p_receiver: if withheld.is_some() { P_DOUBTFUL } else { receiver },
            p_mixed: mixed,
            likeliest: best.1,
            withheld,
        }
    }

    /// The first objection to the verdict `receiver`, whatever the probabilities are.
    fn objection(&self, features: &Features) -> Option<Withheld> {
        let above = |count: u32, always: u32, share: f64, of: u32| {
            f64::from(count) > f64::from(always).max(share * f64::from(of))
        };
        if features.lost < LOST_MIN {
            Some(Withheld::TooFew)
        } else if above(features.stray, self.residual.packets, self.residual.share, features.lost) {
            Some(Withheld::Residual)
        } else if above(features.pores, PORES_MAX, PORES_PER_RUN_MAX, features.runs) {
            Some(Withheld::Porous)
        } else if features.beat.is_clocked(features.runs) {
            Some(Withheld::Clocked)
        } else {
            None
        }
    }

    /// Index of the likeliest sub-cause of a group; `None` if the group is empty.
    pub fn likeliest_of(&self, group: Group, features: &Features) -> Option<usize> {
        let (values, covariates) = (features.values(), features.covariates());
        let of_group = (0..self.sub_causes.len()).filter(|index| self.sub_causes[*index].group == group);
        let weighed = of_group.map(|index| (index, self.log_density(index, &values, &covariates)));
        weighed.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
    }

    /// Logarithm of the weighted density, less the gamma functions, which are equal for all sub-causes.
    fn log_density(&self, index: usize, values: &[f64; FEATURES], covariates: &[f64; COVARIATES]) -> f64 {
        let distance = self.distance(index, values, covariates);
        self.log_weights[index]
            - (DEGREES_OF_FREEDOM + FEATURES as f64) / 2.0 * math::ln_1p(distance / DEGREES_OF_FREEDOM)
    }

    /// Squared Mahalanobis distance from a sub-cause's expected values.
    fn distance(&self, index: usize, values: &[f64; FEATURES], covariates: &[f64; COVARIATES]) -> f64 {
        let mut deviation = *values;
        for (row, covariate) in self.sub_causes[index].mean.iter().zip(covariates) {
            for (deviation, slope) in deviation.iter_mut().zip(row) {
                *deviation -= slope * covariate;
            }
        }
        let mut distance = 0.0;
        for (i, row) in self.whitening[index].iter().enumerate() {
            let white: f64 = row[..=i].iter().zip(&deviation).map(|(a, b)| a * b).sum();
            distance += white * white;
        }
        distance
    }
}

fn log_sum(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + math::ln_1p(math::exp(low - high)) }
}

/// Inverse of the lower Cholesky factor of `matrix`, and the logarithm of its determinant; `None` if it is
/// not symmetric and positive definite.
pub fn whiten<const N: usize>(matrix: &[[f64; N]; N]) -> Option<([[f64; N]; N], f64)> {
    let mut factor = [[0.0; N]; N];
    let mut log_determinant = 0.0;
    for i in 0..N {
        for j in 0..=i {
            let (low, high) = (matrix[i][j], matrix[j][i]);
            // Model files hold rounded numbers.
            let tolerance = 1e-6 * (matrix[i][i].abs() + matrix[j][j].abs());
            if (low - high).abs() > tolerance || !low.is_finite() || !high.is_finite() {
                return None;
            }
            let rest = low - (0..j).map(|k| factor[i][k] * factor[j][k]).sum::<f64>();
            if i != j {
                factor[i][j] = rest / factor[j][j];
            } else if rest > 0.0 && rest.is_finite() {
                factor[i][i] = rest.sqrt();
                log_determinant += math::ln(rest);
            } else {
                return None;
            }
        }
    }
    let mut inverse = [[0.0; N]; N];
    for i in 0..N {
        inverse[i][i] = 1.0 / factor[i][i];
        let row: [f64; N] = std::array::from_fn(|j| (j..i).map(|k| factor[i][k] * inverse[k][j]).sum());
        for (cell, sum) in inverse[i][..i].iter_mut().zip(row) {
            *cell = -sum / factor[i][i];
        }
    }
    Some((inverse, log_determinant))
}

#[cfg(test)]
mod tests {
    use super::super::Signature;
    use super::*;
    use proptest::prelude::*;

    const RESIDUAL: Residual = Residual { packets: 4, share: 0.5 };

    /// A sub-cause whose expected values are the features of `pairs`, independent of the covariates.
    fn sub_cause(name: &str, group: Group, pairs: &[(u64, u64)]) -> SubCause {
        let mut mean = [[0.0; FEATURES]; COVARIATES];
        mean[0] = features(pairs).values();
        let mut scale = [[0.0; FEATURES]; FEATURES];
        for (i, row) in scale.iter_mut().enumerate() {
            row[i] = 1.0;
        }
        scale[0][1] = 0.5;
        scale[1][0] = 0.5;
        SubCause { name: name.to_owned(), group, share: 1.0, mean, scale }
    }

    fn features(pairs: &[(u64, u64)]) -> Features {
        let signature = Signature::from_gaps(1 << 20, 1, pairs.iter().copied()).expect("good");
        Features::of(&signature).expect("lost something")
    }

    const BLOCKS: [(u64, u64); 2] = [(900, 300), (4000, 200)];
    const SINGLES: [(u64, u64); 12] = [(60, 1); 12];

    fn model() -> Mixture {
        let sub_causes = vec![
            sub_cause("blocks", Group::Receiver, &BLOCKS),
            sub_cause("singles", Group::Network, &SINGLES),
        ];
        Mixture::new([1.0, 1.0, 1.0], RESIDUAL, sub_causes).expect("good")
    }

    #[test]
    fn diagnoses_the_sub_causes_of_the_model() {
        let model = model();
        let blocks = model.diagnose(&features(&BLOCKS));
        assert_eq!((blocks.verdict(), blocks.likeliest, blocks.withheld), (Verdict::Receiver, 0, None));
        let singles = model.diagnose(&features(&SINGLES));
        assert_eq!((singles.verdict(), singles.likeliest), (Verdict::Network, 1));
    }

    #[test]
    fn few_losses_or_many_short_runs_withhold_receiver() {
        let few = sub_cause("few", Group::Receiver, &[(100, 7)]);
        let mixed = [(900, 300), (2000, 7), (1700, 6), (2400, 290)];
        let patchy = sub_cause("patchy", Group::Receiver, &mixed);
        let network = sub_cause("singles", Group::Network, &SINGLES);
        let strict = Residual { packets: 8, share: 0.01 };
        let model = Mixture::new([1.0, 1.0, 1.0], strict, vec![few, patchy, network]).expect("good");
        let diagnosis = model.diagnose(&features(&[(100, 7)]));
        assert_eq!(
            (diagnosis.withheld, diagnosis.verdict()),
            (Some(Withheld::TooFew), Verdict::Inconclusive)
        );
        let diagnosis = model.diagnose(&features(&mixed));
        assert_eq!(
            (diagnosis.withheld, diagnosis.verdict()),
            (Some(Withheld::Residual), Verdict::Inconclusive)
        );
    }

    #[test]
    fn pores_or_periodic_runs_withhold_receiver() {
        let pores: Vec<(u64, u64)> = (0..20).map(|i| if i % 3 == 0 { (900, 80) } else { (2, 90) }).collect();
        let ticks: Vec<(u64, u64)> = (0..12).map(|i| (900 + u64::from(i % 4 == 0), 90)).collect();
        for (pairs, reason) in [(pores, Withheld::Porous), (ticks, Withheld::Clocked)] {
            let sub_causes = vec![
                sub_cause("blocks", Group::Receiver, &pairs),
                sub_cause("singles", Group::Network, &SINGLES),
            ];
            let model = Mixture::new([1.0, 1.0, 1.0], RESIDUAL, sub_causes).expect("good");
            let diagnosis = model.diagnose(&features(&pairs));
            assert_eq!((diagnosis.withheld, diagnosis.verdict()), (Some(reason), Verdict::Inconclusive));
        }
    }

    #[test]
    fn bad_models_are_refused() {
        let good = || sub_cause("a", Group::Receiver, &BLOCKS);
        let network = || sub_cause("b", Group::Network, &SINGLES);
        let make = |subs| Mixture::new([1.0, 1.0, 1.0], RESIDUAL, subs).map(|_| ());
        assert_eq!(make(vec![good()]), Err(ModelError::SubCauses));
        let mut bad = good();
        bad.mean[1][2] = f64::NAN;
        assert_eq!(make(vec![bad, network()]), Err(ModelError::Number("a".to_owned())));
        let mut bad = good();
        bad.share = -1.0;
        make(vec![bad, network()]).expect_err("a negative share");
        for (i, j, value) in [(0, 1, 3.0), (2, 2, -1.0), (3, 3, f64::INFINITY)] {
            let mut bad = good();
            bad.scale[i][j] = value;
            assert_eq!(make(vec![bad, network()]), Err(ModelError::Scale("a".to_owned())), "{i} {j}");
        }
    }

    proptest! {
        /// Every window gets probabilities between 0 and 1, the same every time.
        #[test]
        fn probabilities_are_probabilities(pairs in prop::collection::vec((1u64..9000, 1u64..900), 1..60)) {
            let (model, features) = (model(), features(&pairs));
            let diagnosis = model.diagnose(&features);
            prop_assert!((0.0..=1.0).contains(&diagnosis.p_receiver), "{diagnosis:?}");
            prop_assert_eq!(diagnosis, model.diagnose(&features));
        }
    }
}
