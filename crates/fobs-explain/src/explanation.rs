//! The explanation of a transfer: its limit in a sentence, with evidence, a fix and a prediction.

use super::aligned::aligned;
use super::causes::{Cause, Causes, Certainty, Stretch};
use super::decide::decide;
use super::forecast::Forecast;
use super::limits::{Facts, Limit, Place, Stage, goodput_bps, spare};
use super::losses::{LossCause, losses};
use super::rates::{Bound, Prediction};
use super::remedies;
use super::trace::{End, Trace};
use fobs_model::words::{percent, rate};
use serde::Serialize;

/// Less of the time than this is not listed.
const SHARE_SHOWN: f64 = 0.001;
/// A predicted rate is given from this multiple of the reached one on.
const GAIN_SHOWN: f64 = 1.02;
/// Share of the first cause's time from which on the next one is in the same sentence.
const BESIDE: f64 = 1.0 / 3.0;
/// Most changes of the way that are listed; they grow rarer, so the first ones tell most.
const WAYS_SHOWN_MAX: usize = 12;

/// Why a copy was not faster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// What limited it for the largest part of the time; `None` if nothing was measured.
    pub limit: Option<Limit>,
    /// For which part, 0 to 1.
    pub share: f64,
    /// Probability that it is the one that cost most, 0 to 1.
    pub probability: f64,
    /// Whether that is an answer.
    pub certainty: Certainty,
    /// The limit in one sentence.
    pub sentence: String,
    /// What would help; empty if nothing was measured.
    pub fix: String,
    /// The rate that the fix would give, file bits per second, no more than the path was seen to carry;
    /// `None` where that is unknown.
    pub predicted_bps: Option<f64>,
    /// Whether that is the most that it would give, or the path may carry more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_bound: Option<Bound>,
    /// What `fobs` would make of the same path; of a program of another make, where the path limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fobs: Option<Forecast>,
    /// What would decide, where it is unclear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decide: Option<String>,
    /// Every limit that came into question, the one that cost most first.
    pub causes: Vec<Cause>,
    /// What limited when; empty where one limit did all the time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stretches: Vec<Stretch>,
    /// File bits per second reached.
    pub goodput_bps: f64,
    /// Seconds by which the deadline was met, below 0 if it was missed; `None` without a deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_margin_s: Option<f64>,
    /// Measurements that support it.
    pub evidence: Vec<String>,
    /// Where the time went, in the order in which a byte passes the stages, without those that took none.
    pub budget: Vec<Spent>,
    /// What lost the packets; empty if none were lost.
    pub losses: Vec<LossCause>,
    /// What was done about losses at the receiver and with which effect, in order.
    pub remedies: Vec<String>,
    /// Which ways data took and why, in order; empty where it was UDP alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<String>,
}

/// Time of a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spent {
    /// Which stage.
    pub stage: Stage,
    /// How long.
    pub seconds: f64,
    /// For which part of the time, 0 to 1.
    pub share: f64,
}

/// Explains a transfer: a pure function of its record.
pub fn explain(trace: &Trace) -> Explanation {
    let trace = &Trace { journal: aligned(&trace.journal), ..trace.clone() };
    let found = Causes::of(trace);
    let Some(cause) = found.causes.first().copied() else { return nothing(trace) };
    let Some(facts) = found.segment_of(cause.limit) else { return nothing(trace) };
    let (limit, share) = (cause.limit, cause.share);
    let certainty = found.certainty();
    let predicted = (limit.row().prediction)(facts, share);
    let second = found.next();
    Explanation {
        limit: Some(limit),
        share,
        probability: cause.probability,
        certainty,
        sentence: match certainty {
            Certainty::Clear => sentence(facts, limit, share, beside(&found)),
            Certainty::Unclear => unclear(cause, second),
        },
        fix: fix(facts, limit, predicted),
        predicted_bps: predicted.and_then(|found| gains(facts, found)).map(Prediction::bps),
        predicted_bound: predicted.and_then(|found| gains(facts, found)).map(Prediction::bound),
        fobs: Forecast::of(facts, limit),
        decide: (certainty == Certainty::Unclear)
            .then(|| decide(limit, second.map(|second| second.limit), facts.is_of_another()).to_owned()),
        evidence: facts.sender().map_or_else(Vec::new, |sender| (limit.row().evidence)(facts, sender)),
        budget: spent(&found.facts),
        stretches: if found.stretches.len() > 1 { found.stretches.clone() } else { Vec::new() },
        causes: found.causes.clone(),
        goodput_bps: facts.goodput_bps,
        ..nothing(trace)
    }
}

/// The explanation of a transfer of which nothing was measured.
fn nothing(trace: &Trace) -> Explanation {
    Explanation {
        limit: None,
        share: 0.0,
        probability: 0.0,
        certainty: Certainty::Unclear,
        sentence: "Nothing was measured: the copy was over too soon.".to_owned(),
        fix: String::new(),
        predicted_bps: None,
        predicted_bound: None,
        fobs: None,
        decide: None,
        causes: Vec::new(),
        stretches: Vec::new(),
        goodput_bps: goodput_bps(trace),
        deadline_margin_s: match trace.end {
            End::Done { deadline_margin_s, .. } => deadline_margin_s,
            End::Failed { .. } => None,
        },
        evidence: Vec::new(),
        budget: Vec::new(),
        losses: losses(trace),
        remedies: remedies::lines(trace.journal.remedies()),
        ways: trace.journal.ways().iter().take(WAYS_SHOWN_MAX).map(|at| at.what.to_string()).collect(),
    }
}

fn sentence(facts: &Facts, limit: Limit, share: f64, beside: Option<String>) -> String {
    let row = limit.row();
    let spare = match row.place {
        Place::Ends => spare(facts),
        Place::Network => String::new(),
    };
    let beside = beside.unwrap_or_default();
    format!("{} of the time {}{spare}{beside}.", percent(share), (row.phrase)(facts))
}

/// What limited for a part of the time that is worth saying beside the first cause's.
fn beside(found: &Causes) -> Option<String> {
    let (first, others) = found.causes.split_first()?;
    let second = others.iter().max_by(|a, b| a.share.total_cmp(&b.share))?;
    let facts = found.segment_of(second.limit).filter(|_| second.share >= first.share * BESIDE)?;
    Some(format!("; {} of the time {}", percent(second.share), (second.limit.row().phrase)(facts)))
}

/// The sentence where the measurements do not tell the first two apart.
fn unclear(first: Cause, second: Option<Cause>) -> String {
    let shown = |cause: Cause| format!("{} ({})", cause.limit.description(), percent(cause.probability));
    match second {
        Some(second) => {
            format!("What limited the copy is unclear: it may be {}, or {}.", shown(first), shown(second))
        }
        None => format!("What limited the copy is unclear: it may be {}.", shown(first)),
    }
}

/// A prediction that is worth saying.
fn gains(facts: &Facts, found: Prediction) -> Option<Prediction> {
    (found.bps() > GAIN_SHOWN * facts.goodput_bps).then_some(found)
}

fn fix(facts: &Facts, limit: Limit, predicted: Option<Prediction>) -> String {
    let action = (limit.row().fix)(facts);
    let had = rate(facts.goodput_bps);
    match predicted.map(|found| (gains(facts, found), found.bound())) {
        Some((Some(found), bound)) => format!("{action}{PREDICTED}{}.", gain(found.bps(), bound, &had)),
        Some((None, Bound::AtLeast)) => format!("{action}{PREDICTED}not known: {NOT_TRIED}."),
        Some((None, Bound::UpTo)) | None => format!("{action}."),
    }
}

/// What stands before a prediction, and why one is no more than a lower bound.
const PREDICTED: &str = "; predicted: ";
const NOT_TRIED: &str = "whether the path carries more was not tried";

/// A predicted rate in words, beside the one that the copy had.
fn gain(bps: f64, bound: Bound, had: &str) -> String {
    match bound {
        Bound::UpTo => format!("up to {} instead of {had}", rate(bps)),
        Bound::AtLeast => format!("at least {} instead of {had}; {NOT_TRIED}", rate(bps)),
    }
}

/// Where the time of all segments went.
fn spent(segments: &[Facts]) -> Vec<Spent> {
    let total: f64 = segments.iter().map(|facts| facts.budget.total()).sum();
    let all = Stage::ALL.iter().map(|&stage| {
        let seconds: f64 = segments.iter().map(|facts| facts.budget.seconds(stage)).sum();
        let share = if total > 0.0 { (seconds / total).clamp(0.0, 1.0) } else { 0.0 };
        Spent { stage, seconds, share }
    });
    all.filter(|spent| spent.share >= SHARE_SHOWN).collect()
}

/// With a capital letter at its beginning, but a command as it is typed.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if !text.starts_with("fobs ") && !text.starts_with("sysctl ") => {
            first.to_uppercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

/// What limited when, in a line: `until 2.5 s the bottleneck of the path; then ...`.
fn course(stretches: &[Stretch]) -> String {
    let mut text = String::new();
    for (place, stretch) in stretches.iter().enumerate() {
        let what = stretch.limit.description();
        text += &match (place, place + 1 == stretches.len()) {
            (0, _) => format!("until {:.1} s {what}", stretch.to_s),
            (_, false) => format!("; until {:.1} s {what}", stretch.to_s),
            (_, true) => format!("; since then {what}"),
        };
    }
    text
}

impl Explanation {
    /// What to do, in a sentence: what would help and by how much, what would decide, or that nothing is to
    /// be done.
    pub fn advice(&self) -> String {
        let gain = match self.predicted_bps {
            Some(bps) => {
                let bound = self.predicted_bound.unwrap_or(Bound::UpTo);
                format!(": {}", gain(bps, bound, &rate(self.goodput_bps)))
            }
            None => String::new(),
        };
        // What it would give is said once.
        let fix = self.fix.split(PREDICTED).next().unwrap_or_default().trim_end_matches('.');
        match &self.decide {
            Some(decide) => format!("To know what would help: {decide}."),
            None if fix.is_empty() => "Nothing to do: too little was measured.".to_owned(),
            None => format!("{}{gain}.", capital(fix)),
        }
    }

    /// The whole explanation for a person, in lines.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.sentence);
        if let Some(margin) = self.deadline_margin_s {
            let (outcome, side) = if margin < 0.0 { ("missed", "late") } else { ("met", "to spare") };
            text += &format!("The deadline was {outcome}, with {:.1} s {side}.\n", margin.abs());
        }
        if let Some(decide) = &self.decide {
            text += &format!("To decide: {decide}.\n");
        }
        if !self.stretches.is_empty() {
            text += &format!("Over time: {}.\n", course(&self.stretches));
        }
        if !self.fix.is_empty() {
            text += &format!("What would help: {}\n", self.fix);
        }
        if let Some(forecast) = &self.fobs {
            text += &format!("What fobs would make of this path: {forecast}.\n");
        }
        if !self.evidence.is_empty() {
            text += &format!("Why we think so: {}.\n", self.evidence.join("; "));
        }
        if !self.budget.is_empty() {
            text += "Where the time went:\n";
        }
        for Spent { stage, seconds, share } in &self.budget {
            text += &format!("  {:26} {:>6} {seconds:9.2} s\n", stage.name(), percent(*share));
        }
        for loss in &self.losses {
            let probability = match loss.probability {
                Some(probability) => format!(" with probability {}", percent(probability)),
                None => String::new(),
            };
            let place = LossCause::place(loss.cause);
            text += &format!("Lost packets: {} {place}{probability} ({}).\n", loss.packets, loss.evidence);
        }
        if !self.remedies.is_empty() {
            text += "Remedies for losses at the receiver:\n";
        }
        for remedy in &self.remedies {
            text += &format!("  {remedy}\n");
        }
        if !self.ways.is_empty() {
            text += "Ways that data took:\n";
        }
        for way in &self.ways {
            text += &format!("  {way}\n");
        }
        text
    }
}
