//! Limits with their time and their probability, over the segments of a transfer.

use super::interval::intervals;
use super::kind::PathKind;
use super::limits::{Facts, Limit, Stage};
use super::path::PathProfile;
use super::segment::segments;
use super::trace::Trace;
use serde::Serialize;

/// From this probability on an answer is one.
const CLEAR: f64 = 0.4;
/// And from this distance to the next on.
const AHEAD: f64 = 0.15;

/// A cause that came into question.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cause {
    /// What it is.
    pub limit: Limit,
    /// For which part of the time it limited, 0 to 1.
    pub share: f64,
    /// Probability that it is the one that cost most, 0 to 1.
    pub probability: f64,
}

/// Whether an explanation is an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The first cause is the likeliest by far.
    Clear,
    /// The first two causes are too close, or none fits.
    Unclear,
}

/// A stretch of time in which one thing limited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stretch {
    /// Its beginning, seconds since the session's.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// What limited it.
    pub limit: Limit,
}

/// The causes of a transfer, the one that cost most time first, and what they follow from.
pub(super) struct Causes<'a> {
    pub(super) facts: Vec<Facts<'a>>,
    pub(super) causes: Vec<Cause>,
    pub(super) stretches: Vec<Stretch>,
}

impl<'a> Causes<'a> {
    pub(super) fn of(trace: &'a Trace) -> Causes<'a> {
        let all = intervals(trace);
        let mut facts: Vec<Facts> = Vec::new();
        let mut before: Option<PathProfile> = None;
        for segment in segments(&all) {
            let next = Facts::of_segment(trace, &all, &segment, before);
            // Where another party limited all the time, nothing is known of the path.
            before = Some(next.path).filter(|path| path.rates.carried() > 0.0).or(before);
            facts.push(next);
        }
        let causes = rank(&facts);
        let stretches = stretches(&facts);
        Causes { facts, causes, stretches }
    }

    /// The segment in which a limit took most time.
    pub(super) fn segment_of(&self, limit: Limit) -> Option<&Facts<'a>> {
        let time = |facts: &&Facts| seconds(facts, limit);
        self.facts.iter().max_by(|a, b| time(a).total_cmp(&time(b)))
    }

    /// Whether the first cause is an answer.
    pub(super) fn certainty(&self) -> Certainty {
        let Some(first) = self.causes.first() else { return Certainty::Unclear };
        let next = self.next().map_or(0.0, |next| next.probability);
        if first.probability >= CLEAR && first.probability - next >= AHEAD {
            Certainty::Clear
        } else {
            Certainty::Unclear
        }
    }

    /// The likeliest cause beside the first, which may have taken less time than others.
    pub(super) fn next(&self) -> Option<Cause> {
        self.causes.iter().skip(1).copied().max_by(|a, b| a.probability.total_cmp(&b.probability))
    }
}

/// Seconds that a limit took in a segment. Where an end starves the sender, the path's time is that end's:
/// it was busy meanwhile, and the path had time to spare.
fn seconds(facts: &Facts, limit: Limit) -> f64 {
    let is_lent = |stage: &Stage| facts.fills_its_path() && OF_THE_CPU.contains(stage);
    let stages = (limit.row().stages)(facts).iter().filter(|stage| !is_lent(stage));
    let own: f64 = stages.map(|&stage| facts.budget.seconds(stage)).sum();
    let own = if limit == limit_of(facts.path.kind) { own + lent_seconds(facts) } else { own };
    match facts.starves() {
        Some(end) if end == limit => own + path_seconds(facts),
        Some(_) if limit == limit_of(facts.path.kind) => own - path_seconds(facts),
        _ => own,
    }
}

/// Stages of a sender that computes, or waits for a CPU. A receiver that does empties its socket at a steady
/// rate behind a queue as a path would: that rate is its own.
const OF_THE_CPU: &[Stage] = &[Stage::Hashing, Stage::Sealing, Stage::SenderCpu];

/// Seconds of these stages where the path had all that it carries all the same: more CPU would gain nothing.
fn lent_seconds(facts: &Facts) -> f64 {
    let time = || OF_THE_CPU.iter().map(|&stage| facts.budget.seconds(stage)).sum();
    if facts.fills_its_path() { time() } else { 0.0 }
}

/// Seconds in which the sender waited for the path.
fn path_seconds(facts: &Facts) -> f64 {
    facts.budget.seconds(Stage::Pacing) + facts.budget.seconds(Stage::CongestionWindow) + lent_seconds(facts)
}

/// The limit that has the path's stages if it is of this kind.
fn limit_of(kind: PathKind) -> Limit {
    match kind {
        PathKind::Narrow => Limit::NarrowPath,
        PathKind::Competing => Limit::CompetingTraffic,
        PathKind::Reordering => Limit::Reordering,
        PathKind::ReturnPath => Limit::ReturnPath,
        PathKind::Changed => Limit::RouteChange,
        PathKind::Policed => Limit::Policer,
        PathKind::Lossy => Limit::RandomLoss,
        PathKind::Untried => Limit::StartUp,
    }
}

/// Limits by their time; those that took none but are likely stand behind.
fn rank(facts: &[Facts]) -> Vec<Cause> {
    let total: f64 = facts.iter().map(|facts| facts.budget.total()).sum();
    if total <= 0.0 {
        return Vec::new();
    }
    let mut shares = vec![0.0; Limit::ALL.len()];
    let mut expected = vec![0.0; Limit::ALL.len()];
    for facts in facts {
        let path = if facts.starves().is_some() { 0.0 } else { path_seconds(facts) };
        for (place, &limit) in Limit::ALL.iter().enumerate() {
            let time = seconds(facts, limit);
            shares[place] += time / total;
            // The stages of the path are divided by how likely each kind is.
            let of_the_path = if limit == limit_of(facts.path.kind) { path } else { 0.0 };
            expected[place] += (time - of_the_path) / total;
        }
        for (kind, probability) in PathKind::ALL.iter().copied().zip(facts.path.probabilities) {
            let place = Limit::ALL.iter().position(|&limit| limit == limit_of(kind)).unwrap_or(0);
            expected[place] += probability * path / total;
        }
    }
    // What no kind explains counts as one more cause.
    let rest = (1.0 - expected.iter().sum::<f64>()).max(0.0);
    let weights: f64 = expected.iter().map(|share| share.max(0.0)).sum::<f64>() + rest;
    let mut causes: Vec<Cause> = Limit::ALL
        .iter()
        .enumerate()
        .map(|(place, &limit)| Cause {
            limit,
            share: shares[place].clamp(0.0, 1.0),
            probability: if weights > 0.0 { expected[place].max(0.0) / weights } else { 0.0 },
        })
        .filter(|cause| cause.share >= SHARE_SHOWN || cause.probability >= SHARE_SHOWN)
        .collect();
    causes.sort_by(|a, b| b.share.total_cmp(&a.share).then(b.probability.total_cmp(&a.probability)));
    // Of causes that are not told apart by their time, the likelier is first.
    if let [first, second, ..] = &causes[..]
        && second.probability > first.probability
    {
        causes.swap(0, 1);
    }
    causes
}

/// Less of the time, or a smaller probability, is not listed.
const SHARE_SHOWN: f64 = 0.01;

/// What limited when; neighbours with one limit are one stretch.
fn stretches(facts: &[Facts]) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    for facts in facts {
        let time = |limit: &&Limit| seconds(facts, **limit);
        let Some(&limit) = Limit::ALL.iter().max_by(|a, b| time(a).total_cmp(&time(b))) else { continue };
        match found.last_mut() {
            Some(last) if last.limit == limit => last.to_s = facts.to_s,
            _ => found.push(Stretch { from_s: facts.from_s, to_s: facts.to_s, limit }),
        }
    }
    found
}
