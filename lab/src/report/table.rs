//! Tables, for Markdown and for the page.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::record::{End, Flow, Run};

use super::aggregate::Spread;
use super::figure::{Expect, Figure, chosen, matches};
use super::measure::Measure;
use super::panel::Panel;
use super::read::Results;
use super::words::number;

/// Columns of [`everything`] after path, contest and runs.
const COLUMNS: [Measure; 10] = [
    Measure::Share,
    Measure::ShareOfLeft,
    Measure::Goodput,
    Measure::WallSeconds,
    Measure::Waste,
    Measure::Overhead,
    Measure::QueueDrops,
    Measure::CpuSender,
    Measure::CpuReceiver,
    Measure::RttP95,
];

/// A table of text cells; the first columns are names, the others values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Titles of the columns.
    pub head: Vec<String>,
    /// Number of leading name columns, which are left-aligned.
    pub names: usize,
    /// Rows, each as long as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// As Markdown, with a line feed at the end.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| escaped(cell).replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = (0..self.head.len()).map(|column| if column < self.names { "---" } else { "---:" });
        let rule = format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}{rule}{rows}", line(&self.head))
    }
}

/// Escapes text for Markdown, in which `<` begins a tag.
pub fn escaped(text: &str) -> String {
    text.replace('<', "\\<")
}

/// A median with its spread: `93.1 (92.8 to 93.4)`; the plain value of a single run.
pub fn shown(spread: Option<Spread>) -> String {
    match spread {
        None => "-".to_owned(),
        Some(Spread { median, min, max, count }) => {
            let (middle, low, high) = (number(median), number(min), number(max));
            if count == 1 || (low == middle && high == middle) {
                middle
            } else {
                format!("{middle} ({low} to {high})")
            }
        }
    }
}

/// The values of a panel: a row for each place, a column for each series (transposed for a heat map).
pub fn of_panel(figure: &Figure, panel: &Panel) -> Table {
    let title = figure.x_label.clone().unwrap_or_else(|| figure.x.title());
    let mut rows: Vec<Vec<String>> =
        vec![std::iter::once(title).chain(panel.series.iter().map(|series| series.label.clone())).collect()];
    for (index, place) in panel.places.iter().enumerate() {
        let points = panel.series.iter().map(|series| shown(series.points[index]));
        rows.push(std::iter::once(place.label.clone()).chain(points).collect());
    }
    // The longer side becomes rows.
    if panel.series.len() > panel.places.len() {
        rows =
            (0..rows[0].len()).map(|column| rows.iter().map(|row| row[column].clone()).collect()).collect();
    }
    let head = rows.remove(0);
    Table { head, names: 1, rows }
}

/// All contests over all paths, flow by flow; invalid runs are counted, not shown.
pub fn everything(results: &Results) -> Table {
    let mut head = vec!["Path".to_owned(), "Contest".to_owned(), "Runs".to_owned()];
    // Columns without values are omitted.
    let columns = COLUMNS.into_iter().filter(|measure| {
        results
            .runs
            .iter()
            .any(|run| run.valid && run.flows.iter().any(|flow| measure.of_flow(run, flow).is_some()))
    });
    let columns: Vec<Measure> = columns.collect();
    head.extend(columns.iter().map(|measure| measure.title().to_owned()));
    let mut rows = Vec::new();
    for cell in cells(&results.runs) {
        let here: Vec<&Run> = results.runs.iter().filter(|run| cell.has(run)).collect();
        let flows = here.iter().map(|run| run.flows.len()).max().unwrap_or_default();
        for index in 0..flows {
            let flow = |run: &'_ Run| run.flows.get(index).cloned();
            let name = match here.iter().find_map(|run| flow(run)) {
                Some(flow) if flows > 1 => format!("{}: {}", cell.name(), flow.label),
                _ => cell.name(),
            };
            let spread = |measure: &Measure| {
                let valid = here.iter().filter(|run| run.valid);
                shown(Spread::of(valid.filter_map(|run| measure.of_flow(run, &flow(run)?))))
            };
            let runs = counted(&here, index);
            rows.push(
                [cell.path.to_owned(), name, runs].into_iter().chain(columns.iter().map(spread)).collect(),
            );
        }
    }
    Table { head, names: 3, rows }
}

/// Number of runs and, of those that are not valid, why: `2 of 3, 1 failed`.
fn counted(runs: &[&Run], index: usize) -> String {
    let count = |what: &dyn Fn(&Run, &Flow) -> bool| {
        runs.iter().filter(|run| run.flows.get(index).is_some_and(|flow| what(run, flow))).count()
    };
    let good = count(&|run, flow| run.valid && flow.end != End::Failed);
    let mut words =
        vec![if good == runs.len() { good.to_string() } else { format!("{good} of {}", runs.len()) }];
    for (number, word) in [
        (count(&|run, flow| run.valid && flow.end == End::Failed), "failed"),
        (count(&|run, flow| run.valid && flow.end == End::TimedOut), "timed out"),
        (count(&|run, _| !run.valid), "invalid"),
    ] {
        if number > 0 {
            words.push(format!("{number} {word}"));
        }
    }
    words.join(", ")
}

/// Repeated runs: one contest with one set of parameters over one path.
#[derive(Clone, Copy, PartialEq)]
struct Cell<'a> {
    path: &'a str,
    contest: &'a str,
    parameters: &'a BTreeMap<String, Value>,
}

impl Cell<'_> {
    fn has(&self, run: &Run) -> bool {
        run.path == self.path && run.contest == self.contest && run.parameters == *self.parameters
    }

    /// The contest's name, with the parameters that the name does not contain.
    fn name(&self) -> String {
        let untold = self.parameters.iter().filter_map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let told = [self.contest, self.path].iter().any(|text| text.contains(&value));
            (!told).then(|| format!("{} {value}", name.replace('_', " ")))
        });
        let untold: Vec<String> = untold.collect();
        if untold.is_empty() {
            self.contest.to_owned()
        } else {
            format!("{}, {}", self.contest, untold.join(", "))
        }
    }
}

/// All cells, grouped by path, ordered by first occurrence in odd repetitions (even ones run backwards).
fn cells(runs: &[Run]) -> Vec<Cell<'_>> {
    let mut known: Vec<Cell> = Vec::new();
    let (odd, even): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(|run| run.repetition % 2 == 1);
    for run in odd.into_iter().chain(even) {
        let Run { path, contest, parameters, .. } = run;
        let cell = Cell { path, contest, parameters };
        if !known.contains(&cell) {
            known.push(cell);
        }
    }
    let mut paths: Vec<&str> = Vec::new();
    for cell in &known {
        if !paths.contains(&cell.path) {
            paths.push(cell.path);
        }
    }
    known.sort_by_key(|cell| paths.iter().position(|path| *path == cell.path));
    known
}

/// Whether a bar was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarVerdict {
    /// The median is on the right side.
    Met,
    /// It is not on the right side.
    NotMet,
    /// There is no valid run.
    NotMeasured,
}

impl BarVerdict {
    /// Text for output.
    pub fn words(self) -> &'static str {
        match self {
            BarVerdict::Met => "met",
            BarVerdict::NotMet => "not met",
            BarVerdict::NotMeasured => "not measured",
        }
    }
}

/// The plan's bars with measured values, and the verdict on each row.
pub fn expectations(results: &Results) -> (Table, Vec<BarVerdict>) {
    let head = ["Contest", "Path", "Measure", "Bar", "Measured", "Verdict"].map(str::to_owned).to_vec();
    let (mut rows, mut verdicts) = (Vec::new(), Vec::new());
    for expect in &results.shown.expect {
        let matching = cells(&results.runs).into_iter();
        let matching: Vec<Cell> = matching
            .filter(|cell| matches(&expect.path, cell.path) && matches(&expect.contest, cell.contest))
            .collect();
        let mut row = |contest: String, path: &str, spread: Option<Spread>| {
            let verdict = verdict(expect, spread);
            let cells = [contest, path.to_owned(), expect.y.title().to_owned(), expect.to_string()];
            rows.push(cells.into_iter().chain([shown(spread), verdict.words().to_owned()]).collect());
            verdicts.push(verdict);
        };
        if matching.is_empty() {
            row(expect.contest.clone(), &expect.path, None);
        }
        for cell in matching {
            let here = results.runs.iter().filter(|run| run.valid && cell.has(run));
            row(cell.name(), cell.path, Spread::of(here.filter_map(|run| expect.y.of_run(run))));
        }
    }
    (Table { head, names: 3, rows }, verdicts)
}

fn verdict(expect: &Expect, spread: Option<Spread>) -> BarVerdict {
    let Some(Spread { median, .. }) = spread else { return BarVerdict::NotMeasured };
    let met =
        expect.at_least.is_none_or(|bar| median >= bar) && expect.at_most.is_none_or(|bar| median <= bar);
    if met { BarVerdict::Met } else { BarVerdict::NotMet }
}

/// One line for each invalid or failed run: which, and why.
pub fn troubles(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    for run in &results.runs {
        let Run { path, contest, parameters, .. } = run;
        let name =
            format!("{} over {path}, run {}", Cell { path, contest, parameters }.name(), run.repetition);
        if !run.valid {
            lines.push(format!("{name}: invalid: {}", run.invalid_because.join("; ")));
            continue;
        }
        for flow in &run.flows {
            let why = flow.error.as_deref().unwrap_or("it did not say why");
            match flow.end {
                End::Failed => lines.push(format!("{name}: {} failed: {why}", flow.label)),
                End::TimedOut => lines.push(format!("{name}: {} did not finish in time", flow.label)),
                End::Complete | End::Stopped => {}
            }
        }
    }
    lines
}

/// One line for each skipped contest.
pub fn skipped(results: &Results) -> Vec<String> {
    let place = |path: &str| if path == "*" { String::new() } else { format!(" over {path}") };
    results
        .skips
        .iter()
        .map(|skip| format!("{}{}: {}", skip.contest, place(&skip.path), skip.reason))
        .collect()
}

/// Contests chosen for a figure that have no valid run.
pub fn missing<'a>(figure: &Figure, results: &'a Results) -> Vec<&'a str> {
    let mut missing: Vec<&str> = Vec::new();
    for Cell { path, contest, .. } in cells(&results.runs) {
        let valid = results.runs.iter().any(|run| {
            run.valid && run.contest == contest && run.flows.iter().any(|flow| flow.end != End::Failed)
        });
        if chosen(&figure.contests, contest)
            && chosen(&figure.paths, path)
            && !valid
            && !missing.contains(&contest)
        {
            missing.push(contest);
        }
    }
    missing
}
