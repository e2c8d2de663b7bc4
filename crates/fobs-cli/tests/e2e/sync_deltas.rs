//! Files that changed, over every carrier and both ways: what is there is not sent again.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::case::Case;
use super::remote::{Carrier, Direction, Route};

const LEN: usize = 4_000_000;

fn content(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// What changed in the middle, and in front.
fn changed(old: &[u8]) -> Vec<u8> {
    let mut new = [b"a new beginning", old].concat();
    new[LEN / 2..LEN / 2 + 4096].fill(7);
    new
}

fn put(path: &Path, bytes: &[u8], age_s: u64) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("our own place");
    fs::write(path, bytes).expect("our own place");
    let time = SystemTime::now() - Duration::from_secs(age_s);
    fs::File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("own file");
}

/// Syncs a changed file; what was matched.
fn sync(case: &Case, route: &Route<'_>, options: &[&str]) -> u64 {
    let old = content(1);
    put(&route.source_path("tree/f"), &changed(&old), 0);
    put(&route.target_path("tree/f"), &old, 1000);
    let options: Vec<String> =
        ["-a", "--json"].iter().chain(options).map(|word| (*word).to_owned()).collect();
    let mut command = route.sync(&options);
    let done = case.run(command.arg(route.source("tree/")).arg(route.target("tree")));
    let done = done.expect_success();
    assert_eq!(fs::read(route.target_path("tree/f")).expect("a file"), changed(&old), "{options:?}");
    let text = String::from_utf8_lossy(&done.stdout);
    let last = text.lines().last().expect("a line for the end");
    let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
    last["matched_bytes"].as_u64().unwrap_or(0)
}

fn over(name: &'static str, carrier: Carrier, direction: Direction) {
    let case = Case::new(name);
    let route = Route::open(&case, carrier, direction);
    for (options, is_delta) in [
        (&["--delta=always"][..], true),
        (&["--no-whole-file", "-z"], true),
        (&["--delta=always", "--transport", "tcp"], true),
        (&["-W"], false),
        (&["--delta=never"], false),
    ] {
        let matched = sync(&case, &route, options);
        let expected = if is_delta { LEN as u64 * 9 / 10..LEN as u64 } else { 0..1 };
        assert!(expected.contains(&matched), "{options:?}: {matched}");
    }
}

#[test]
fn a_push_to_a_daemon_sends_what_changed() {
    over("a_push_to_a_daemon_sends_what_changed", Carrier::Daemon, Direction::Push);
}

#[test]
fn a_pull_from_a_daemon_sends_what_changed() {
    over("a_pull_from_a_daemon_sends_what_changed", Carrier::Daemon, Direction::Pull);
}

#[test]
fn a_push_over_ssh_sends_what_changed() {
    over("a_push_over_ssh_sends_what_changed", Carrier::Ssh, Direction::Push);
}

#[test]
fn a_pull_over_ssh_sends_what_changed() {
    over("a_pull_over_ssh_sends_what_changed", Carrier::Ssh, Direction::Pull);
}

#[test]
fn inside_the_ssh_channel_goes_what_changed() {
    let case = Case::new("inside_the_ssh_channel_goes_what_changed");
    let route = Route::open(&case, Carrier::Ssh, Direction::Push);
    let matched = sync(&case, &route, &["--delta=always", "--transport", "ssh"]);
    assert!(matched > LEN as u64 * 9 / 10, "{matched}");
}
