//! A model from labelled windows.
//!
//! Windows are put into sub-causes by label and by the shape of their runs; to each, a regression with Student t
//! deviations is fitted. Windows in which both sides lost are made of the others ([`crate::splice`]): without them,
//! nothing would speak against a receiver's blocks with some random loss on top.

mod learn;
mod regression;
mod validate;

pub use learn::{GROUP_WINDOWS_MIN, NotLearned, learn};
pub use validate::{Validation, validate};

use std::collections::BTreeMap;

use fobs_proto::loss_cause::Features;
use fobs_proto::loss_cause::features::FEATURE_NAMES;

use crate::model::{MixtureFile, SubCauseFile, VERSION};
use crate::splice::{INDISTINCT, splices};
use crate::{Cause, Window};
use regression::{Prior, Sample};

/// Windows a scenario and shape must have for a sub-cause of its own; smaller ones are put together.
const OWN_MIN: usize = 40;
/// Windows without which there is no sub-cause: a covariance of six features needs more than six.
const POOL_MIN: usize = 12;
/// Lengths that windows are cut to for training, besides their own.
pub const LENGTHS: [u32; 2] = [0, 10_000];
/// Spliced windows of each length.
const SPLICED: usize = 1500;
/// Labelled windows of the receiver without which a model is not better than the shipped one: with 32 it found 96.5%
/// of the receiver's windows, with 8 only 53% (`docs/classifier.md`).
pub const RECEIVER_WINDOWS_MIN: usize = 32;
/// Weights of receiver, network and mixed before anything is seen. Chosen with [`RESIDUAL`] on windows left out of
/// training: a higher one for mixed windows costs more of the receiver's than it saves of those.
const PRIORS: [f64; 3] = [1.0, 1.0, 0.6];
/// Packets and share of the losses that may lie in short runs; chosen on windows left out of training
/// (`docs/classifier.md`).
const RESIDUAL: (u32, f64) = (4, 0.15);

/// Why there is no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrainError {
    /// Not enough to learn from.
    #[error(
        "{receiver} windows of the receiver and {network} of the network are too few to train with: give at least \
         {RECEIVER_WINDOWS_MIN} of each (cause cpu and net, at least 8 packets lost)"
    )]
    TooFew {
        /// Usable windows with cause cpu.
        receiver: usize,
        /// Usable windows with cause net.
        network: usize,
    },
}

/// Trains on these windows; `made` is a note for people who read the file, `seed` chooses which windows are spliced.
pub fn train(windows: &[Window], seed: u64, made: &str) -> Result<MixtureFile, TrainError> {
    let mut groups: BTreeMap<Key, Vec<Sample>> = BTreeMap::new();
    let (mut receiver, mut network) = (0, 0);
    for length in LENGTHS {
        let cut: Vec<Window> = windows
            .iter()
            .filter(|window| length == 0 || window.signature.packets() > length)
            .flat_map(|window| window.slices(length))
            .collect();
        for window in &cut {
            if let Some((key, sample)) = labelled(window) {
                receiver += usize::from(key.group == "receiver");
                network += usize::from(key.group == "network");
                groups.entry(key).or_default().push(sample);
            }
        }
        for window in splices(&cut.iter().collect::<Vec<_>>(), SPLICED, seed ^ u64::from(length)) {
            if let Some((key, sample)) = labelled(&window) {
                groups.entry(key).or_default().push(sample);
            }
        }
    }
    if receiver < RECEIVER_WINDOWS_MIN || network < RECEIVER_WINDOWS_MIN {
        return Err(TrainError::TooFew { receiver, network });
    }
    let sub_causes = pool(groups).into_iter().filter(|(_, samples)| samples.len() >= POOL_MIN);
    let sub_causes = sub_causes.map(|(key, samples)| {
        let fitted = regression::fit(&samples, &Prior::none());
        SubCauseFile {
            name: key.name(),
            group: key.group.to_owned(),
            share: 1.0,
            windows: samples.len(),
            mean: fitted.mean.map(|row| row.map(rounded)),
            scale: fitted.scale.map(|row| row.map(rounded)),
        }
    });
    Ok(MixtureFile {
        version: VERSION,
        method: "signature".to_owned(),
        made: made.to_owned(),
        features: FEATURE_NAMES.map(str::to_owned).to_vec(),
        priors: PRIORS,
        residual: RESIDUAL,
        learned: None,
        sub_causes: sub_causes.collect(),
    })
}

/// Enough digits, and a file that a person can read.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// What windows are put together by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    group: &'static str,
    /// Empty: of any.
    scenario: String,
    shape: &'static str,
}

impl Key {
    fn name(&self) -> String {
        match self.scenario.as_str() {
            "" => format!("{}: {}", self.group, self.shape),
            scenario => format!("{}, {scenario}: {}", self.group, self.shape),
        }
    }
}

/// Where a window belongs; `None` if it is of no use.
fn labelled(window: &Window) -> Option<(Key, Sample)> {
    let cause = window.cause?;
    let features = Features::of(&window.signature)?;
    if cause == Cause::Net && INDISTINCT.contains(&window.scenario.as_str()) {
        return None;
    }
    let sample = Sample { values: features.values(), covariates: features.covariates() };
    let key = match cause {
        // How a receiver was disturbed is not what matters, and there are few windows of each kind.
        Cause::Cpu if features.lost >= 8 => {
            Key { group: "receiver", scenario: String::new(), shape: shape(&features) }
        }
        Cause::Cpu => return None,
        Cause::Net => Key { group: "network", scenario: window.scenario.clone(), shape: shape(&features) },
        Cause::Hybrid => {
            let share = match window.network_share()? {
                share if share < crate::splice::NETWORK_SHARE_MIN => return None,
                share if share < 0.15 => "5 to 15% in the network",
                share if share < 0.5 => "15 to 50% in the network",
                _ => "most in the network",
            };
            Key { group: "mixed", scenario: String::new(), shape: share }
        }
    };
    Some((key, sample))
}

/// By the gaps, where they are on a lattice, or the run length that half of the losses reach.
fn shape(features: &Features) -> &'static str {
    match features.median_run {
        0..=1 => "single losses",
        2..=7 => "short runs",
        8..=63 => "blocks",
        64..=511 => "long blocks",
        _ => "very long blocks",
    }
}

/// Puts scenarios that are too small for themselves together by shape.
fn pool(groups: BTreeMap<Key, Vec<Sample>>) -> BTreeMap<Key, Vec<Sample>> {
    let mut pooled: BTreeMap<Key, Vec<Sample>> = BTreeMap::new();
    for (mut key, samples) in groups {
        if samples.len() < OWN_MIN {
            key.scenario.clear();
        }
        pooled.entry(key).or_default().extend(samples);
    }
    pooled
}
