//! `fobs-lab sim` as a user runs it: scenarios in, table, JSON and plot out; errors in one sentence, with
//! exit codes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SCENARIO: &str = r#"
duration_s = 5

[[link]]
from = "a"
to = "r"
rate_mbit = 200
delay_ms = 0

[[link]]
from = "r"
to = "b"
rate_mbit = 50
delay_ms = 10
loss = 0.001

[[flow]]
kind = "fobs"
from = "a"
to = "b"
size_mb = 5
"#;

fn sim(arguments: &[&str], paths: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fobs-lab"));
    command.arg("sim").args(arguments).args(paths).output().expect("fobs-lab runs")
}

fn scenario(directory: &Path, text: &str) -> PathBuf {
    let path = directory.join("small.toml");
    fs::write(&path, text).expect("a file in a temporary directory");
    path
}

#[test]
fn a_scenario_gives_the_same_table_json_and_plot_twice() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = scenario(directory.path(), SCENARIO);
    let run = |name: &str| {
        let (json, plot) =
            (directory.path().join(format!("{name}.json")), directory.path().join(format!("{name}.svg")));
        let files = [Path::new("--json"), &json, Path::new("--plot"), &plot, &path];
        let output = sim(&["run", "--seed", "7"], &files);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (output.stdout, fs::read(json).expect("written"), fs::read(plot).expect("written"))
    };
    let once = run("once");
    assert_eq!(once, run("again"));
    let table = String::from_utf8(once.0).expect("text");
    assert!(table.starts_with("small: seed 7, ") && table.contains(" complete "), "{table}");
    let json: serde_json::Value = serde_json::from_slice(&once.1).expect("JSON");
    assert_eq!((&json["seed"], &json["flows"][0]["outcome"]), (&7.into(), &"complete".into()));
    assert!(once.2.starts_with(b"<svg"));
}

#[test]
fn a_program_reads_the_measurements_and_nothing_else() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fobs-lab"));
    command.args(["sim", "run", "--json", "-", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("fobs-lab runs");
    child.stdin.take().expect("a pipe").write_all(SCENARIO.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!(run["name"], "stdin");
    let flow = &run["flows"][0];
    let samples = flow["samples"].as_array().expect("samples");
    // The queue in front of the narrow link is all this flow's.
    let most = samples.iter().filter_map(|sample| sample["queued_bytes"].as_u64()).max();
    let queue =
        run["links"].as_array().expect("links").iter().filter_map(|link| link["queue_bytes_max"].as_u64());
    assert!(most.is_some_and(|most| most > 0 && most <= queue.sum()), "{most:?}");
    assert!(samples.iter().any(|sample| sample["window_bytes"].as_u64().is_some_and(|bytes| bytes > 0)));

    let both = sim(&["run", "--json", "-", "--plot", "-", "-"], &[]);
    assert_eq!((both.status.code(), both.stdout.len()), (Some(1), 0));
    assert!(String::from_utf8_lossy(&both.stderr).contains("cannot both be standard output"));
}

#[test]
fn an_invalid_scenario_is_refused_with_key_and_reason() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = scenario(directory.path(), &SCENARIO.replace("rate_mbit = 50", "rate_mbit = -50"));
    let output = sim(&["run"], &[&path]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("link[1].rate_mbit: -50 is not possible; give 0.001 to"), "{message}");
    let output = sim(&["run"], &[&directory.path().join("missing.toml")]);
    assert_eq!(output.status.code(), Some(3));
    let output = sim(&["swarm", "--seeds", "0"], &[]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_swarm_prints_the_outcome_of_its_worlds() {
    let output = sim(&["swarm", "--seeds", "3", "--from", "40", "-v"], &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.lines().count() == 4 && text.starts_with("seed 40: "), "{text}");
    assert!(text.lines().last().is_some_and(|line| line.starts_with("3 worlds from seed 40, ")), "{text}");
}

#[test]
fn recorded_losses_drive_a_virtual_transfer() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let windows = directory.path().join("windows.jsonl");
    let stalls = r#"{"n": 70000, "burst": 1, "cause": "cpu", "rle": [20000, 180, 30000, 170]}"#;
    fs::write(&windows, format!("{stalls}\n")).expect("a file in a temporary directory");
    let direct = |arguments: &[&str]| sim(&[&["direct"], arguments].concat(), &[&windows]);
    let asked = ["--loss-rate", "0.00035,0.00056", "--windows", "2000", "--json"];
    let output = direct(&asked);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, direct(&asked).stdout);
    let rows: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(row["receiver"], row["events"], "{row}");
        let rate = |name: &str| row[name].as_f64().expect("a number");
        assert!(rate("with_bps") > 10.0 * rate("without_bps"), "{row}");
    }
    let table = String::from_utf8(direct(&["--loss-rate", "0.00035"]).stdout).expect("text");
    assert!(table.starts_with("loss rate") && table.lines().count() == 2, "{table}");

    let refused = direct(&["--loss-rate", "0.9"]);
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    let missing = sim(&["direct"], &[&directory.path().join("nothing")]);
    assert!(!missing.status.success());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("nothing"));
}

#[test]
fn flows_of_auto_share_a_short_virtual_link() {
    let short = ["sharing", "--mbit", "20", "--rtts", "20", "--seeds", "1..2"];
    let output = sim(&[&short[..], &["--counts", "2", "--lasts", "15"]].concat(), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.lines().count() == 1 && text.starts_with("2 of auto, 20 Mbit/s,  20 ms, 4/4 BDP: "),
        "{text}"
    );
    let output = sim(&[&short[..], &["--beside", "cubic", "--lasts", "45"]].concat(), &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().count() == 2 && text.starts_with("cubic first , 20 Mbit/s"), "{text}");
    for wrong in ["--beside warp", "--seeds 9..1", "--counts 0", "--lasts 3", "--beside bbr --lasts 44"] {
        let words: Vec<&str> = ["sharing"].into_iter().chain(wrong.split(' ')).collect();
        let output = sim(&words, &[]);
        assert_eq!(output.status.code(), Some(1), "{wrong:?}");
    }
}
