//! A running copy is looked at and changed: `fobs top`, `fobs ctl`.

use std::process::Command;
use std::time::{Duration, Instant};

use super::case::Case;
use super::files::{hash, write_random};
use super::net::Side;
use super::process::{Finished, Running};
use super::remote::{Carrier, Direction, Route};

/// What takes 50 s at [`SLOW`], which moves a chunk every two seconds.
const SIZE: u64 = 96 << 20;
const SLOW: &str = "16Mbit";

fn ctl(case: &Case, id: u32, change: &str) -> Finished {
    case.run(case.fobs(Side::Client).args(["ctl", &id.to_string(), change]))
}

fn start(case: &Case, route: &Route<'_>) -> Running {
    write_random(&route.source_path("file"), SIZE, &mut case.random());
    let mut running = case.start(&mut route.copy(&["--rate", SLOW], "file", "copy"));
    running.wait_until_data_flows();
    running
}

fn changed_while_it_runs(name: &'static str, direction: Direction) {
    let case = Case::alone(name);
    let route = Route::open(&case, Carrier::Daemon, direction);
    let running = start(&case, &route);
    let id = running.id();
    ctl(&case, id, "pause").expect_success();
    // What was in flight arrives, and what the line of progress has not shown yet.
    std::thread::sleep(Duration::from_millis(1500));
    let (before, paused) = (running.bytes_so_far(), Instant::now());
    std::thread::sleep(Duration::from_millis(4500));
    assert_eq!(running.bytes_so_far(), before, "nothing is sent after {:?}", paused.elapsed());
    let listed = case.run(case.fobs(Side::Client).args(["top", "--once"])).expect_success();
    let listed = String::from_utf8(listed.stdout).expect("text");
    assert!(listed.contains(&id.to_string()) && listed.contains("paused"), "{listed}");
    ctl(&case, id, "priority=scavenger").expect_success();
    ctl(&case, id, "rate=none").expect_success();
    let resumed = Instant::now();
    ctl(&case, id, "resume").expect_success();
    running.finish().expect_success();
    assert!(
        resumed.elapsed() < Duration::from_secs(25),
        "the old rate would take 40 s more: {:?}",
        resumed.elapsed()
    );
    assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
    let gone = ctl(&case, id, "pause").expect_code(3);
    assert!(gone.stderr.contains(&format!("no copy with the number {id}")), "{}", gone.stderr);
}

#[test]
fn a_push_is_changed_while_it_runs() {
    changed_while_it_runs("a_push_is_changed_while_it_runs", Direction::Push);
}

#[test]
fn a_pull_is_changed_while_it_runs() {
    changed_while_it_runs("a_pull_is_changed_while_it_runs", Direction::Pull);
}

#[test]
fn a_sync_is_watched_and_changed_too() {
    let case = Case::new("a_sync_is_watched_and_changed_too");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    write_random(&route.source_path("file"), SIZE, &mut case.random());
    let mut sync = route.sync(&["--json".to_owned(), "--rate".to_owned(), SLOW.to_owned()]);
    let mut running = case.start(sync.arg(route.source("file")).arg(route.target("file")));
    running.wait_until_data_flows();
    let id = running.id();
    let listed = case.run(case.fobs(Side::Client).args(["top", "--once"])).expect_success();
    let listed = String::from_utf8(listed.stdout).expect("text");
    assert!(listed.contains(&id.to_string()) && listed.contains("file"), "{listed}");
    ctl(&case, id, "rate=none").expect_success();
    running.finish().expect_success();
    assert_eq!(hash(&route.target_path("file")), hash(&route.source_path("file")));
}

#[test]
fn a_copy_is_cancelled_from_elsewhere() {
    let case = Case::new("a_copy_is_cancelled_from_elsewhere");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let running = start(&case, &route);
    let refused = ctl(&case, running.id(), "faster").expect_code(1);
    assert!(refused.stderr.contains("is no change"), "{}", refused.stderr);
    let listed: Command = {
        let mut top = case.fobs(Side::Client);
        top.args(["top", "--json"]);
        top
    };
    let listed = case.run(&mut { listed }).expect_success();
    let copy: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("one object");
    assert_eq!(copy["id"].as_u64(), Some(u64::from(running.id())), "{copy}");
    assert!(copy["rate_bps"].as_f64().is_some_and(|rate| rate > 0.0), "{copy}");
    ctl(&case, running.id(), "cancel").expect_success();
    running.finish().expect_code(20);
}
