//! When jobs run: times, parts of the day, repetition, order; and what their keeper tells meanwhile.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::case::Case;
use super::files::{hash, write_random};
use super::jobs::{keep, kill, phase, run, show, submit};

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    u64::try_from(since.as_millis()).expect("a time of ours")
}

#[test]
fn a_job_begins_at_its_time_and_ends_by_its_deadline() {
    let case = Case::new("a_job_begins_at_its_time_and_ends_by_its_deadline");
    write_random(&case.local("in"), 16 << 20, &mut case.random());
    let keeper = keep(&case, "one");
    let before_ms = now_ms();
    let later = submit(&case, &["--at", "2s", "cp", "in", "later"]);
    let much_later = submit(&case, &["--at", "9h", "cp", "in", "much-later"]);
    let late = submit(&case, &["--at", "9h", "--deadline", "1s", "cp", "in", "late"]);
    let slow = submit(&case, &["--deadline", "3s", "cp", "--rate", "8Mbit", "in", "slow"]);
    run(&case, &["jobs", "wait", &later]).expect_success();
    let began_ms = show(&case, &later)["standing"]["began_ms"].as_u64().expect("it began");
    assert!(began_ms >= before_ms + 2000, "{began_ms} after {before_ms}");
    assert_eq!(hash(&case.local("later")), hash(&case.local("in")));
    run(&case, &["jobs", "wait", &late]).expect_code(30);
    assert_eq!(show(&case, &late)["standing"]["message"], "its deadline has passed");
    let ended = run(&case, &["jobs", "wait", &slow]);
    assert_ne!(ended.code, Some(0), "what runs at its deadline is ended");
    assert_eq!(phase(&show(&case, &slow)), "failed");
    assert!(!case.local("slow").exists());
    let waiting = show(&case, &much_later);
    assert_eq!((phase(&waiting), &waiting["reason"]["code"]), ("waiting", &Value::from("at")));
    let refused = run(&case, &["submit", "--deadline", "2001-01-01", "cp", "in", "x"]).expect_code(1);
    assert!(refused.stderr.contains("in the past"), "{}", refused.stderr);
    kill(keeper);
}

#[test]
fn a_job_comes_after_another_and_falls_with_it() {
    let case = Case::new("a_job_comes_after_another_and_falls_with_it");
    write_random(&case.local("in"), 2 << 20, &mut case.random());
    let keeper = keep(&case, "one");
    let first = submit(&case, &["cp", "--rate", "8Mbit", "in", "first"]);
    // Its source is what the first one makes.
    let second = submit(&case, &["--after", &first, "cp", "first", "second"]);
    let why = show(&case, &second)["why"].clone();
    assert_eq!(why, format!("waits until {first} has succeeded"));
    run(&case, &["jobs", "wait", &second]).expect_success();
    assert_eq!(hash(&case.local("second")), hash(&case.local("in")));
    let broken = submit(&case, &["--at", "1s", "cp", "not-there", "x"]);
    let falls = submit(&case, &["--after", &broken, "cp", "in", "y"]);
    run(&case, &["jobs", "wait", &falls]).expect_code(30);
    assert!(!case.local("y").exists());
    let late = run(&case, &["submit", "--after", &broken, "cp", "in", "z"]);
    assert_ne!(late.code, Some(0), "nothing can come after it: {}", late.stderr);
    kill(keeper);
}

#[test]
fn a_job_runs_again_and_again_in_its_part_of_the_day() {
    let case = Case::new("a_job_runs_again_and_again_in_its_part_of_the_day");
    std::fs::write(case.local("in"), "x").expect("own directory");
    let keeper = keep(&case, "one");
    let often = submit(&case, &["--every", "1s", "cp", "in", "often"]);
    case.wait_for("its third run", || show(&case, &often)["standing"]["runs"].as_u64() >= Some(3));
    run(&case, &["jobs", "cancel", &often]).expect_success();
    run(&case, &["jobs", "wait", &often]).expect_code(20);
    let runs = show(&case, &often)["standing"]["runs"].clone();
    // An hour that begins in two hours, by the clock of the keeper.
    let hour = |from_now: &str| {
        let said = case.run(case.command(super::net::Side::Client, "date").args(["+%H:%M", "-d", from_now]));
        String::from_utf8(said.expect_success().stdout).expect("a time").trim().to_owned()
    };
    let window = format!("{}-{}", hour("2 hours"), hour("3 hours"));
    let nightly = submit(&case, &["--between", &window, "cp", "in", "nightly"]);
    let open = format!("{}-{}", hour("-2 hours"), hour("2 hours"));
    let daily = submit(&case, &["--between", &open, "cp", "in", "daily"]);
    run(&case, &["jobs", "wait", &daily]).expect_success();
    let waiting = show(&case, &nightly);
    assert_eq!(
        (phase(&waiting), &waiting["why"]),
        ("waiting", &Value::from(format!("runs between {window} only")))
    );
    assert_eq!(show(&case, &often)["standing"]["runs"], runs, "a cancelled one runs no more");
    let said = run(&case, &["top", "--once"]).expect_success();
    let said = String::from_utf8(said.stdout).expect("text");
    assert!(said.contains(&format!("job {nightly}  cp in nightly\n    waiting: runs between")), "{said}");
    assert!(!said.contains(&format!("job {daily} ")), "it is over: {said}");
    kill(keeper);
}

#[test]
fn changes_are_told_as_they_happen() {
    let case = Case::new("changes_are_told_as_they_happen");
    write_random(&case.local("in"), 4 << 20, &mut case.random());
    let keeper = keep(&case, "one");
    let mut stream = UnixStream::connect(case.path("home/fobs/jobs.socket")).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: jobs\r\n\r\n").expect("it reads");
    let id = submit(&case, &["cp", "--rate", "8Mbit", "in", "out"]);
    let number: u64 = id.parse().expect("a number");
    let mut phases = Vec::new();
    let mut figures = 0;
    for line in BufReader::new(stream).lines() {
        let line = line.expect("an event in a minute");
        let Some(data) = line.strip_prefix("data:") else { continue };
        let Ok(Value::Array(jobs)) = serde_json::from_str::<Value>(data) else { continue };
        for job in jobs.iter().filter(|job| job["id"] == number) {
            figures += u64::from(job["figures"]["bytes"].as_u64() > Some(0));
            let phase = phase(job).to_owned();
            if phases.last() != Some(&phase) {
                phases.push(phase);
            }
        }
        if phases.last().is_some_and(|phase| phase == "done") {
            break;
        }
    }
    // It may have begun before the first look.
    let from = phases.iter().position(|phase| phase == "running").expect("it was seen to run");
    assert_eq!(phases[from..], ["running", "done"], "{phases:?}");
    assert!(figures > 0, "figures are told while it runs");
    kill(keeper);
}
