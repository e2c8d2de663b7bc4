//! A model from labelled windows.
//!
//! Windows are grouped into sub-causes by label and by the shape of their runs; a regression with Student t
//! deviations is fitted to each. Windows in which both sides lost packets are made of the others
//! ([`fobs_diagnose::splice`]): they distinguish a receiver's blocks with random loss added from pure ones.

use std::collections::BTreeMap;

use fobs_diagnose::learn::rounded;
use fobs_diagnose::model::{MixtureFile, SubCauseFile, VERSION};
use fobs_diagnose::regression::{self, Prior, Sample};
use fobs_diagnose::splice::{INDISTINCT, NETWORK_SHARE_MIN, splices};
use fobs_diagnose::{Cause, Window};
use fobs_proto::loss_cause::Features;
use fobs_proto::loss_cause::features::FEATURE_NAMES;

/// Fewest windows of a scenario and shape for a sub-cause of its own; smaller groups of a shape are merged.
const OWN_MIN: usize = 40;
/// Fewest windows of any sub-cause: a covariance of six features needs more than six.
const POOL_MIN: usize = 12;
/// Packets that windows are cut to for training; 0: uncut.
const LENGTHS: [u32; 2] = [0, 10_000];
/// Spliced windows of each length.
const SPLICED: usize = 1500;
/// Fewest labelled windows of the receiver and of the network.
const LABELLED_MIN: usize = fobs_diagnose::learn::GROUP_WINDOWS_MIN;
/// Prior weights of receiver, network and mixed. Chosen with [`RESIDUAL`] on windows left out of training: a
/// higher weight for mixed windows loses more of the receiver's windows than it gains of the mixed ones.
const PRIORS: [f64; 3] = [1.0, 1.0, 0.6];
/// Packets and share of the losses that may lie in short runs; chosen on windows left out of training
/// (docs/classifier.md).
const RESIDUAL: (u32, f64) = (4, 0.15);

/// Why no model was trained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrainError {
    /// Too few labelled windows.
    #[error(
        "{receiver} windows of the receiver and {network} of the network are too few to train with: give at least \
         {LABELLED_MIN} of each (cause cpu and net, at least 8 packets lost)"
    )]
    TooFew {
        /// Usable windows with cause cpu.
        receiver: usize,
        /// Usable windows with cause net.
        network: usize,
    },
}

/// Trains a model on these windows; `made` is a note in the file, `seed` selects the windows that are
/// spliced.
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
    if receiver < LABELLED_MIN || network < LABELLED_MIN {
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

/// The group of a window: groups become sub-causes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    group: &'static str,
    /// Empty: any scenario.
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

/// The group and features of a window; `None` for one that is not used in training.
fn labelled(window: &Window) -> Option<(Key, Sample)> {
    let cause = window.cause?;
    let features = Features::of(&window.signature)?;
    if cause == Cause::Net && INDISTINCT.contains(&window.scenario.as_str()) {
        return None;
    }
    let sample = Sample { values: features.values(), covariates: features.covariates() };
    let key = match cause {
        // Not by scenario: there are few windows of each way to disturb a receiver.
        Cause::Cpu if features.lost >= 8 => {
            Key { group: "receiver", scenario: String::new(), shape: shape(&features) }
        }
        Cause::Cpu => return None,
        Cause::Net => Key { group: "network", scenario: window.scenario.clone(), shape: shape(&features) },
        Cause::Hybrid => {
            let share = match window.network_share()? {
                share if share < NETWORK_SHARE_MIN => return None,
                share if share < 0.15 => "5 to 15% in the network",
                share if share < 0.5 => "15 to 50% in the network",
                _ => "most in the network",
            };
            Key { group: "mixed", scenario: String::new(), shape: share }
        }
    };
    Some((key, sample))
}

/// The class of the run length that half of the losses reach.
fn shape(features: &Features) -> &'static str {
    match features.median_run {
        0..=1 => "single losses",
        2..=7 => "short runs",
        8..=63 => "blocks",
        64..=511 => "long blocks",
        _ => "very long blocks",
    }
}

/// Merges the scenarios of a shape that have too few windows.
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
