//! Sources that change while they are copied fail by name, nothing torn appears, and the rest arrives.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use serde_json::Value;

use super::case::Case;
use super::files::{hash, names, write_random};
use super::remote::{Carrier, Direction, Route};

/// Far more than the sender reads ahead (protocol 8: 40 chunks of 4 MiB). All of it is a hole.
const BIG: u64 = 512 << 20;
/// Slow enough that most of [`BIG`] is unread when the first progress is reported.
const RATE: &str = "500Mbit";

/// The last components of the paths that failed, in order.
fn failed_names(done: &Value) -> Vec<&str> {
    let errors = done["errors"].as_array().expect("a list");
    let mut names: Vec<_> = errors
        .iter()
        .map(|error| error["path"].as_str().expect("a path").rsplit('/').next().unwrap_or_default())
        .collect();
    names.sort();
    names
}

fn changed_meanwhile(name: &'static str, direction: Direction, change: impl Fn(&File)) {
    let case = Case::new(name);
    let route = Route::open(&case, Carrier::Daemon, direction);
    fs::create_dir(route.source_path("tree")).expect("a fresh directory");
    let big = File::create(route.source_path("tree/big")).expect("a fresh file");
    big.set_len(BIG).expect("a hole");
    let expected = write_random(&route.source_path("tree/beside"), 70_000, &mut case.random());
    let mut running = case.start(&mut route.copy(&["-r", "--rate", RATE], "tree", "copy"));
    running.wait_until_data_flows();
    change(&big);
    let done = running.finish().expect_code(23).done();
    assert_eq!(failed_names(&done), ["big"], "{done}");
    let message = done["errors"][0]["message"].as_str().expect("a message");
    assert!(message.contains("it changed while it was read"), "{message}");
    assert_eq!(names(&route.target_path("copy")), ["beside"]);
    assert_eq!(hash(&route.target_path("copy/beside")), expected);
}

fn shrink(file: &File) {
    file.set_len(BIG / 2 + 12_345).expect("it can be cut");
}

/// Writes to the part that is read already: the size stays.
fn overwrite(file: &File) {
    file.write_all_at(b"other", 0).expect("it can be written");
}

#[test]
fn a_file_that_shrinks_during_a_push_fails_by_name() {
    changed_meanwhile("a_file_that_shrinks_during_a_push_fails_by_name", Direction::Push, shrink);
}

#[test]
fn a_file_that_shrinks_during_a_pull_fails_by_name() {
    changed_meanwhile("a_file_that_shrinks_during_a_pull_fails_by_name", Direction::Pull, shrink);
}

#[test]
fn a_file_overwritten_during_a_push_fails_by_name() {
    changed_meanwhile("a_file_overwritten_during_a_push_fails_by_name", Direction::Push, overwrite);
}

#[test]
fn a_file_overwritten_during_a_pull_fails_by_name() {
    changed_meanwhile("a_file_overwritten_during_a_pull_fails_by_name", Direction::Pull, overwrite);
}
