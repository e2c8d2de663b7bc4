//! The explanation of a transfer: its limit in a sentence, with evidence, a fix and a prediction.

use super::limits::{Facts, Limit, Place, Stage, spare};
use super::losses::{LossCause, losses};
use super::remedies;
use super::trace::{End, Trace};
use super::words::{percent, rate};
use serde::Serialize;

/// Less of the time than this is not listed.
const SHARE_SHOWN: f64 = 0.001;
/// A predicted rate is given from this multiple of the reached one on.
const GAIN_SHOWN: f64 = 1.02;
/// Most changes of the way that are listed; they grow rarer, so the first ones tell most.
const WAYS_SHOWN_MAX: usize = 12;

/// Why a copy was not faster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// What limited it for the largest part of the time; `None` if nothing was measured.
    pub limit: Option<Limit>,
    /// For which part, 0 to 1.
    pub share: f64,
    /// The limit in one sentence.
    pub sentence: String,
    /// What would help; empty if nothing was measured.
    pub fix: String,
    /// The rate that the fix would give at most, file bits per second; `None` where that is unknown.
    pub predicted_bps: Option<f64>,
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
    let facts = Facts::of(trace);
    let (top, share) = largest(&facts);
    let limit = (share > 0.0).then_some(top);
    let predicted_bps = limit.and_then(|limit| predicted(&facts, limit, share));
    Explanation {
        limit,
        share,
        sentence: match limit {
            Some(limit) => sentence(&facts, limit, share),
            None => "Nothing was measured: the copy was over too soon.".to_owned(),
        },
        fix: limit.map_or_else(String::new, |limit| fix(&facts, limit, predicted_bps)),
        predicted_bps,
        goodput_bps: facts.goodput_bps,
        deadline_margin_s: match trace.end {
            End::Done { deadline_margin_s, .. } => deadline_margin_s,
            End::Failed { .. } => None,
        },
        evidence: limit
            .zip(facts.sender())
            .map_or_else(Vec::new, |(limit, sender)| (limit.row().evidence)(&facts, sender)),
        budget: spent(&facts),
        losses: losses(&trace.journal),
        remedies: remedies::lines(trace.journal.remedies()),
        ways: trace.journal.ways().iter().take(WAYS_SHOWN_MAX).map(|at| at.what.to_string()).collect(),
    }
}

/// The limit with the largest share of the time, and the share.
fn largest(facts: &Facts) -> (Limit, f64) {
    let share =
        |limit: Limit| (limit.row().stages)(facts).iter().map(|&stage| facts.budget.share(stage)).sum();
    let shares = Limit::ALL.iter().map(|&limit| (limit, share(limit)));
    shares
        .fold((Limit::RoundTrips, 0.0), |best, next: (Limit, f64)| if next.1 > best.1 { next } else { best })
}

fn sentence(facts: &Facts, limit: Limit, share: f64) -> String {
    let row = limit.row();
    let spare = match row.place {
        Place::Ends => spare(facts),
        Place::Network => String::new(),
    };
    format!("{} of the time {}{spare}.", percent(share), (row.phrase)(facts))
}

fn predicted(facts: &Facts, limit: Limit, share: f64) -> Option<f64> {
    let found = (limit.row().prediction)(facts, share)?;
    (found > GAIN_SHOWN * facts.goodput_bps).then_some(found)
}

fn fix(facts: &Facts, limit: Limit, predicted_bps: Option<f64>) -> String {
    let up_to = match predicted_bps {
        Some(predicted) => {
            format!("; predicted: up to {} instead of {}", rate(predicted), rate(facts.goodput_bps))
        }
        None => String::new(),
    };
    format!("{}{up_to}.", (limit.row().fix)(facts))
}

fn spent(facts: &Facts) -> Vec<Spent> {
    let budget = &facts.budget;
    let all = Stage::ALL.iter().map(|&stage| Spent {
        stage,
        seconds: budget.seconds(stage),
        share: budget.share(stage),
    });
    all.filter(|spent| spent.share >= SHARE_SHOWN).collect()
}

impl Explanation {
    /// The whole explanation for a person, in lines.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.sentence);
        if let Some(margin) = self.deadline_margin_s {
            let (outcome, side) = if margin < 0.0 { ("missed", "late") } else { ("met", "to spare") };
            text += &format!("The deadline was {outcome}, with {:.1} s {side}.\n", margin.abs());
        }
        if !self.fix.is_empty() {
            text += &format!("What would help: {}\n", self.fix);
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
