//! The version that a destination has, found by itself where this host still has it: what is remembered of
//! earlier syncs names it.

use std::fs;

use serde_json::Value;

use super::case::Case;
use super::remote::{Carrier, Direction, Route};
use super::sync_deltas::{LEN, content, last, put};

/// Weights of 2 bytes of which one in fifty is another, each step another one.
fn trained(old: &[u8], step: u64) -> Vec<u8> {
    let mut new = old.to_vec();
    for (at, chance) in content(70 + step).into_iter().enumerate().take(old.len() / 2) {
        if chance < 5 {
            new[2 * at] ^= chance + 1;
        }
    }
    new
}

/// Packets of the data that a sync needs, after which the destination has the source's file.
fn push(case: &Case, route: &Route<'_>, options: &[&str], (from, to): (&str, &str)) -> (u64, Value) {
    let options: Vec<String> =
        ["-a", "--json"].iter().chain(options).map(|word| (*word).to_owned()).collect();
    let mut command = route.sync(&options);
    let done = case.run(command.arg(route.source(from)).arg(route.target(to))).expect_success();
    let end = last(&done.stdout);
    (end["packets_needed"].as_u64().expect("a count"), end)
}

#[track_caller]
fn expect_there(route: &Route<'_>, path: &str, bytes: &[u8]) {
    assert!(fs::read(route.target_path(path)).expect("it came") == bytes, "{path}");
}

/// What differs and what a list takes, in packets.
const FEW: u64 = LEN as u64 * 6 / 100 / 1400;

#[test]
fn the_version_that_was_sent_before_is_found_by_itself() {
    for (name, carrier) in [("remembered_daemon", Carrier::Daemon), ("remembered_ssh", Carrier::Ssh)] {
        let case = Case::new(name);
        let route = Route::open(&case, carrier, Direction::Push);
        let first = content(1);
        let second = trained(&first, 1);
        let third = trained(&second, 2);
        // Each checkpoint has a directory of its own here, and the destination has the newest.
        for (step, weights) in [&first, &second, &third].into_iter().enumerate() {
            put(&route.source_path(format!("run/{step}/w.bin")), weights, 500 - 100 * step as u64);
        }
        let (whole, end) = push(&case, &route, &[], ("run/0/", "model/"));
        assert!(whole * 1400 > LEN as u64 * 9 / 10, "{end}");
        for step in [1, 2] {
            let (packets, end) = push(&case, &route, &[], (&format!("run/{step}/"), "model/"));
            expect_there(&route, "model/w.bin", [&second, &third][step - 1]);
            assert!(packets < FEW, "{name} {step}: {end}");
            assert!(end["deltas"]["matched"]["same_name"].as_u64().is_some_and(|it| it > LEN as u64 / 2));
        }
        // Back to the first, which was sent as well, but is not what the destination has.
        let (_, end) = push(&case, &route, &[], ("run/0/", "model/"));
        expect_there(&route, "model/w.bin", &first);
        assert!(end["errors"].as_array().is_some_and(Vec::is_empty), "{end}");
    }
}

#[test]
fn a_version_that_got_another_name_is_found_beside_it() {
    let case = Case::new("a_version_that_got_another_name_is_found_beside_it");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let mut old = content(1);
    put(&route.source_path("run/w.bin"), &old, 500);
    push(&case, &route, &["--mkpath"], ("run/w.bin", "model/w.bin"));
    for turn in 0..2 {
        let new = trained(&old, turn);
        let kept = route.source_path(format!("run/w.bin.{turn}"));
        fs::rename(route.source_path("run/w.bin"), kept).expect("own file");
        put(&route.source_path("run/w.bin"), &new, 400 - 100 * turn);
        let (packets, end) = push(&case, &route, &["--mkpath"], ("run/w.bin", "model/w.bin"));
        expect_there(&route, "model/w.bin", &new);
        assert!(packets < FEW, "{turn}: {end}");
        old = new;
    }
}

#[test]
fn what_is_remembered_may_be_wrong_or_lost() {
    let case = Case::new("what_is_remembered_may_be_wrong_or_lost");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let old = content(1);
    let new = trained(&old, 1);
    let memory = case.path("home/.local/state/fobs/versions");
    let prepare = || {
        put(&route.source_path("run/0/w.bin"), &old, 500);
        put(&route.source_path("run/1/w.bin"), &new, 0);
        put(&route.target_path("model/w.bin"), &content(7), 900);
        push(&case, &route, &[], ("run/0/", "model/"));
        expect_there(&route, "model/w.bin", &old);
    };
    type Harm<'h> = (&'h str, &'h dyn Fn());
    let place = route.target_path("model/w.bin");
    let harms: [Harm<'_>; 4] = [
        ("another program wrote there", &|| put(&place, &content(8), 300)),
        ("the version is gone here", &|| {
            fs::remove_file(route.source_path("run/0/w.bin")).expect("own file")
        }),
        ("the memory is damaged", &|| fs::write(&memory, b"\x01\xff\xff\xff\xff\xff").expect("own file")),
        ("the memory is a directory", &|| {
            fs::remove_file(&memory).expect("own file");
            fs::create_dir(&memory).expect("own place");
        }),
    ];
    for (what, harm) in harms {
        prepare();
        harm();
        let (_, end) = push(&case, &route, &[], ("run/1/", "model/"));
        expect_there(&route, "model/w.bin", &new);
        assert!(end["errors"].as_array().is_some_and(Vec::is_empty), "{what}: {end}");
    }
}

/// A log or a dump is kept under another name before the next is written: what moved in it is found.
#[test]
fn content_that_moved_since_the_version_before_is_found_too() {
    let case = Case::new("content_that_moved_since_the_version_before_is_found_too");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let old = content(1);
    let new = [&old[..LEN / 3], b"rows that were put in", &old[LEN / 3..]].concat();
    put(&route.source_path("run/dump"), &old, 500);
    push(&case, &route, &[], ("run/dump", "dump"));
    fs::rename(route.source_path("run/dump"), route.source_path("run/dump.1")).expect("own file");
    put(&route.source_path("run/dump"), &new, 0);
    let (packets, end) = push(&case, &route, &["--delta=always"], ("run/dump", "dump"));
    expect_there(&route, "dump", &new);
    // Half of a MiB, in which it was not seen yet, and the pieces around it.
    assert!(packets * 1400 < 900_000, "{end}");
}

#[test]
fn the_memory_is_private_and_of_long_files() {
    use std::os::unix::fs::PermissionsExt;
    let case = Case::new("the_memory_is_private_and_of_long_files");
    let from = case.local("from");
    put(&from.join("short"), &content(1)[..100_000], 100);
    let memory = case.path("home/.local/state/fobs/versions");
    let sync = |route: &Route<'_>| push(&case, route, &[], ("from/", "to/"));
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    sync(&route);
    assert!(!memory.exists(), "nothing is worth it");
    put(&from.join("long"), &content(2), 100);
    sync(&route);
    let mode = fs::metadata(&memory).expect("it is there").permissions().mode();
    let above = fs::metadata(memory.parent().expect("a directory")).expect("it is there").permissions();
    assert!(mode & 0o077 == 0 || above.mode() & 0o077 == 0, "{mode:o}");
    let bytes = fs::read(&memory).expect("own file");
    let has = |word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
    assert!(has("from/long") && !has("short"));
}
