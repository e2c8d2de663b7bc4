//! Jobs to other hosts whose disks are small: what is admitted fits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::case::Case;
use super::files::{hash, write_random};
use super::jobs::{fobs, keep, kill, phase, run, show};
use super::needs;
use super::walls::{Mounted, Server};

/// A server whose root is on a disk of 16 MiB, half of which is used.
fn half_full(case: &Case, over_ssh: bool, rights: &str) -> (Server, Mounted, PathBuf) {
    let root = case.path("disk/served");
    let disk = Mounted::in_memory(case.path("disk"));
    std::fs::create_dir(&root).expect("an empty disk");
    write_random(&root.join("filler"), 8 << 20, &mut case.random());
    let server = if over_ssh { Server::restricted(case, &root) } else { Server::daemon(case, &root, rights) };
    (server, disk, root)
}

/// Hands in a copy of a file under its own name; returns the job's number.
fn hand_in(case: &Case, server: &Server, options: &[&str], name: &str) -> String {
    let copy = server.cp(case);
    let words: Vec<OsString> = copy.get_args().map(OsString::from).collect();
    let begin = words.iter().position(|word| word == "cp").expect("a copy");
    let mut submit = fobs(case);
    submit.arg("submit").args(&words[begin..]).args(options).arg(case.local(name)).arg(server.location(name));
    let said = case.run(&mut submit).expect_success();
    String::from_utf8(said.stdout).expect("a number").trim().to_owned()
}

fn waits_for_room(job: &Value) -> bool {
    phase(job) == "waiting" && job["reason"]["code"] == "room"
}

fn attempts(job: &Value) -> Option<usize> {
    job["attempts"].as_array().map(Vec::len)
}

#[test]
fn no_more_is_admitted_to_another_host_than_there_is_room() {
    let name = "no_more_is_admitted_to_another_host_than_there_is_room";
    if !needs::given(name) {
        return;
    }
    for over_ssh in [false, true] {
        let mut case = Case::new(name);
        case.deadline = Instant::now() + Duration::from_secs(600);
        let (server, _disk, root) = half_full(&case, over_ssh, "read-write");
        let mut random = case.random();
        for (file, mib) in [("first", 5), ("second", 5), ("large", 12), ("small", 1)] {
            write_random(&case.local(file), mib << 20, &mut random);
        }
        let keeper = keep(&case, "one");
        run(&case, &["jobs", "limits", "--total", "8", "--per-host", "8", "--per-source", "8"])
            .expect_success();
        let first = hand_in(&case, &server, &["--rate", "200kbit"], "first");
        case.wait_for("it runs", || phase(&show(&case, &first)) == "running");
        // What the first one has still to write is held.
        let second = hand_in(&case, &server, &[], "second");
        let large = hand_in(&case, &server, &[], "large");
        let small = hand_in(&case, &server, &[], "small");
        case.wait_for("two find no room", || {
            [&second, &large].iter().all(|id| waits_for_room(&show(&case, id)))
        });
        run(&case, &["jobs", "wait", &small]).expect_success();
        let waiting = [&second, &large].map(|id| show(&case, id));
        assert_eq!(waiting[0]["reason"]["needed_bytes"], 5 << 20, "{}", waiting[0]);
        assert!(waiting.iter().all(|job| attempts(job) == Some(0)), "they were not even tried: {waiting:?}");
        run(&case, &["jobs", "cancel", &first]).expect_success();
        run(&case, &["jobs", "wait", &first]).expect_code(20);
        std::fs::remove_file(root.join("filler")).expect("own file");
        run(&case, &["jobs", "wait", &second]).expect_success();
        assert_eq!(attempts(&show(&case, &large)), Some(0), "6 and 12 of 16 MiB");
        std::fs::remove_file(root.join("second")).expect("it came");
        run(&case, &["jobs", "wait", &large]).expect_success();
        for file in ["large", "small"] {
            assert_eq!(hash(&root.join(file)), hash(&case.local(file)), "{file}");
        }
        // What is there under the same name is thought to need no room: it is tried.
        let again = hand_in(&case, &server, &[], "large");
        case.wait_for("it is tried", || attempts(&show(&case, &again)) > Some(0));
        run(&case, &["jobs", "cancel", &again]).expect_success();
        kill(keeper);
    }
}

#[test]
fn a_host_that_does_not_tell_its_room_holds_up_no_job() {
    let name = "a_host_that_does_not_tell_its_room_holds_up_no_job";
    if !needs::given(name) {
        return;
    }
    for rights in ["write-only", "append-only"] {
        let case = Case::new(name);
        let (server, _disk, _) = half_full(&case, false, rights);
        write_random(&case.local("large"), 12 << 20, &mut case.random());
        write_random(&case.local("small"), 1 << 20, &mut case.random());
        let keeper = keep(&case, "one");
        let small = hand_in(&case, &server, &[], "small");
        run(&case, &["jobs", "wait", &small]).expect_success();
        let log = run(&case, &["jobs", "log", &small]).expect_success();
        let log = String::from_utf8(log.stdout).expect("text");
        assert!(log.contains("without a look at the room") && log.contains(rights), "{log}");
        let large = hand_in(&case, &server, &[], "large");
        case.wait_for("it is tried", || attempts(&show(&case, &large)) > Some(0));
        kill_and_forget(&case, keeper, &large);
    }
}

/// Ends a job that would be tried for long, and its keeper.
fn kill_and_forget(case: &Case, keeper: super::process::Running, id: &str) {
    run(case, &["jobs", "cancel", id]).expect_success();
    kill(keeper);
}
