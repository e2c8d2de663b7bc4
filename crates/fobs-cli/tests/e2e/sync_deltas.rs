//! Files that changed, over every carrier and both ways: what is there is not sent again.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::files::Random;
use super::remote::{Carrier, Direction, Route};

pub const LEN: usize = 4_000_000;

pub fn content(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// What changed in the middle, and in front.
pub fn changed(old: &[u8]) -> Vec<u8> {
    let mut new = [b"a new beginning", old].concat();
    new[LEN / 2..LEN / 2 + 4096].fill(7);
    new
}

pub fn put(path: &Path, bytes: &[u8], age_s: u64) {
    put_at(path, bytes, SystemTime::now() - Duration::from_secs(age_s));
}

fn put_at(path: &Path, bytes: &[u8], time: SystemTime) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("our own place");
    fs::write(path, bytes).expect("our own place");
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
    last(&done.stdout)["matched_bytes"].as_u64().unwrap_or(0)
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

/// Which of two versions of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Old,
    New,
}

/// Puts files into a tree of which deltas are made, as they were or as they are: each was edited at random
/// places, and one has another name since.
pub fn plant(top: &Path, seed: u64, version: Version) {
    let mut random = Random::new(seed);
    for number in 0..3 {
        let len = 16_384 + random.below(200_000);
        let mut bytes = random.bytes(len as usize);
        let edits = random.below(6);
        for _ in 0..edits {
            let (at, edited) = (random.below(len) as usize, random.below(9_000) as usize);
            let (new, inserts) = (random.bytes(edited), random.below(2) == 0);
            if version == Version::New {
                let at = at.min(bytes.len());
                let end = if inserts { at } else { (at + edited).min(bytes.len()) };
                bytes.splice(at..end, new);
            }
        }
        let name = if number == 2 && version == Version::New {
            "image-v2.bin".to_owned()
        } else {
            format!("image-v{number}.bin")
        };
        let age = if version == Version::Old { 5_000 } else { 1_000 };
        put_at(&top.join(name), &bytes, SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 - age));
    }
}

/// What the end of `--json` says.
pub fn last(stdout: &[u8]) -> serde_json::Value {
    let text = String::from_utf8_lossy(stdout);
    serde_json::from_str(text.lines().last().expect("a line for the end")).expect("JSON")
}

#[test]
fn a_key_that_may_only_write_learns_nothing_by_deltas() {
    let case = Case::new("a_key_that_may_only_write_learns_nothing_by_deltas");
    let (writer, owner) = (Key::generate(&case, "writer"), Key::generate(&case, "owner"));
    let server = Key::generate(&case, "server-key");
    let authorized = [("write-only", &writer), ("read-write", &owner)];
    let daemon = Daemon::start_with(&case, Spec::new(&case, &authorized, &server));
    let old = content(1);
    // A right guess of what is there, and a wrong one, for which the same bytes cross.
    for guess in [changed(&old), changed(&content(2))] {
        for options in [
            &["--delta=always"][..],
            &["--delta=always", "-y"],
            &["--no-whole-file", "-I"],
            &["--delta=always", "--track-renames"],
        ] {
            put(&daemon.root.join("tree/f"), &old, 1000);
            put(&case.local("tree/f"), &guess, 0);
            let mut command = daemon.sync(&case);
            let told = command.args(["-a", "--json"]).args(options);
            let done = case.run(told.arg(case.local("tree/")).arg(daemon.url("tree"))).expect_success();
            assert_eq!(fs::read(daemon.root.join("tree/f")).expect("it came"), guess);
            let end = last(&done.stdout);
            assert_eq!(end["matched_bytes"].as_u64().unwrap_or(0), 0, "{options:?}: {end}");
            assert!(end["packets_needed"].as_u64().is_some_and(|count| count > 1000), "{options:?}: {end}");
        }
    }
    // With the right to look there is something to find.
    put(&daemon.root.join("tree/f"), &old, 1000);
    put(&case.local("tree/f"), &changed(&old), 0);
    let mut command = daemon.sync_with(&case, &owner.file);
    command.args(["-a", "--json", "--delta=always"]).arg(case.local("tree/")).arg(daemon.url("tree"));
    let done = case.run(&mut command).expect_success();
    assert!(last(&done.stdout)["matched_bytes"].as_u64().is_some_and(|bytes| bytes > LEN as u64 * 9 / 10));
}

#[test]
fn a_key_that_may_only_add_learns_nothing_by_deltas() {
    let case = Case::new("a_key_that_may_only_add_learns_nothing_by_deltas");
    let (adder, server) = (Key::generate(&case, "adder"), Key::generate(&case, "server-key"));
    let daemon = Daemon::start_with(&case, Spec::new(&case, &[("append-only", &adder)], &server));
    let old = content(1);
    for (number, options) in [&["-y"][..], &["--track-renames"], &["--no-whole-file"]].into_iter().enumerate()
    {
        // The same content, of the same size and time, and what is like it.
        let [same, like] = ["same", "like"].map(|what| format!("{number}-{what}.img"));
        let from = case.local(format!("from-{number}"));
        put(&daemon.root.join("tree/disk.img"), &old, 1000);
        let then =
            fs::metadata(daemon.root.join("tree/disk.img")).and_then(|it| it.modified()).expect("own file");
        put_at(&from.join(&same), &old, then);
        put(&from.join(&like), &changed(&old), 0);
        let mut command = daemon.sync(&case);
        command.args(["-a", "--json", "--delta=always"]).args(options);
        let done = case.run(command.arg(from.join("")).arg(daemon.url("tree"))).expect_success();
        assert_eq!(fs::read(daemon.root.join("tree").join(&like)).expect("it came"), changed(&old));
        let end = last(&done.stdout);
        assert_eq!(end["matched_bytes"].as_u64().unwrap_or(0), 0, "{options:?}: {end}");
        let packets = end["packets_needed"].as_u64().expect("a count");
        assert!(packets * 1500 > 2 * LEN as u64, "{options:?}: {end}");
    }
}

#[test]
fn files_elsewhere_are_what_a_delta_is_made_of() {
    for (name, carrier, direction) in [
        ("elsewhere_daemon_push", Carrier::Daemon, Direction::Push),
        ("elsewhere_ssh_pull", Carrier::Ssh, Direction::Pull),
    ] {
        let case = Case::new(name);
        let route = Route::open(&case, carrier, direction);
        let old = content(1);
        for (at, options, is_found) in [
            ("tree/disk-1.img", &["--fuzzy"][..], true),
            ("tree/disk-1.img", &["-y", "--delete"], true),
            ("tree/disk-1.img", &[], false),
            ("yesterday/disk-2.img", &["--link-dest=../yesterday"], true),
        ] {
            for directory in ["tree", "yesterday"] {
                let place = route.target_path(directory);
                if place.exists() {
                    fs::remove_dir_all(place).expect("own directory");
                }
            }
            put(&route.source_path("tree/disk-2.img"), &changed(&old), 0);
            put(&route.target_path(at), &old, 1000);
            fs::create_dir_all(route.target_path("tree")).expect("our own place");
            let all: Vec<String> = ["-a", "--json", "--delta=always"]
                .iter()
                .chain(options)
                .map(|word| (*word).to_owned())
                .collect();
            let mut command = route.sync(&all);
            let done =
                case.run(command.arg(route.source("tree/")).arg(route.target("tree"))).expect_success();
            assert_eq!(fs::read(route.target_path("tree/disk-2.img")).expect("it came"), changed(&old));
            let matched = last(&done.stdout)["matched_bytes"].as_u64().unwrap_or(0);
            assert_eq!(matched > LEN as u64 * 9 / 10, is_found, "{name} {options:?}: {matched}");
            let stays = !options.contains(&"--delete");
            assert_eq!(route.target_path(at).exists(), stays, "{name} {options:?}");
        }
    }
}

#[test]
fn a_copy_sends_what_changed_if_asked() {
    for (name, carrier, direction) in [
        ("copy_daemon_push", Carrier::Daemon, Direction::Push),
        ("copy_daemon_pull", Carrier::Daemon, Direction::Pull),
        ("copy_ssh_push", Carrier::Ssh, Direction::Push),
    ] {
        let case = Case::new(name);
        let route = Route::open(&case, carrier, direction);
        let old = content(1);
        for options in [&["--delta"][..], &[]] {
            put(&route.source_path("f"), &changed(&old), 0);
            put(&route.target_path("f"), &old, 1000);
            let mut command = route.cp(&[]);
            // On a slow path a delta always pays.
            command.args(options).args(["--rate", "50M"]);
            let done = case.run(command.arg(route.source("f")).arg(route.target("f"))).expect_success();
            assert_eq!(fs::read(route.target_path("f")).expect("it came"), changed(&old));
            let matched = last(&done.stdout)["matched_bytes"].as_u64().unwrap_or(0);
            assert_eq!(matched > LEN as u64 / 2, !options.is_empty(), "{name} {options:?}: {matched}");
        }
    }
}

#[test]
fn a_repair_moves_what_differs_of_equal_size_and_time() {
    for (name, direction) in [("repair_push", Direction::Push), ("repair_pull", Direction::Pull)] {
        let case = Case::new(name);
        let route = Route::open(&case, Carrier::Daemon, direction);
        let good = content(1);
        let mut bad = good.clone();
        bad[LEN / 3] ^= 1;
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for (options, is_repaired) in
            [(&["-a"][..], false), (&["-a", "--repair"], true), (&["-ac", "--delta=always"], true)]
        {
            put_at(&route.source_path("tree/f"), &good, then);
            put_at(&route.target_path("tree/f"), &bad, then);
            put_at(&route.source_path("tree/same"), &bad, then);
            put_at(&route.target_path("tree/same"), &bad, then);
            let all: Vec<String> = options.iter().chain(&["--json"]).map(|word| (*word).to_owned()).collect();
            let mut command = route.sync(&all);
            let done =
                case.run(command.arg(route.source("tree/")).arg(route.target("tree"))).expect_success();
            let there = fs::read(route.target_path("tree/f")).expect("a file");
            assert_eq!(there, if is_repaired { good.clone() } else { bad.clone() }, "{name} {options:?}");
            let end = last(&done.stdout);
            // A piece of at most 16 KiB, and the records.
            let packets = end["packets_needed"].as_u64().expect("a count");
            assert!(packets < 40, "{name} {options:?}: {end}");
            assert_eq!(end["matched_bytes"].as_u64().unwrap_or(0) > LEN as u64 * 99 / 100, is_repaired);
        }
    }
}

#[test]
fn a_tree_that_moved_is_not_sent_again() {
    for (name, carrier, direction) in [
        ("moved_daemon_push", Carrier::Daemon, Direction::Push),
        ("moved_daemon_pull", Carrier::Daemon, Direction::Pull),
        ("moved_ssh_push", Carrier::Ssh, Direction::Push),
    ] {
        let case = Case::new(name);
        let route = Route::open(&case, carrier, direction);
        for (options, is_found) in [
            (&["--track-renames"][..], true),
            (&["--track-renames", "--delete-after"], true),
            // What is deleted first is no basis any more.
            (&["--track-renames", "--delete-before"], false),
            (&[], false),
        ] {
            for place in [route.source_path("tree"), route.target_path("tree")] {
                if place.exists() {
                    fs::remove_dir_all(place).expect("own directory");
                }
            }
            for number in 0..20 {
                let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + number);
                let bytes = &content(number)[..300_000];
                put_at(&route.source_path(format!("tree/now/deep/{number}")), bytes, then);
                put_at(&route.target_path(format!("tree/before/{number}")), bytes, then);
            }
            let all: Vec<String> = ["-a", "--json", "--delete", "--delta=always"]
                .iter()
                .chain(options)
                .map(|word| (*word).to_owned())
                .collect();
            let mut command = route.sync(&all);
            let done =
                case.run(command.arg(route.source("tree/")).arg(route.target("tree"))).expect_success();
            for number in 0..20 {
                let stored = fs::read(route.target_path(format!("tree/now/deep/{number}"))).expect("it came");
                assert_eq!(stored, content(number)[..300_000]);
            }
            assert!(!route.target_path("tree/before").exists(), "{name} {options:?}");
            let matched = last(&done.stdout)["matched_bytes"].as_u64().unwrap_or(0);
            // A push with --delete looks for them by itself, once there is enough that is new.
            let expected = match (is_found, direction, options.len()) {
                (true, ..) => 6_000_000..6_000_001,
                (false, Direction::Push, 0) => 4_000_000..6_000_001,
                _ => 0..1,
            };
            assert!(expected.contains(&matched), "{name} {options:?}: {matched}");
        }
    }
}
