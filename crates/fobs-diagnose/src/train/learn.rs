//! Retraining for one pair of hosts (001 section 5: "it may be the case that the parameters to the empirical models do
//! vary between architectures, making it necessary to retrain the classifier").
//!
//! A pair shows few of the ways to lose packets, so a model of its windows alone would forget the others. The shipped
//! model stays, whole; beside its sub-causes of the receiver and of the network come copies of those that the pair's
//! windows resemble most, moved to where the windows are. What was shipped is what the copies are expected to be like.
//!
//! Labels are the receiver's counters, which may be wrong or lie. A window whose label the shipped model denies
//! teaches nothing: a receiver's that looks like the network's is such a claim, a network's that looks like a
//! receiver's is a blackout, which no pattern tells from one. And the outcome must be no worse than the shipped model
//! on windows that it has not seen, and call no window of congestion the receiver's that the shipped one does not.

use std::collections::BTreeMap;

use fobs_proto::loss_cause::mixture::{Diagnosis, Group, LOST_MIN, Mixture};
use fobs_proto::loss_cause::witness::Pattern;
use fobs_proto::loss_cause::{Features, Verdict};

use super::regression::{self, Fitted, Prior, Sample};
use crate::model::{Learned, MixtureFile, SubCauseFile};
use crate::splice::splices;
use crate::{Cause, Window, window};

/// Windows of a group without which its sub-causes stay as they were shipped (`docs/classifier.md`: trained on 32
/// windows of receivers a mixture found 96.5% of the others, on 8 only 53%).
pub const GROUP_WINDOWS_MIN: usize = super::RECEIVER_WINDOWS_MIN;
/// Windows that a copy of a sub-cause is fitted to at least: fewer than features are no reason to move it.
const COPY_WINDOWS_MIN: usize = 8;
/// How much the shipped means resist: the level gives way to a few windows; that features grow with losses and bursts
/// as they do is geometry, the same on all hosts, and the windows of a pair seldom span enough of them to know better.
/// In windows, for a slope in windows one doubling of the covariate from the middle.
const LEVEL_STIFFNESS: f64 = 4.0;
const SLOPE_STIFFNESS: f64 = 64.0;
/// Windows that the shipped scale counts as.
const PRIOR_WINDOWS: f64 = 8.0;
/// What the copies together weigh beside the shipped sub-causes of their group, the boldest first; the first that passes the
/// trial is taken. At most as much, so that no shipped one loses more than half of its weight.
const COPIES_WEIGHTS: [f64; 3] = [1.0, 0.25, 0.0625];
/// Parts of the windows, whole transfers, each judged by a model that knows only the others.
const PARTS: usize = 5;
/// Length of the windows of congestion that the outcome is held to, packets.
const CONGESTION_PACKETS: u32 = 10_000;
/// Share of the congestion that the shipped model calls the network's that must be called so still. What is inconclusive is
/// treated as the network's, but no longer denies a receiver that claims it.
const CONGESTION_KEPT: f64 = 0.95;
/// Windows in which receiver and network both lost, made for each part; and what share of them may be called the receiver's: the
/// bar of `score`, or what the shipped model reaches.
const SPLICED: usize = 100;
const SPLICED_SHARE_MAX: f64 = 0.005;
/// Draws the windows that are spliced; the same for everyone.
const SEED: u64 = 0x1ea2;

/// Why the shipped model stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotLearned {
    /// Not enough to learn from, or all of one transfer.
    #[error(
        "{receiver} windows of the receiver and {network} of the network from {transfers} transfers are too few: \
         {GROUP_WINDOWS_MIN} of one of them and 2 transfers are needed"
    )]
    TooFew {
        /// Usable windows with cause cpu.
        receiver: usize,
        /// Usable windows with cause net.
        network: usize,
        /// Transfers that they are from.
        transfers: usize,
    },
    /// On windows left out of training it was worse somewhere, or better nowhere.
    #[error("on windows left out of training the shipped model does as well or better")]
    NoBetter,
    /// The model or the windows to start from cannot be used.
    #[error("the model to start from cannot be used: {0}")]
    Base(String),
}

/// The shipped model with what the windows of a pair of hosts (causes cpu and net, `run` is the transfer) teach.
///
/// # Errors
/// [`NotLearned`], where there is too little to learn from or nothing to gain.
pub fn learn(shipped: &MixtureFile, windows: &[Window]) -> Result<MixtureFile, NotLearned> {
    let base = shipped.build().map_err(NotLearned::Base)?;
    let usable: Vec<&Window> = windows.iter().filter(|window| is_usable(&base, window)).collect();
    let count = |cause| usable.iter().filter(|window| window.cause == Some(cause)).count();
    let (receiver, network) = (count(Cause::Cpu), count(Cause::Net));
    let mut transfers: Vec<u64> = usable.iter().map(|window| window.run).collect();
    transfers.sort_unstable();
    transfers.dedup();
    let taught = |weight| Taught {
        receiver: receiver >= GROUP_WINDOWS_MIN,
        network: network >= GROUP_WINDOWS_MIN,
        weight,
    };
    if receiver.max(network) < GROUP_WINDOWS_MIN || transfers.len() < 2 {
        return Err(NotLearned::TooFew { receiver, network, transfers: transfers.len() });
    }
    let congestion = congestion()?;
    for taught in COPIES_WEIGHTS.map(taught) {
        let mut trial = Trial::default();
        for part in 0..PARTS.min(transfers.len()) {
            let place = |window: &Window| transfers.binary_search(&window.run).unwrap_or(0) % PARTS;
            let (out, kept): (Vec<&Window>, Vec<&Window>) =
                usable.iter().copied().partition(|window| place(window) == part);
            let candidate = taught.adapt(shipped, &base, &kept).build().map_err(NotLearned::Base)?;
            trial.judge(&base, &candidate, &out, &congestion, part as u64);
        }
        let learned = taught.adapt(shipped, &base, &usable);
        let candidate = learned.build().map_err(NotLearned::Base)?;
        trial.judge(&base, &candidate, &[], &congestion, PARTS as u64);
        if trial.is_passed() {
            return Ok(learned);
        }
    }
    Err(NotLearned::NoBetter)
}

/// Whether the shipped model lets its label stand.
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

/// Which groups have enough windows, and how much what is made of them shall weigh.
#[derive(Debug, Clone, Copy)]
struct Taught {
    receiver: bool,
    network: bool,
    weight: f64,
}

impl Taught {
    fn group(self, window: &Window) -> Option<Group> {
        match window.cause {
            Some(Cause::Cpu) if self.receiver => Some(Group::Receiver),
            Some(Cause::Net) if self.network => Some(Group::Network),
            _ => None,
        }
    }

    /// The shipped model and copies of its sub-causes, moved to these windows.
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

/// A copy of a sub-cause, as these windows have it.
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
        mean: fitted.mean.map(|row| row.map(super::rounded)),
        scale: fitted.scale.map(|row| row.map(super::rounded)),
    }
}

/// Windows of congestion of every kind that is known: six of each of sixteen scenarios, drawn once and kept, so that
/// what a pair of hosts may learn does not depend on a generator.
fn congestion() -> Result<Vec<Window>, NotLearned> {
    let lines = include_str!("../../models/congestion.jsonl").lines();
    lines.map(|line| window::parse(line).map_err(NotLearned::Base)).collect()
}

/// What both models made of windows that the candidates had not seen: shipped first, candidate second.
#[derive(Debug, Default)]
struct Trial {
    receiver_found: [u32; 2],
    receiver_denied: [u32; 2],
    network_found: [u32; 2],
    congestion_found: [u32; 2],
    /// Windows of the network, or of congestion, that only the candidate calls the receiver's.
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
            .flat_map(|window| window.slices(CONGESTION_PACKETS))
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
