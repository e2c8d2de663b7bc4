//! The tables of a small bench.

use std::io::Write;

use serde_json::{Value, json};

use super::bars::Bars;
use super::record::Results;
use super::table::tables;
use super::{Args, default_out};

fn run(part: &str, name: &str, (seconds, gbps): (f64, Option<f64>), more: &Value) -> Value {
    let mut run = json!({
        "v": 1, "part": part, "name": name, "rep": 0, "seconds": seconds,
        "cpu_s": {"client": 2.0 * seconds, "server": null},
        "rss_bytes": {"client": 10 << 20, "server": 20 << 20},
        "bytes": if gbps.is_some() { 1_000_000_000u64 } else { 0 },
    });
    let members = run.as_object_mut().unwrap();
    if let Some(gbps) = gbps {
        members.insert("gbps".to_owned(), gbps.into());
    }
    members.extend(more.as_object().unwrap().clone());
    run
}

fn results(lines: &[Value]) -> Results {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for line in lines {
        writeln!(file, "{line}").unwrap();
    }
    Results::read(file.path()).unwrap()
}

fn sample() -> Results {
    let fobs = |rate: f64| json!({"data_gbps": rate, "fobs": {"waste": 0.01}});
    let none = json!({});
    results(&[
        json!({"v": 1, "part": "machine", "name": "machine", "time": "2026-01-02T03:04:05Z", "cpu": "A Processor",
            "cpus": 2, "memory": "1 kB", "kernel": "6.1", "load": 0.5, "tcp": "bbr", "ssh": "OpenSSH", "rsync": "rsync",
            "iperf3": "iperf 3", "commit": "abc", "ciphers": {"x": 1.0}, "bytes": 1_000_000_000u64}),
        run("wire", "fobs, daemon", (1.0, Some(8.0)), &fobs(10.0)),
        run("wire", "fobs, daemon", (2.0, Some(4.0)), &fobs(6.0)),
        run("wire", "fobs, daemon", (1.6, Some(5.0)), &fobs(8.0)),
        run("wire", "baseline, daemon", (4.0, Some(2.0)), &fobs(4.0)),
        run("wire", "rsync", (4.5, Some(1.78)), &none),
        run("wire", "ssh, nothing moved", (0.5, None), &none),
        run("wire", "iperf3 TCP", (0.5, Some(16.0)), &json!({"data_gbps": 20.0, "tcp": "bbr"})),
        run("greedy", "fobs --cc greedy", (3.0, Some(0.09)), &fobs(0.09)),
        run("greedy", "baseline --cc greedy", (3.0, Some(0.09)), &json!({"fobs": {"waste": 0.9}})),
    ])
}

#[test]
fn a_table_has_medians_spreads_and_costs() {
    let text = tables(&sample());
    let row =
        |name: &str| text.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap().to_owned();
    assert_eq!(
        row("fobs, daemon"),
        "| fobs, daemon | 5.00 (4.00-8.00) | 8.00 | 1.60 | 3.20 + 0.00 | 10 / 20 |"
    );
    assert_eq!(row("ssh, nothing moved"), "| ssh, nothing moved | | | 0.50 | | |");
    // A gigabyte in 4.5 s, of which connecting took 0.5 s.
    assert_eq!(row("rsync"), "| rsync | 1.78 (1.78-1.78) | 2.00 | 4.50 | 9.00 + 0.00 | 10 / 20 |");
    assert!(
        text.starts_with(
            "## Bench\n\nA Processor, 2 CPUs, 1 kB; Linux 6.1, TCP bbr; load at the start 0.50;"
        )
    );
}

#[test]
fn bars_compare_the_rates_of_the_data() {
    let bars = Bars::of(&sample());
    let text = bars.table();
    for row in [
        "| wire: fobs, daemon / rsync | >= 2x | 4.00x | pass |",
        "| wire: fobs, daemon / iperf3 TCP | >= 0.5x | 0.40x | FAIL |",
        "| wire: fobs, ssh / rsync | >= 2x | not measured | not measured |",
        "| wire: fobs, daemon / rsync, whole commands |  | 2.81x |  |",
        "| wire: fobs, daemon / baseline, daemon |  | 2.00x |  |",
        "| peak RSS of either end, big file | <= 256 MiB | 20.00 MiB | pass |",
        "| greedy into 100 Mbit/s with back-pressure: waste | <= 3% | 1.00% | pass |",
    ] {
        assert!(text.lines().any(|line| line == row), "{row}\n{text}");
    }
    assert!(!bars.passed());
}

#[test]
fn a_record_comes_back_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("below/bench.jsonl");
    let sample = sample();
    let mut written = Results::create(&path).unwrap();
    written.add_facts(sample.facts.clone().unwrap()).unwrap();
    for record in &sample.records {
        written.add(record.clone()).unwrap();
    }
    let read = Results::read(&path).unwrap();
    assert_eq!((read.facts, read.records), (sample.facts, sample.records));
    std::fs::write(&path, "{}\n").unwrap();
    assert!(Results::read(&path).err().unwrap().contains("bench.jsonl:1: no record of a bench"));
}

#[test]
fn sizes_and_parts_that_make_no_sense_are_refused() {
    use clap::Parser;
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }
    let parse = |words: &[&str]| Line::try_parse_from([&["bench"], words].concat()).map(|line| line.args);
    let args = parse(&["--parts", "small,wire", "--gib", "0.5"]).unwrap();
    assert_eq!((args.parts.len(), args.gib, args.reps), (2, 0.5, 5));
    for words in [["--gib", "0"], ["--gib", "17"], ["--parts", "wide"], ["--reps", "0"]] {
        assert!(parse(&words).is_err(), "{words:?}");
    }
    let name = default_out().display().to_string();
    assert!(name.starts_with("bench-20") && name.ends_with("Z.jsonl") && name.len() == 28, "{name}");
}
