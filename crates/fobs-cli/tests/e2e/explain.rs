//! `--explain` names the limit of a copy's rate, and its trace gives the same explanation.

use std::fs;

use super::case::Case;
use super::files::write_random;
use super::net::Side;
use super::remote::{Carrier, Direction, Route};

/// Long enough for a dozen samples at the cap.
const SIZE: u64 = 6 << 20;
const CAP: &str = "40Mbit";

fn capped(name: &'static str, direction: Direction) {
    let case = Case::new(name);
    let route = Route::open(&case, Carrier::Daemon, direction);
    write_random(&route.source_path("file"), SIZE, &mut case.random());
    let trace = case.path("trace.jsonl");
    let file = trace.to_str().expect("a plain name");
    let flags = ["--rate", CAP, "--explain", "--trace", file];
    let finished = case.run(&mut route.copy(&flags, "file", "file")).expect_success();
    let done = finished.done();
    let explain = &done["explain"];
    // Which limit is the largest depends on the machine's other load; that the cap is among them does not.
    assert!(explain["limit"].is_string(), "{done}");
    let sentence = explain["sentence"].as_str().expect("a sentence");
    let unclear = explain["certainty"] == "unclear";
    assert!(unclear || sentence.contains("% of the time"), "{sentence}");
    let stages = explain["budget"].as_array().expect("stages");
    assert!(stages.iter().any(|spent| spent["stage"] == "rate_cap"), "{done}");

    let text = fs::read_to_string(&trace).expect("the trace");
    let first = text.lines().next().expect("a first line");
    assert!(first.contains("\"record\":\"trace\"") && first.contains("\"v\":1"), "{first}");
    for record in ["sender", "receiver", "end"] {
        assert!(text.contains(&format!("\"record\":\"{record}\"")), "no {record} in the trace");
    }

    let page = case.path("page.html");
    let mut again = case.fobs(Side::Client);
    again.args(["explain", "--html"]).arg(&page).arg(&trace);
    let read = case.run(&mut again).expect_success();
    let text = String::from_utf8(read.stdout).expect("text");
    assert!(text.starts_with(sentence), "{text} after {sentence}");
    let page = fs::read_to_string(page).expect("the page");
    assert!(page.starts_with("<!doctype html>") && page.contains("</svg>") && !page.contains("<script"));
    let mut json = case.fobs(Side::Client);
    json.args(["explain", "--json"]).arg(&trace);
    let read: serde_json::Value =
        serde_json::from_slice(&case.run(&mut json).expect_success().stdout).expect("one object");
    assert_eq!(&read, explain);
}

#[test]
fn a_capped_push_and_its_trace_name_the_cap() {
    capped("a_capped_push_and_its_trace_name_the_cap", Direction::Push);
}

#[test]
fn a_capped_pull_and_its_trace_name_the_cap() {
    capped("a_capped_pull_and_its_trace_name_the_cap", Direction::Pull);
}

#[test]
fn a_trace_to_an_impossible_place_fails_before_the_copy() {
    let case = Case::new("a_trace_to_an_impossible_place_fails_before_the_copy");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    fs::write(route.source_path("file"), b"x").expect("a fresh file");
    for place in [case.path("no/such/trace.jsonl"), case.path("local")] {
        let place = place.to_str().expect("a plain name");
        let finished = case.run(&mut route.copy(&["--trace", place], "file", "copy")).expect_code(11);
        let message = finished.failed()["message"].as_str().expect("a message").to_owned();
        assert!(message.contains("cannot write the trace") && message.contains(place), "{message}");
        assert_eq!(finished.events().len(), 1, "nothing began: {:?}", finished.events());
        assert!(!route.target_path("copy").exists());
    }
}

#[test]
fn an_invalid_trace_is_refused_in_one_sentence() {
    let case = Case::new("an_invalid_trace_is_refused_in_one_sentence");
    let file = case.path("file");
    for (content, reason) in [
        (&b""[..], "not that of a trace"),
        (b"\xff\x00\n", "not that of a trace"),
        (b"{\"record\":\"trace\",\"v\":9}\n", "version 9"),
        (b"{\"record\":\"trace\",\"v\":1}\n", "its end is missing"),
    ] {
        fs::write(&file, content).expect("a small file");
        let mut command = case.fobs(Side::Client);
        let finished = case.run(command.arg("explain").arg(&file));
        assert_eq!(finished.code, Some(3), "{}", finished.stderr);
        assert!(finished.stderr.contains(reason), "{}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    }
}
