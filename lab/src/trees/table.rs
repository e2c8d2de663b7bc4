//! The runs as tables, and what was asked of them.

use std::fmt::Write;

use super::trial::Trial;
use super::{AGAIN, Act};
use crate::bench::record::Ends;
use crate::report::Spread;

/// Peak resident memory of either end, MiB (issue: a tree of a million files).
const RSS_MIB_MAX: f64 = 256.0;
/// Until something has arrived, seconds.
const FIRST_ARRIVAL_S_MAX: f64 = 1.0;

/// A table of each act, then the requirements; whether all of them are met.
pub fn tables(trials: &[Trial]) -> (String, bool) {
    let mut text = String::new();
    for act in Act::ALL {
        let trials: Vec<&Trial> = trials.iter().filter(|trial| trial.act == act.name()).collect();
        if !trials.is_empty() {
            text += &act_table(act, &trials);
        }
    }
    let rows = requirements(trials);
    let passed = rows.iter().all(|row| row.passed);
    text.push_str("\n| requirement | asked | measured | |\n|---|---|---|---|\n");
    for Row { what, asked, measured, passed } in rows {
        let outcome = if passed { "pass" } else { "FAIL" };
        let _ = writeln!(text, "| {what} | {asked} | {measured} | {outcome} |");
    }
    (text, passed)
}

fn act_table(act: Act, trials: &[&Trial]) -> String {
    let mut text = format!(
        "\n| {} | seconds, median (min-max) of | first arrival, s | CPU s, client + server | peak RSS MiB, \
         client / server | wire MB, there / back |\n|---|---|---|---|---|---|\n",
        act.name()
    );
    for name in names(trials) {
        let all: Vec<&Trial> = trials.iter().copied().filter(|trial| trial.contestant == name).collect();
        let Some(seconds) = spread(&all, |trial| Some(trial.seconds)) else {
            let why = all.first().and_then(|trial| trial.doubts.first()).cloned().unwrap_or_default();
            let _ = writeln!(text, "| {name} | no valid run: {why} | | | | |");
            continue;
        };
        let median =
            |figure: &dyn Fn(&Trial) -> Option<f64>| spread(&all, figure).map_or(0.0, |spread| spread.median);
        let first = spread(&all, |trial| trial.first_arrival_s);
        let peak = peak_mib(&all);
        let _ = writeln!(
            text,
            "| {name} | {:.2} ({:.2}-{:.2}) of {} | {} | {:.2} + {:.2} | {:.0} / {:.0} | {:.1} / {:.1} |",
            seconds.median,
            seconds.min,
            seconds.max,
            seconds.count,
            first.map_or_else(String::new, |first| format!("{:.2}", first.median)),
            median(&|trial| trial.cpu_s.client),
            median(&|trial| trial.cpu_s.server),
            peak.client,
            peak.server,
            median(&|trial| Some(trial.wire_bytes.server as f64 / 1e6)),
            median(&|trial| Some(trial.wire_bytes.client as f64 / 1e6)),
        );
    }
    text
}

/// Contestants in the order of their first runs.
fn names(trials: &[&Trial]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for trial in trials {
        if !names.contains(&trial.contestant) {
            names.push(trial.contestant.clone());
        }
    }
    names
}

/// A figure of the runs that count.
fn spread(trials: &[&Trial], figure: impl Fn(&Trial) -> Option<f64>) -> Option<Spread> {
    Spread::of(trials.iter().filter(|trial| trial.doubts.is_empty()).filter_map(|trial| figure(trial)))
}

/// Memory does not depend on what the emulator did, so every run counts.
fn peak_mib(trials: &[&Trial]) -> Ends<f64> {
    let peak = |side: fn(&Trial) -> u64| {
        trials.iter().map(|trial| side(trial)).max().unwrap_or(0) as f64 / f64::from(1 << 20)
    };
    Ends { client: peak(|trial| trial.rss_bytes.client), server: peak(|trial| trial.rss_bytes.server) }
}

struct Row {
    what: String,
    asked: String,
    measured: String,
    passed: bool,
}

fn requirements(trials: &[Trial]) -> Vec<Row> {
    let ours: Vec<&Trial> = trials.iter().filter(|trial| trial.contestant.starts_with("fobs")).collect();
    let mut rows = Vec::new();
    let peak = peak_mib(&ours);
    let peak = peak.client.max(peak.server);
    rows.push(Row {
        what: "fobs: peak RSS of either end".to_owned(),
        asked: format!("<= {RSS_MIB_MAX} MiB"),
        measured: format!("{peak:.0} MiB"),
        passed: peak <= RSS_MIB_MAX,
    });
    for name in names(&ours) {
        let of = |trial: &&Trial, act: Option<&str>| {
            trial.contestant == name && act.is_none_or(|act| trial.act == act)
        };
        let mine: Vec<&Trial> = ours.iter().copied().filter(|trial| of(trial, None)).collect();
        if let Some(first) = spread(&mine, |trial| trial.first_arrival_s) {
            rows.push(Row {
                what: format!("{name}: first arrival, median"),
                asked: format!("<= {FIRST_ARRIVAL_S_MAX} s"),
                measured: format!("{:.2} s", first.median),
                passed: first.median <= FIRST_ARRIVAL_S_MAX,
            });
        }
        let again: Vec<&Trial> = ours.iter().copied().filter(|trial| of(trial, Some(AGAIN))).collect();
        let theirs: Vec<&Trial> =
            trials.iter().filter(|trial| trial.contestant == "rsync, ssh" && trial.act == AGAIN).collect();
        let medians =
            (spread(&again, |trial| Some(trial.seconds)), spread(&theirs, |trial| Some(trial.seconds)));
        // rsync is measured over ssh only: a daemon's client does not wait for ssh.
        if let ((Some(mine), Some(theirs)), true) = (medians, name == "fobs, ssh") {
            rows.push(Row {
                what: format!("{name}: time of {AGAIN}, of rsync's"),
                asked: "<= 1".to_owned(),
                measured: format!("{:.2}", mine.median / theirs.median),
                passed: mine.median <= theirs.median,
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(contestant: &str, act: Act, seconds: f64, rss_mib: u64) -> Trial {
        Trial {
            act: act.name(),
            contestant: contestant.to_owned(),
            seconds,
            first_arrival_s: (act != Act::Again).then_some(seconds / 10.0),
            cpu_s: Ends { client: Some(1.0), server: None },
            rss_bytes: Ends { client: rss_mib << 20, server: 1 << 20 },
            wire_bytes: Ends { client: 1_000_000, server: 2_000_000 },
            doubts: Vec::new(),
        }
    }

    #[test]
    fn every_requirement_is_judged_by_its_own_figure() {
        let good = [
            trial("fobs, ssh", Act::First, 5.0, 256),
            trial("fobs, ssh", Act::Again, 5.0, 90),
            trial("rsync, ssh", Act::Again, 5.0, 900),
        ];
        let (text, passed) = tables(&good);
        assert!(passed, "{text}");
        assert!(
            text.contains("| fobs, ssh | 5.00 (5.00-5.00) of 1 | 0.50 | 1.00 + 0.00 | 256 / 1 | 2.0 / 1.0 |")
        );
        let mut slow = good.clone();
        slow[1].seconds = 5.1;
        let mut large = good.clone();
        large[1].rss_bytes.server = 257 << 20;
        let mut late = good.clone();
        late[0].first_arrival_s = Some(1.1);
        for bad in [slow, large, late] {
            let (text, passed) = tables(&bad);
            assert!(!passed && text.matches("FAIL").count() == 1, "{text}");
        }
    }

    #[test]
    fn runs_in_doubt_count_for_memory_only() {
        let mut doubted = trial("fobs, ssh", Act::Copy, 99.0, 300);
        doubted.doubts.push("late".to_owned());
        let (text, passed) = tables(&[doubted, trial("fobs, ssh", Act::Copy, 3.0, 10)]);
        assert!(text.contains("| fobs, ssh | 3.00 (3.00-3.00) of 1 |"), "{text}");
        assert!(!passed && text.contains("300 MiB"), "{text}");
    }
}
