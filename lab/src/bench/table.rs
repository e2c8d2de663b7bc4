//! The tables of a bench, as Markdown.

use std::fmt::Write;

use super::record::{Ends, Facts, Record, Results};
use crate::report::Spread;

/// Every part in the order of the tables; all of them are in Gbit/s.
const PARTS: [&str; 4] = ["wire", "super", "small", "greedy"];

/// The machine and a table for each part that was run.
pub fn tables(results: &Results) -> String {
    let mut text = String::from("## Bench\n\n");
    if let Some(facts) = &results.facts {
        text += &machine(facts);
    }
    for part in PARTS.into_iter().filter(|part| !results.names(part).is_empty()) {
        text += &part_table(results, part);
        text.push_str("\n\n");
    }
    text
}

fn machine(facts: &Facts) -> String {
    let Facts { cpu, cpus, memory, kernel, tcp, load, time, commit, ssh, rsync, iperf3, ciphers, .. } = facts;
    let ciphers: Vec<String> = ciphers.iter().map(|(name, rate)| format!("{name} {rate:.2}")).collect();
    format!(
        "{cpu}, {cpus} CPUs, {memory}; Linux {kernel}, TCP {tcp}; load at the start {load:.2}; {time}; \
         commit {commit}.\n{ssh}; {rsync}; {iperf3}.\nssh into /dev/null, Gbit/s: {}.\n\n",
        ciphers.join(", ")
    )
}

/// Median and spread of a part's contestants, and what each end paid.
fn part_table(results: &Results, part: &str) -> String {
    let mut text = format!(
        "| {part} | Gbit/s, median (min-max) | of the data alone | seconds | CPU s/GB, client + server \
         | peak RSS MiB, client / server |\n|---|---|---|---|---|---|"
    );
    for name in results.names(part) {
        let seconds = results.seconds(part, name).unwrap_or_default();
        let Some(Spread { median, min, max, .. }) = results.spread(part, name, |record| record.gbps) else {
            let _ = write!(text, "\n| {name} | | | {seconds:.2} | | |");
            continue;
        };
        let gigabytes = results.runs(part, name).next().map_or(0, |record| record.bytes) as f64 / 1e9;
        let cpu = |side: fn(&Ends<Option<f64>>) -> Option<f64>| {
            let spent = results.spread(part, name, |record: &Record| side(&record.cpu_s));
            spent.map_or(0.0, |spent| spent.median) / gigabytes
        };
        let peak = |side: fn(&Ends<u64>) -> u64| {
            results.runs(part, name).map(|record| side(&record.rss_bytes)).max().unwrap_or(0) >> 20
        };
        let data = results.data_rate(part, name).map_or_else(String::new, |rate| format!("{rate:.2}"));
        let _ = write!(
            text,
            "\n| {name} | {median:.2} ({min:.2}-{max:.2}) | {data} | {seconds:.2} | {:.2} + {:.2} | {} / {} |",
            cpu(|ends| ends.client),
            cpu(|ends| ends.server),
            peak(|ends| ends.client),
            peak(|ends| ends.server),
        );
    }
    text
}
