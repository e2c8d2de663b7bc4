//! Jobs over networks and onto disks that fail: daemons, third parties, outages, no room.

use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::case::Case;
use super::files::{hash, write_random};
use super::hosts::{between, with_two_names};
use super::jobs::{fobs, keep, kill, kill_attempt, phase, run, show, submit};
use super::needs;
use super::outages::Dead;
use super::remote::{Carrier, Direction, Route};
use super::sshd::Sshd;
use super::walls::Mounted;

/// How long the network is away.
const OUTAGE: Duration = Duration::from_secs(if cfg!(feature = "long") { 600 } else { 15 });

/// Hands in what a command would do; returns the job's number.
fn hand_in(case: &Case, copy: &Command) -> String {
    let words: Vec<OsString> = copy.get_args().map(OsString::from).collect();
    let begin = words.iter().position(|word| word == "cp").expect("a copy");
    let said = case.run(fobs(case).arg("submit").args(&words[begin..])).expect_success();
    String::from_utf8(said.stdout).expect("a number").trim().to_owned()
}

#[test]
fn a_job_goes_to_a_daemon() {
    let case = Case::new("a_job_goes_to_a_daemon");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    write_random(&route.source_path("file"), 3_000_000, &mut case.random());
    let keeper = keep(&case, "one");
    let mut push = route.plain_cp(&[]);
    push.arg(route.source("file")).arg(route.target("copy"));
    let id = hand_in(&case, &push);
    run(&case, &["jobs", "wait", &id]).expect_success();
    assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
    let job = show(&case, &id);
    let attempt = &job["attempts"][0];
    assert_eq!(
        (attempt["bytes"].as_u64(), job["attempts"].as_array().map(Vec::len)),
        (Some(3_000_000), Some(1))
    );
    let limit = attempt["limit"].as_str().unwrap_or_default();
    assert!(!limit.is_empty(), "what limited it is kept: {attempt}");
    kill(keeper);
}

#[test]
fn a_job_goes_between_two_other_hosts() {
    let case = Case::new("a_job_goes_between_two_other_hosts");
    let sshd = Sshd::start(&case);
    with_two_names(&sshd);
    write_random(&sshd.root.join("there"), 2_000_000, &mut case.random());
    let keeper = keep(&case, "one");
    let id = hand_in(&case, &between(&case, &sshd, &[], "there", "elsewhere"));
    run(&case, &["jobs", "wait", &id]).expect_success();
    assert_eq!(hash(&sshd.root.join("elsewhere")), hash(&sshd.root.join("there")));
    let spec = show(&case, &id)["spec"].clone();
    assert_eq!((&spec["destinations"], &spec["room"]), (&serde_json::json!(["other"]), &Value::Null));
    kill(keeper);
}

#[test]
fn a_job_outlives_an_outage_and_its_host() {
    let name = "a_job_outlives_an_outage_and_its_host";
    if !needs::given(name) {
        return;
    }
    let mut case = Case::new(name);
    case.deadline =
        Instant::now() + OUTAGE + Duration::from_secs(if cfg!(feature = "long") { 1800 } else { 400 });
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    write_random(&route.source_path("file"), 12 << 20, &mut case.random());
    let keeper = keep(&case, "one");
    // Short, so that an attempt ends within the outage; a person keeps the usual minutes.
    let mut push = route.plain_cp(&["--rate", "8Mbit", "--timeout", "4"]);
    push.arg(route.source("file")).arg(route.target("copy"));
    let id = hand_in(&case, &push);
    case.wait_for("data flows", || show(&case, &id)["figures"]["bytes"].as_u64() > Some(0));
    let dead = Dead::new(&case);
    case.wait_for("an attempt fails", || show(&case, &id)["standing"]["failures"].as_u64() > Some(0));
    // The host goes down while the network is away, and comes back before that does.
    let job = show(&case, &id);
    kill(keeper);
    if phase(&job) == "running" {
        kill_attempt(&job);
    }
    let keeper = keep(&case, "another");
    std::thread::sleep(OUTAGE);
    assert!(["waiting", "running"].contains(&phase(&show(&case, &id))), "{}", show(&case, &id));
    drop(dead);
    run(&case, &["jobs", "wait", &id]).expect_success();
    assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
    let job = show(&case, &id);
    assert!(job["attempts"].as_array().is_some_and(|all| all.len() > 1), "{job}");
    kill(keeper);
}

#[test]
fn a_job_waits_for_room_where_it_writes() {
    let name = "a_job_waits_for_room_where_it_writes";
    if !needs::given(name) {
        return;
    }
    let mut case = Case::new(name);
    case.deadline = Instant::now() + Duration::from_secs(400);
    // 16 MiB.
    let _disk = Mounted::in_memory(case.local("disk"));
    let mut random = case.random();
    write_random(&case.local("disk/filler"), 8 << 20, &mut random);
    write_random(&case.local("large"), 10 << 20, &mut random);
    write_random(&case.local("small"), 1 << 20, &mut random);
    let keeper = keep(&case, "one");
    let large = submit(&case, &["cp", "large", "disk/large"]);
    let small = submit(&case, &["cp", "small", "disk/small"]);
    run(&case, &["jobs", "wait", &small]).expect_success();
    let waiting = show(&case, &large);
    assert_eq!((phase(&waiting), &waiting["reason"]["code"]), ("waiting", &Value::from("room")));
    assert_eq!(waiting["reason"]["needed_bytes"], 10 << 20, "{waiting}");
    assert_eq!(waiting["attempts"].as_array().map(Vec::len), Some(0), "it was not even tried");
    std::fs::remove_file(case.local("disk/filler")).expect("own file");
    run(&case, &["jobs", "wait", &large]).expect_success();
    assert_eq!(hash(&case.local("disk/large")), hash(&case.local("large")));
    // Of a sync it is not known what differs: it is tried, told that there is no room, and goes on with some.
    let synced = submit(&case, &["sync", "-a", "large", "disk/again"]);
    case.wait_for("it finds no room", || {
        let job = show(&case, &synced);
        phase(&job) == "waiting" && job["attempts"].as_array().is_some_and(|all| !all.is_empty())
    });
    assert_eq!(show(&case, &synced)["attempts"][0]["ending"]["room"], "full");
    std::fs::remove_file(case.local("disk/large")).expect("own file");
    run(&case, &["jobs", "wait", &synced]).expect_success();
    assert_eq!(hash(&case.local("disk/again")), hash(&case.local("large")));
    kill(keeper);
}
