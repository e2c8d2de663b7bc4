//! Lanes that are added in the middle of a copy. On few cores no thread is the limit by itself: a variable of
//! builds with debug assertions has both programs add them.

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::files::{hash, write_random};
use super::remote::{Direction, Route};
use std::process::Command;

const FILE_BYTES: u64 = 48 << 20;
/// Slow enough that lanes are added in the first part of the copy.
const RATE: &str = "80Mbit";
/// How many lanes a session comes to.
const LANES: (&str, &str) = ("FOBS_TEST_LATE_LANES", "3");

fn route(case: &Case, direction: Direction) -> Route<'_> {
    let (client, server) = (Key::generate(case, "client-key"), Key::generate(case, "server-key"));
    let keys = [("read-write", &client)];
    let spec = Spec { variables: &[LANES], ..Spec::new(case, &keys, &server) };
    Route::to(case, Daemon::start_with(case, spec), direction)
}

fn copy(route: &Route<'_>, flags: &[&str]) -> Command {
    let flags = [&["--rate", RATE], flags].concat();
    let mut command = route.copy(&flags, "file", "copy");
    command.env(LANES.0, LANES.1);
    command
}

fn each_way(name: &'static str, play: impl Fn(&Case, &Route<'_>)) {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        let route = route(&case, direction);
        write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        play(&case, &route);
    }
}

#[track_caller]
fn expect_copied(route: &Route<'_>) {
    assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
}

#[test]
fn lanes_that_are_added_carry_data_and_are_told_of() {
    each_way("lanes_that_are_added_carry_data_and_are_told_of", |case, route| {
        let done = case.run(&mut copy(route, &[])).expect_success().done();
        expect_copied(route);
        let said: Vec<String> = done["lanes"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|lane| lane.as_str().map(str::to_owned))
            .collect();
        for part in
            ["3 lanes, because a thread was the limit of this copy with fewer", "lane 2 (the lane added at "]
        {
            assert!(said.iter().any(|lane| lane.starts_with(part)), "{part}: {said:?}");
        }
        // Each of them had a chunk at least.
        let idle = said.iter().filter(|lane| lane.contains(" 0% of the data")).count();
        assert_eq!(idle, 0, "{said:?}");
        assert_eq!(done["transport"], "udp");
    });
}

#[test]
fn an_explanation_tells_when_lanes_were_added() {
    each_way("an_explanation_tells_when_lanes_were_added", |case, route| {
        let mut command = copy(route, &["--explain", "-v"]);
        let finished = case.run(&mut command).expect_success();
        let told = finished.said();
        assert!(
            told.contains("data over UDP, 3 lanes: the thread that seals or opens packets was busy"),
            "{told}"
        );
        expect_copied(route);
    });
}

#[test]
fn lanes_that_the_user_chose_stay_what_they_are() {
    each_way("lanes_that_the_user_chose_stay_what_they_are", |case, route| {
        let done = case.run(&mut copy(route, &["--lanes", "1"])).expect_success().done();
        expect_copied(route);
        assert_eq!(done["lanes"], serde_json::Value::Null, "{done}");
    });
}

#[test]
fn a_killed_copy_with_lanes_that_were_added_goes_on() {
    each_way("a_killed_copy_with_lanes_that_were_added_goes_on", |case, route| {
        let mut running = case.start(&mut copy(route, &[]));
        case.wait_for("a part is verified", || running.bytes_so_far() >= FILE_BYTES / 2);
        running.kill();
        let verified = running.bytes_so_far();
        let mut done = serde_json::Value::Null;
        case.wait_for("the copy goes on", || {
            let finished = case.run(&mut copy(route, &[]));
            if finished.code == Some(0) {
                done = finished.done();
            }
            done != serde_json::Value::Null
        });
        expect_copied(route);
        let resumed = done["resumed_bytes"].as_u64().unwrap_or_default();
        // Chunks behind one that a lane still sends are verified and not stored: at most a window of them.
        assert!(resumed > 0 && resumed + (20 << 20) >= verified, "{verified} were verified: {done}");
    });
}
