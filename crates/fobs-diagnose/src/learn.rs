//! A model for one pair of hosts, trained after a transfer (001 section 5: "it may be the case that the
//! parameters to the empirical models do vary between architectures, making it necessary to retrain the
//! classifier").
//!
//! The windows of one pair show few of the ways to lose packets, so a model of them alone would miss the
//! others. The shipped model stays whole; copies of the sub-causes that the pair's windows resemble most are
//! added to it, moved to those windows. The shipped sub-cause is the prior of its copy.
//!
//! Labels are the receiver's counters, which may be wrong or forged. A window whose label the shipped model
//! contradicts is left out: a receiver's window that looks like the network's may be a false claim, and a
//! network's window that looks like a receiver's is a blackout, which no pattern tells from a stalled
//! receiver. The trained model replaces the shipped one only if it is no worse on windows that it was not
//! trained on, and blames the receiver for no window of congestion that the shipped one does not
//! (docs/classifier.md, "Learning").

use std::collections::BTreeMap;

use fobs_proto::loss_cause::mixture::{Diagnosis, Group, LOST_MIN, Mixture};
use fobs_proto::loss_cause::witness::Pattern;
use fobs_proto::loss_cause::{Features, Verdict};

use crate::model::{Learned, MixtureFile, SubCauseFile};
use crate::regression::{self, Fitted, Prior, Sample};
use crate::splice::splices;
use crate::{Cause, Window, congestion};

/// Labelled windows of a group without which its sub-causes stay as shipped: trained on 32 windows of
/// receivers, a mixture found 96.5% of the others, on 8 only 53% (docs/classifier.md).
pub const GROUP_WINDOWS_MIN: usize = 32;
/// Fewest windows that a copy of a sub-cause is fitted to; features number six.
const COPY_WINDOWS_MIN: usize = 8;
/// Resistance of the shipped level and slopes, in windows (for a slope, windows one doubling of the covariate
/// from the middle). The level gives way to a few windows. Slopes follow from geometry, the same on all
/// hosts, and the windows of one pair seldom span enough loss to estimate them.
const LEVEL_STIFFNESS: f64 = 4.0;
const SLOPE_STIFFNESS: f64 = 64.0;
/// Weight of the shipped scale, in windows.
const PRIOR_WINDOWS: f64 = 8.0;
/// Weights of all copies together relative to the shipped sub-causes of their group, tried in this order
/// until one passes the trial. At most 1, so that no shipped sub-cause loses more than half of its weight.
const COPIES_WEIGHTS: [f64; 3] = [1.0, 0.25, 0.0625];
/// Parts that the transfers are divided into; each part is judged by a model trained on the others.
const PARTS: usize = 5;
/// Share of the congestion that the shipped model calls the network's which the trained one must still call
/// so. An inconclusive verdict is treated as the network's, but no longer contradicts a receiver's claim.
const CONGESTION_KEPT: f64 = 0.95;
/// Windows in which both lost packets, made for each part.
const SPLICED: usize = 100;
/// Largest share of them that may be called the receiver's, unless the shipped model reaches more: the bar
/// that `fobs-lab diagnose eval` applies.
const SPLICED_SHARE_MAX: f64 = 0.005;
/// Seed of the spliced windows; fixed, so that every host makes the same decision from the same windows.
const SEED: u64 = 0x1ea2;

/// Why the shipped model stays in use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotLearned {
    /// Too few usable windows, or all from one transfer.
    #[error(
        "{receiver} windows of the receiver and {network} of the network from {transfers} transfers are too few: \
         {GROUP_WINDOWS_MIN} of one of them and 2 transfers are needed"
    )]
    TooFew {
        /// Usable windows with cause cpu.
        receiver: usize,
        /// Usable windows with cause net.
        network: usize,
        /// Transfers that the windows are from.
        transfers: usize,
    },
    /// On windows left out of training, the trained model was worse somewhere or better nowhere.
    #[error("on windows left out of training the shipped model does as well or better")]
    NoBetter,
    /// The shipped model is invalid.
    #[error("the model to start from cannot be used: {0}")]
    Base(String),
}

/// The shipped model extended by the windows of a pair of hosts: causes cpu and net, `run` numbers the
/// transfer.
///
/// # Errors
/// [`NotLearned`] if there are too few windows, or the trained model is no better than the shipped one.
pub fn learn(shipped: &MixtureFile, windows: &[Window]) -> Result<MixtureFile, NotLearned> {
    let base = shipped.build().map_err(NotLearned::Base)?;
    let usable: Vec<&Window> = windows.iter().filter(|window| is_usable(&base, window)).collect();
    let count = |cause| usable.iter().filter(|window| window.cause == Some(cause)).count();
    let (receiver, network) = (count(Cause::Cpu), count(Cause::Net));
    let mut transfers: Vec<u64> = usable.iter().map(|window| window.run).collect();
    transfers.sort_unstable();
    transfers.dedup();
    if receiver.max(network) < GROUP_WINDOWS_MIN || transfers.len() < 2 {
        return Err(NotLearned::TooFew { receiver, network, transfers: transfers.len() });
    }
    let copies = |weight| Copies {
        receiver: receiver >= GROUP_WINDOWS_MIN,
        network: network >= GROUP_WINDOWS_MIN,
        weight,
    };
    let congestion = congestion::windows();
    for copies in COPIES_WEIGHTS.map(copies) {
        let mut trial = Trial::default();
        for part in 0..PARTS.min(transfers.len()) {
            let place = |window: &Window| transfers.binary_search(&window.run).unwrap_or(0) % PARTS;
            let (out, kept): (Vec<&Window>, Vec<&Window>) =
                usable.iter().copied().partition(|window| place(window) == part);
            let candidate = copies.adapt(shipped, &base, &kept).build().map_err(NotLearned::Base)?;
            trial.judge(&base, &candidate, &out, &congestion, part as u64);
        }
        let learned = copies.adapt(shipped, &base, &usable);
        let candidate = learned.build().map_err(NotLearned::Base)?;
        trial.judge(&base, &candidate, &[], &congestion, PARTS as u64);
        if trial.is_passed() {
            return Ok(learned);
        }
    }
    Err(NotLearned::NoBetter)
}

/// Whether the shipped model does not contradict the window's label.
fn is_usable(base: &Mixture, window: &Window) -> bool {
    let Some(features) = Features::of(&window.signature).filter(|features| features.lost >= LOST_MIN) else {
        return false;
    };
    let Diagnosis { p_receiver, p_mixed, .. } = base.diagnose(&features);
    match window.cause {
        Some(Cause::Cpu) => !Pattern { p_receiver, p_mixed }.denies_receiver(),
        Some(Cause::Net) => Verdict::from_probability(p_receiver) != Verdict::Receiver,
        Some(Cause::Hybrid) | None => false,
    }
}

/// Which groups have enough windows for copies, and the weight of the copies ([`COPIES_WEIGHTS`]).
#[derive(Debug, Clone, Copy)]
struct Copies {
    receiver: bool,
    network: bool,
    weight: f64,
}

impl Copies {
    fn group(self, window: &Window) -> Option<Group> {
        match window.cause {
            Some(Cause::Cpu) if self.receiver => Some(Group::Receiver),
            Some(Cause::Net) if self.network => Some(Group::Network),
            _ => None,
        }
    }

    /// The shipped model with copies of its sub-causes, fitted to these windows.
    fn adapt(self, shipped: &MixtureFile, base: &Mixture, windows: &[&Window]) -> MixtureFile {
        let mut samples: BTreeMap<usize, Vec<Sample>> = BTreeMap::new();
        for window in windows {
            if let Some(group) = self.group(window)
                && let Some(features) = Features::of(&window.signature)
                && let Some(like) = base.likeliest_of(group, &features)
            {
                let sample = Sample { values: features.values(), covariates: features.covariates() };
                samples.entry(like).or_default().push(sample);
            }
        }
        samples.retain(|_, samples| samples.len() >= COPY_WINDOWS_MIN);
        let mut model = shipped.clone();
        for (index, own) in &samples {
            let like = &shipped.sub_causes[*index];
            let of_group =
                || shipped.sub_causes.iter().filter(|sub| sub.group == like.group).map(|sub| sub.share);
            let fitted_of_group: usize = samples
                .iter()
                .filter(|(other, _)| shipped.sub_causes[**other].group == like.group)
                .map(|(_, samples)| samples.len())
                .sum();
            let share = self.weight * of_group().sum::<f64>() * own.len() as f64 / fitted_of_group as f64;
            model.sub_causes.push(moved(like, own, share));
        }
        model.made = format!("the shipped model and {} windows of one pair of hosts", windows.len());
        model.learned = Some(Learned { windows: windows.len() as u32, shipped: MixtureFile::shipped_mark() });
        model
    }
}

/// A copy of a sub-cause, fitted to these windows.
fn moved(like: &SubCauseFile, samples: &[Sample], share: f64) -> SubCauseFile {
    let expected = Fitted { mean: like.mean, scale: like.scale };
    let prior = Prior {
        expected,
        stiffness: regression::stiffness(samples, LEVEL_STIFFNESS, SLOPE_STIFFNESS),
        windows: PRIOR_WINDOWS,
    };
    let fitted = regression::fit(samples, &prior);
    SubCauseFile {
        name: format!("{}, here", like.name),
        group: like.group.clone(),
        share,
        windows: samples.len(),
        mean: fitted.mean.map(|row| row.map(rounded)),
        scale: fitted.scale.map(|row| row.map(rounded)),
    }
}

/// Rounded to 1e-6, so that a person can read the file.
pub fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Counts of verdicts on windows that the candidate was not trained on: shipped model first, candidate
/// second.
#[derive(Debug, Default)]
struct Trial {
    receiver_found: [u32; 2],
    receiver_denied: [u32; 2],
    network_found: [u32; 2],
    congestion_found: [u32; 2],
    /// Windows of the network that only the candidate calls the receiver's.
    newly_blamed: u32,
    spliced: u32,
    spliced_blamed: [u32; 2],
}

impl Trial {
    fn judge(
        &mut self,
        base: &Mixture,
        candidate: &Mixture,
        out: &[&Window],
        congestion: &[Window],
        part: u64,
    ) {
        let verdicts = |window: &Window| {
            let features = Features::of(&window.signature)?;
            Some([base, candidate].map(|model| model.diagnose(&features).verdict()))
        };
        for window in out {
            let Some(verdicts) = verdicts(window) else { continue };
            match window.cause {
                Some(Cause::Cpu) => {
                    count(&mut self.receiver_found, verdicts, Verdict::Receiver);
                    count(&mut self.receiver_denied, verdicts, Verdict::Network);
                }
                _ => {
                    count(&mut self.network_found, verdicts, Verdict::Network);
                    self.newly_blamed += newly_blamed(verdicts);
                }
            }
        }
        for verdicts in congestion.iter().filter_map(verdicts) {
            count(&mut self.congestion_found, verdicts, Verdict::Network);
            self.newly_blamed += newly_blamed(verdicts);
        }
        let receivers: Vec<Window> = out
            .iter()
            .filter(|window| window.cause == Some(Cause::Cpu))
            .flat_map(|window| window.slices(congestion::PACKETS))
            .collect();
        let parts: Vec<&Window> = receivers.iter().chain(congestion).collect();
        for window in splices(&parts, SPLICED, SEED ^ part) {
            let Some(verdicts) = verdicts(&window) else { continue };
            self.spliced += 1;
            count(&mut self.spliced_blamed, verdicts, Verdict::Receiver);
        }
    }

    fn is_passed(&self) -> bool {
        let no_worse = self.receiver_found[1] >= self.receiver_found[0]
            && self.receiver_denied[1] <= self.receiver_denied[0]
            && self.network_found[1] >= self.network_found[0]
            && f64::from(self.congestion_found[1]) >= CONGESTION_KEPT * f64::from(self.congestion_found[0])
            && self.newly_blamed == 0;
        let spliced_max = f64::from(self.spliced_blamed[0]).max(SPLICED_SHARE_MAX * f64::from(self.spliced));
        let better =
            self.receiver_found[1] > self.receiver_found[0] || self.network_found[1] > self.network_found[0];
        no_worse && f64::from(self.spliced_blamed[1]) <= spliced_max && better
    }
}

fn count(counts: &mut [u32; 2], verdicts: [Verdict; 2], wanted: Verdict) {
    for (count, verdict) in counts.iter_mut().zip(verdicts) {
        *count += u32::from(verdict == wanted);
    }
}

fn newly_blamed([before, after]: [Verdict; 2]) -> u32 {
    u32::from(after == Verdict::Receiver && before != Verdict::Receiver)
}
