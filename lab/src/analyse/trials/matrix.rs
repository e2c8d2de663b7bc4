//! The lines of trials, and the table of what was injected against what was named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::case::{CASES, Drawn};

/// One trial as a line of JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(default)]
pub struct Line {
    pub case: String,
    /// The names that are right, with a stroke between them.
    pub expected: String,
    pub trial: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// What copied, if it was not fobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copier: Option<String>,
    pub drawn: Drawn,
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<f64>,
    /// Goodput of the same trial without the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_bps: Option<f64>,
    /// Goodput with a link twice as wide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wider_bps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Line {
    /// Whether the first cause that was named is right.
    pub fn is_right(&self) -> bool {
        self.limit.as_deref().is_some_and(|limit| self.expected.split('/').any(|right| right == limit))
    }
}

/// The lines of a file.
///
/// # Errors
/// One sentence that names the file and the line.
pub fn read(path: &Path) -> Result<Vec<Line>, String> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|error| format!("{name}:{}: no trial: {error}", index + 1))
        })
        .collect()
}

/// A table for each program that copied.
pub fn tables(lines: &[Line]) -> String {
    let copiers: BTreeSet<&Option<String>> = lines.iter().map(|line| &line.copier).collect();
    let one = |copier: &&Option<String>| {
        let own: Vec<Line> = lines.iter().filter(|line| line.copier == **copier).cloned().collect();
        let title = copier.as_ref().map_or_else(String::new, |name| format!("{name}:\n\n"));
        title + &table(&own)
    };
    copiers.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// A row for each case that was tried, a column for each limit, as Markdown. Each line has its trial's limit:
/// where a control decides, the trials of a case differ.
fn table(lines: &[Line]) -> String {
    let mut counts: BTreeMap<&str, BTreeMap<&str, u32>> = BTreeMap::new();
    let mut right: BTreeMap<&str, u32> = BTreeMap::new();
    for line in lines {
        let named = line.limit.as_deref().unwrap_or("failed");
        *counts.entry(&line.case).or_default().entry(named).or_default() += 1;
        *right.entry(&line.case).or_default() += u32::from(line.is_right());
    }
    let mut columns: Vec<&str> = Vec::new();
    let tried = || CASES.into_iter().filter(|(_, case, _)| counts.contains_key(case));
    for (_, _, expected) in tried() {
        // Several cases may have one limit.
        if !columns.contains(&expected) {
            columns.push(expected);
        }
    }
    let others: BTreeSet<&str> = counts.values().flat_map(BTreeMap::keys).copied().collect();
    columns.extend(others.into_iter().filter(|name| !tried().any(|(_, _, expected)| expected == *name)));
    let mut text = format!("| injected | {} | named |\n", columns.join(" | "));
    text += &format!("{}|\n", "|---".repeat(columns.len() + 2));
    for (_, case, _) in tried() {
        let row = &counts[case];
        let cell = |name: &&str| row.get(*name).map_or_else(String::new, u32::to_string);
        let cells: Vec<String> = columns.iter().map(cell).collect();
        let (named, all) = (right[case], row.values().sum::<u32>());
        text += &format!("| {case} | {} | {named} of {all} |\n", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::case::Case;
    use super::*;

    #[test]
    fn what_was_named_is_counted_by_what_was_injected() {
        let line = |case: &str, limit: Option<&str>| Line {
            case: case.to_owned(),
            expected: Case::named(case).expect("a case").expected().to_owned(),
            limit: limit.map(str::to_owned),
            ..Line::default()
        };
        let lines = [
            line("policer", Some("policer")),
            line("policer", Some("window")),
            line("policer", None),
            line("rate cap", Some("rate_cap")),
        ];
        let text = table(&lines);
        assert!(text.starts_with("| injected | policer | rate_cap | failed | window | named |"), "{text}");
        let row =
            |case: &str| text.lines().find(|row| row.starts_with(&format!("| {case} |"))).expect("a row");
        let ones = |case| row(case).split(" | ").filter(|cell| cell.trim() == "1").count();
        assert!(row("policer").ends_with("| 1 | 1 | 1 of 3 |") && ones("policer") == 3, "{text}");
        assert!(!text.contains("narrow link"), "{text}");
        let tie =
            Line { expected: "narrow_path/reordering".to_owned(), ..line("reordering", Some("narrow_path")) };
        let text =
            table(&[tie, line("reordering", Some("reordering")), line("reordering", Some("narrow_path"))]);
        assert!(text.contains("| 2 of 3 |"), "{text}");
        let scp = Line { copier: Some("scp".to_owned()), ..line("policer", Some("policer")) };
        let both = tables(&[scp, line("policer", Some("policer"))]);
        assert!(
            both.contains("\n\nscp:\n\n| injected | policer |") || both.contains("\nscp:\n\n| injected"),
            "{both}"
        );
    }
}
