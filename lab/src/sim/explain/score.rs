//! What `--explain` said against what is true, over cells.

use serde_json::{Value, json};

use super::cell::{Cell, Relief};

/// An answer with this probability is a confident one.
const CONFIDENT: f64 = 0.9;
/// A predicted gain within this factor of the true one is right.
const FACTOR: f64 = 1.5;
/// Classes of probability for the calibration.
const CLASSES: [(f64, f64); 5] = [(0.0, 0.5), (0.5, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.01)];

/// Relief that gains less than this is none: no cause is right then.
pub const GAIN_MIN: f64 = 1.2;
/// Reliefs that gain this part of what the best one does are right as well: the copy would take a tenth
/// longer.
pub const TIE: f64 = 0.9;

/// What limits a cell.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// The names that are right.
    pub limits: Vec<&'static str>,
    /// The best ratio of the times with and without.
    pub gain: f64,
    /// Whether it gains enough to be asked for.
    pub matters: bool,
    /// What each relief gains.
    pub gains: Vec<(&'static str, f64)>,
}

impl Truth {
    /// By what each relief gains.
    pub fn of(cell: &Cell, reliefs: &[(Relief, f64)]) -> Truth {
        let gain = reliefs.iter().map(|(_, gain)| *gain).fold(0.0, f64::max);
        let mut truth = Truth { gain, matters: gain >= GAIN_MIN, ..Truth::default() };
        // The best first: tables are by the first name.
        let mut sorted = reliefs.to_vec();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (relief, gained) in sorted {
            let names = relief.limits(cell);
            truth.gains.push((names.first().copied().unwrap_or("nothing"), gained));
            if gained >= (TIE * gain).max(GAIN_MIN) {
                truth.limits.extend(names);
            }
        }
        truth
    }
}

/// What `--explain` said.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub first: String,
    pub second: String,
    pub probability: f64,
    pub unclear: bool,
    /// Predicted rate over the rate reached.
    pub gain: Option<f64>,
}

impl Answer {
    pub fn of(why: &Value) -> Answer {
        let cause = |place: usize| why["causes"][place]["limit"].as_str().unwrap_or_default().to_owned();
        let (goodput, predicted) = (why["goodput_bps"].as_f64(), why["predicted_bps"].as_f64());
        Answer {
            first: why["limit"].as_str().unwrap_or_default().to_owned(),
            second: cause(1),
            probability: why["probability"].as_f64().unwrap_or(0.0),
            unclear: why["certainty"] == "unclear",
            gain: predicted
                .zip(goodput)
                .filter(|(_, goodput)| *goodput > 0.0)
                .map(|(p, goodput)| p / goodput),
        }
    }
}

/// A cell with truth and answer.
#[derive(Debug, Clone)]
pub struct Scored {
    pub seed: u64,
    pub cell: String,
    pub truth: Truth,
    pub answer: Answer,
}

impl Scored {
    /// Whether the first cause is right, where one matters.
    pub fn is_right(&self) -> bool {
        !self.truth.matters || self.truth.limits.contains(&self.answer.first.as_str())
    }

    fn is_among_two(&self) -> bool {
        self.is_right() || self.truth.limits.contains(&self.answer.second.as_str())
    }

    /// A line for people.
    pub fn line(&self) -> String {
        let Answer { first, second, probability, .. } = &self.answer;
        format!(
            "{} {}: {} (gains {:.2}) and not {first} ({probability:.2}) or {second}",
            self.seed,
            self.cell,
            self.truth.limits.join("/"),
            self.truth.gain
        )
    }

    /// A line for programs.
    pub fn json(&self) -> String {
        let (truth, answer) = (&self.truth, &self.answer);
        json!({
            "seed": self.seed, "cell": self.cell, "truth": truth.limits, "gain": truth.gain, "gains": truth.gains,
            "matters": truth.matters, "first": answer.first, "second": answer.second,
            "probability": answer.probability, "unclear": answer.unclear, "predicted_gain": answer.gain,
        })
        .to_string()
    }
}

/// The score, as text.
pub fn table(from: u64, all: &[Scored]) -> String {
    let asked: Vec<&Scored> = all.iter().filter(|one| one.truth.matters).collect();
    let count = |of: &dyn Fn(&&&Scored) -> bool| asked.iter().filter(of).count();
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    let right = count(&|one| one.is_right());
    let clear = count(&|one| !one.answer.unclear);
    let clear_right = count(&|one| !one.answer.unclear && one.is_right());
    let confident_wrong = count(&|one| one.answer.probability >= CONFIDENT && !one.is_right());
    let predicted: Vec<(f64, f64)> = asked
        .iter()
        .filter(|one| one.is_right())
        .filter_map(|one| Some((one.answer.gain?, one.truth.gain)))
        .collect();
    let near = predicted.iter().filter(|(said, gain)| (said / gain).max(gain / said) <= FACTOR).count();
    let mut text = format!(
        "{} cells from seed {from}; in {} relief gains 20% or more\n\
         right first {:.1}%, among the first two {:.1}%, unclear {:.1}%, right where it is clear {:.1}%\n\
         confident and wrong {:.1}%; predicted gain within a factor of {FACTOR} in {:.1}% of {}\n",
        all.len(),
        asked.len(),
        percent(right, asked.len()),
        percent(count(&|one| one.is_among_two()), asked.len()),
        percent(asked.len() - clear, asked.len()),
        percent(clear_right, clear),
        percent(confident_wrong, asked.len()),
        percent(near, predicted.len()),
        predicted.len(),
    );
    text += "\n| probability | cells | right |\n|---|---|---|\n";
    for (low, high) in CLASSES {
        let class: Vec<_> =
            asked.iter().filter(|one| (low..high).contains(&one.answer.probability)).collect();
        let right = class.iter().filter(|one| one.is_right()).count();
        text += &format!(
            "| {low:.1} to {:.1} | {} | {:.0}% |\n",
            high.min(1.0),
            class.len(),
            percent(right, class.len())
        );
    }
    text += "\n| true limit | cells | right | most often said instead |\n|---|---|---|---|\n";
    let mut limits: Vec<&str> = asked.iter().filter_map(|one| one.truth.limits.first().copied()).collect();
    limits.sort_unstable();
    limits.dedup();
    for limit in limits {
        let of: Vec<_> = asked.iter().filter(|one| one.truth.limits.first() == Some(&limit)).collect();
        let right = of.iter().filter(|one| one.is_right()).count();
        text += &format!("| `{limit}` | {} | {right} | {} |\n", of.len(), mistaken(&of));
    }
    text
}

/// The wrong answer that came most often, with its count.
fn mistaken(of: &[&&Scored]) -> String {
    let mut wrong: Vec<&str> =
        of.iter().filter(|one| !one.is_right()).map(|one| one.answer.first.as_str()).collect();
    wrong.sort_unstable();
    let count = |name: &str| wrong.iter().filter(|other| **other == name).count();
    let most = wrong.iter().max_by_key(|name| count(name));
    most.map_or_else(String::new, |name| format!("`{name}` {}", count(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_against_the_truth() {
        let one = |said: &str, second: &str, probability: f64, matters: bool| Scored {
            seed: 1,
            cell: String::new(),
            truth: Truth { limits: vec!["outage"], gain: 2.0, matters, gains: Vec::new() },
            answer: Answer {
                first: said.to_owned(),
                second: second.to_owned(),
                probability,
                unclear: probability < 0.5,
                gain: Some(1.5),
            },
        };
        let all = [
            one("outage", "policer", 0.95, true),
            one("policer", "outage", 0.4, true),
            one("policer", "source", 0.92, true),
            one("source", "policer", 0.9, false),
        ];
        let text = table(7, &all);
        assert!(
            text.starts_with("4 cells from seed 7; in 3 relief gains 20% or more\nright first 33.3%"),
            "{text}"
        );
        assert!(
            text.contains("among the first two 66.7%, unclear 33.3%, right where it is clear 50.0%"),
            "{text}"
        );
        assert!(
            text.contains("confident and wrong 33.3%; predicted gain within a factor of 1.5 in 100.0% of 1"),
            "{text}"
        );
        assert!(text.contains("| `outage` | 3 | 1 | `policer` 2 |"), "{text}");
    }
}
