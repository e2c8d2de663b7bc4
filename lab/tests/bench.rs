//! `fobs-lab bench` as a whole, without FOBS: one repetition of a tiny file between two namespaces.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Exit code of what needs root, or a program that is not installed.
const SKIPPED: i32 = 77;

#[test]
fn one_repetition_of_the_peers_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let bench = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fobs-lab"));
        command.arg("bench").args(arguments).current_dir(folder.path()).stdin(Stdio::null());
        command.output().unwrap()
    };
    let ready = bench(&["--preflight"]);
    let said = String::from_utf8_lossy(&ready.stdout).into_owned();
    if ready.status.code() == Some(SKIPPED) {
        use std::io::Write;
        assert!(said.starts_with("skipped: the bench needs "), "{said}");
        let _ = write!(std::io::stderr().lock(), "one_repetition_of_the_peers_is_recorded: {said}");
        return;
    }
    assert!(ready.status.success(), "{said}");
    let output =
        bench(&["--peers-only", "--reps", "1", "--gib", "0.01", "--parts", "wire", "--out", "out.jsonl"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = fs::read_to_string(folder.path().join("out.jsonl")).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records[0]["part"], "machine");
    assert_eq!(records[0]["ciphers"].as_object().map(serde_json::Map::len), Some(3));
    let names: Vec<&str> = records[1..].iter().filter_map(|record| record["name"].as_str()).collect();
    assert_eq!(names, ["rsync", "scp", "ssh, nothing moved", "iperf3 TCP"]);
    for record in &records[1..] {
        let name = record["name"].as_str().unwrap_or_default();
        assert!(table.contains(&format!("| {name} |")), "{table}");
        assert!(record["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{record}");
        assert_eq!(record["gbps"].is_f64(), name != "ssh, nothing moved", "{record}");
    }
}
