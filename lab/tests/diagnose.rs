//! `fobs-lab diagnose` as a script runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Exit code, standard output, standard error.
fn diagnose(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_fobs-lab"))
        .arg("diagnose")
        .args(words)
        .env_remove("COLUMNS")
        .output()
        .expect("fobs-lab starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn printed(words: &[&str]) -> String {
    let (code, stdout, stderr) = diagnose(words);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "fobs-lab diagnose {}", words.join(" "));
    stdout
}

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/fobs-diagnose/tests/receiver.jsonl")
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn classify_prints_the_published_members() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("windows.jsonl");
    let block = r#"{"n":25000,"rle":[400,700,9000,900],"burst":1}"#;
    std::fs::write(&file, format!("{block}\n{{\"n\":100,\"rle\":[]}}\n")).expect("written");
    for method in ["paper", "signature"] {
        let text = printed(&["classify", utf8(&file), "--method", method, "--slice", "10000", "--json"]);
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let places: Vec<_> =
            lines.iter().map(|line| (line["line"].as_u64(), line["slice"].as_u64())).collect();
        assert_eq!(places, [(Some(0), Some(0)), (Some(0), Some(1)), (Some(1), Some(0))], "{method}");
        let lost: Vec<_> = lines.iter().map(|line| line["lost"].as_u64()).collect();
        assert_eq!(lost, [Some(700), Some(900), Some(0)], "{method}");
        for line in &lines {
            let names: Vec<&str> = line.as_object().expect("an object").keys().map(String::as_str).collect();
            assert_eq!(names.len(), 7, "{names:?}");
            assert_eq!(line["file"], utf8(&file));
            let p = line["p_receiver"].as_f64().expect("a probability");
            let verdict = match p {
                p if p >= 0.95 => "receiver",
                p if p <= 0.05 => "network",
                _ => "inconclusive",
            };
            assert_eq!(line["verdict"], verdict, "{line}");
        }
        assert_eq!(lines[2]["verdict"], "inconclusive", "nothing lost");
    }
}

#[test]
fn evidence_adds_the_reasons_for_a_verdict() {
    let file = recorded();
    let text = printed(&["classify", utf8(&file), "--json", "--evidence"]);
    let first: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["cause"], "cpu");
    assert!(first["sub_cause"].as_str().is_some_and(|name| name.starts_with("receiver")), "{first}");
    assert!(first["complexity"].as_f64().is_some_and(|c1| c1 > 0.0 && c1 < 1.0), "{first}");
    let person = printed(&["classify", utf8(&file)]);
    assert!(person.lines().count() >= 10 && person.contains("receiver"), "{person}");
}

#[test]
fn generated_windows_train_a_model_that_is_scored() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let (windows, model) = (at("network.jsonl"), at("model.json"));
    let generate = ["generate", "--count", "6", "--packets", "20000", "--seed", "3", "--out", utf8(&windows)];
    assert_eq!(printed(&generate), "");
    std::fs::copy(recorded(), at("receiver.jsonl")).expect("copied");
    let files = [at("receiver.jsonl"), windows.clone()];
    let table = printed(&["train", utf8(&files[0]), utf8(&files[1]), "--out", utf8(&model), "--validate"]);
    assert!(table.contains("scenario left out") && table.contains("bar <="), "{table}");
    let scored = ["eval", utf8(directory.path()), "--model", utf8(&model), "--splices", "50"];
    let table = printed(&scored);
    assert!(table.contains("cpu called receiver") && table.contains("outage"), "{table}");
    let json: Value = serde_json::from_str(&printed(&[&scored[..], &["--json"]].concat())).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(2), "as they are, and cut to 10,000");
    assert_eq!(json[0]["bars"].as_array().map(Vec::len), Some(5));
}

#[test]
fn unusable_input_is_named_with_its_exit_code() {
    let directory = tempfile::tempdir().expect("a directory");
    let bad = directory.path().join("bad.jsonl");
    std::fs::write(&bad, "{\"n\":5,\"rle\":[9,9]}\n").expect("written");
    let out = directory.path().join("model.json");
    for (words, code, says) in [
        (&["classify", "/no/such/file"][..], 3, "cannot read /no/such/file"),
        (&["classify", utf8(&bad)], 3, "line 0"),
        (&["classify", utf8(&recorded()), "--model", utf8(&bad)], 3, "no model of version 1"),
        (&["eval", "/no/such/directory"], 3, "cannot read"),
        (&["train", utf8(&recorded()), "--out", utf8(&out)], 1, "too few"),
        (&["generate", "--count", "1", "--out", "/no/such/directory/x"], 11, "cannot write"),
    ] {
        let (exit, _, stderr) = diagnose(words);
        assert_eq!(exit, Some(code), "{words:?}: {stderr}");
        assert!(stderr.contains(says), "{words:?}: {stderr}");
    }
    let empty = tempfile::tempdir().expect("a directory");
    let (exit, _, stderr) = diagnose(&["eval", utf8(empty.path())]);
    assert!(exit == Some(3) && stderr.contains("no windows"), "{stderr}");
}

#[test]
fn recording_checks_its_arguments() {
    for (words, says) in [
        (&["record", "send", "127.0.0.1:9", "100", "1", "both", "1"][..], "possible values: one, gso"),
        (&["record", "recv", "127.0.0.1:0", "peace", "100", "1", "65536", "gro", "1", "1", "1"], "slowrx"),
        (&["record", "send", "127.0.0.1:9", "0", "1", "one", "1"], "0 is not in"),
    ] {
        let (exit, _, stderr) = diagnose(words);
        assert_eq!(exit, Some(1), "{words:?}: {stderr}");
        assert!(stderr.contains(says), "{words:?}: {stderr}");
    }
    let text =
        printed(&["record", "recv", "127.0.0.1:0", "slowrx", "100", "1", "65536", "plain", "0", "1", "1"]);
    assert_eq!(text, "");
}
