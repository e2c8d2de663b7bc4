//! `fobs doctor` examines both ends and the path, and leaves nothing.

use std::process::Command;

use serde_json::Value;

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::files::names;
use super::needs;
use super::net::Side;
use super::process::Finished;
use super::sshd::Sshd;

fn examined(finished: &Finished) -> Value {
    let text = std::str::from_utf8(&finished.stdout).expect("text");
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(text).expect("one object")
}

/// Both ends were examined and data passed both ways.
#[track_caller]
fn expect_both_ends(found: &Value, allowed: &[&str]) {
    assert_eq!((&found["v"], &found["event"]), (&Value::from(1), &Value::from("doctor")));
    for end in [&found["facts"]["here"], &found["facts"]["there"]["host"]] {
        assert!(end["program"].as_str().is_some_and(|program| program.starts_with("fobs ")), "{end}");
        assert!(end["sockets"]["receive"].as_u64().is_some_and(|bytes| bytes > 0), "{end}");
        assert!(end["hash_bps"].as_f64().is_some_and(|bps| bps > 1e6), "{end}");
        assert!(end["interface"]["mtu"].as_u64().is_some_and(|mtu| mtu >= 1500), "{end}");
    }
    for path in [&found["facts"]["there"]["there"], &found["facts"]["there"]["back"]] {
        assert!(path["outcome"]["carried"]["bps"].as_f64().is_some_and(|bps| bps > 1e6), "{path}");
        assert!(path["port"].as_u64().is_some(), "{path}");
    }
    let ahead = found["facts"]["there"]["clock_ahead_s"].as_f64().expect("a difference");
    assert!(ahead.abs() < 5.0, "one clock: {ahead}");
    assert_eq!(found["failure"], Value::Null);
    for way in allowed {
        assert!(found[way]["bps"].as_f64().is_some_and(|bps| bps > 0.0), "{found}");
    }
    assert!(found["verdict"].as_str().is_some_and(|verdict| verdict.contains("is limited to about")));
}

fn doctor_of_a_daemon(case: &Case, daemon: &Daemon, path: &str) -> Command {
    let mut command = daemon.doctor(case);
    command.args(["--seconds", "1", "--dir"]).arg(case.local("")).arg(daemon.url(path));
    command
}

#[test]
fn doctor_examines_this_host_alone() {
    let case = Case::new("doctor_examines_this_host_alone");
    let mut command = case.fobs(Side::Client);
    let finished = case.run(command.args(["doctor", "--dir"]).arg(case.local(""))).expect_success();
    let text = String::from_utf8(finished.stdout).expect("text");
    assert!(text.starts_with("This host:\n"), "{text}");
    for name in ["socket buffers", "offloads", "cipher", "hash", "disk", "memory"] {
        assert!(text.contains(&format!("  {name:15} ")), "{name}: {text}");
    }
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    let marks = ["[>] type: ", "[!] limits: sending about ", "[+] fine: "];
    assert!(last.iter().zip(marks).all(|(line, mark)| line.starts_with(mark)), "{text}");
    assert!(names(&case.local("")).is_empty());
}

#[test]
fn doctor_examines_a_daemon_and_the_path() {
    let case = Case::new("doctor_examines_a_daemon_and_the_path");
    let mut daemon = Daemon::start(&case, "read-write");
    let finished = case.run(doctor_of_a_daemon(&case, &daemon, "").arg("--json")).expect_success();
    let found = examined(&finished);
    expect_both_ends(&found, &["forth", "back"]);
    let disk = &found["facts"]["there"]["host"]["disk"]["measured"];
    assert!(disk["write_bps"].as_f64().is_some_and(|bps| bps > 0.0), "{found}");
    assert!(names(&daemon.root).is_empty() && names(&case.local("")).is_empty());
    daemon.expect_alive();
}

#[test]
fn a_key_that_may_not_write_has_no_disk_tried() {
    let case = Case::new("a_key_that_may_not_write_has_no_disk_tried");
    let daemon = Daemon::start(&case, "read-only");
    let found = examined(&case.run(doctor_of_a_daemon(&case, &daemon, "").arg("--json")).expect_success());
    expect_both_ends(&found, &["back"]);
    let reason = found["facts"]["there"]["host"]["disk"]["unmeasured"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("may not try the disk: its rights are read-only"), "{found}");
}

#[test]
fn doctor_says_what_this_key_allows() {
    let case = Case::new("doctor_says_what_this_key_allows");
    let daemon = Daemon::start(&case, "write-only,rate=80Mbit");
    let finished = case.run(&mut doctor_of_a_daemon(&case, &daemon, "")).expect_success();
    let text = String::from_utf8(finished.stdout).expect("text");
    assert!(text.contains("this client may push, not pull (write-only)"), "{text}");
    assert!(text.contains("all its copies together at most 80.0 Mbit/s"), "{text}");
    let limits = text.lines().find(|line| line.starts_with("[!] limits: ")).unwrap_or_default();
    // How near the path came to it depends on what else runs here.
    assert!(limits.contains("[!] limits: to "), "{limits}");
    assert!(limits.contains("nothing: this key does not allow it"), "{limits}");
}

#[test]
fn doctor_does_not_leave_the_served_directory() {
    let case = Case::new("doctor_does_not_leave_the_served_directory");
    let daemon = Daemon::start(&case, "read-write");
    for path in ["../..", "no/such/place"] {
        let mut command = doctor_of_a_daemon(&case, &daemon, path);
        let found = examined(&case.run(command.arg("--json")).expect_success());
        let disk = &found["facts"]["there"]["host"]["disk"];
        assert!(disk["unmeasured"]["reason"].as_str().is_some(), "{path}: {disk}");
    }
}

#[test]
fn an_unknown_key_is_not_answered_by_the_doctor() {
    let case = Case::new("an_unknown_key_is_not_answered_by_the_doctor");
    let known = Key::generate(&case, "client-key");
    let (server, unknown) = (Key::generate(&case, "server-key"), Key::generate(&case, "unknown-key"));
    let daemon = Daemon::start_with(&case, Spec::new(&case, &[("read-write", &known)], &server));
    let mut command = daemon.doctor(&case);
    // The later one counts.
    command.arg("--json").arg("-i").arg(&unknown.file).arg(daemon.url(""));
    let finished = case.run(&mut command).expect_code(5);
    assert!(finished.failed()["message"].as_str().is_some_and(|said| said.contains("authorized keys")));
}

#[test]
fn doctor_examines_a_host_over_ssh() {
    let case = Case::new("doctor_examines_a_host_over_ssh");
    let sshd = Sshd::start(&case);
    let mut command = sshd.doctor(&case);
    command.args(["--json", "--seconds", "1", "--dir"]).arg(case.local("")).arg(sshd.location(""));
    let found = examined(&case.run(&mut command).expect_success());
    expect_both_ends(&found, &["forth", "back"]);
    assert!(found["facts"]["there"]["host"]["disk"]["measured"].is_object(), "{found}");
    assert!(names(&sshd.root).is_empty());
}

#[test]
fn doctor_says_at_which_end_udp_is_blocked() {
    let name = "doctor_says_at_which_end_udp_is_blocked";
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    let daemon = Daemon::start(&case, "read-write");
    for (side, words) in [(Side::Server, "do not arrive there"), (Side::Client, "arrive at UDP port")] {
        case.net.iptables(side, "-A INPUT -p udp -j DROP");
        let finished = case.run(&mut doctor_of_a_daemon(&case, &daemon, "")).expect_code(35);
        let text = String::from_utf8(finished.stdout).expect("text");
        assert!(text.contains(words), "{side:?}: {text}");
        let last: Vec<&str> = text.lines().rev().take(2).collect();
        let words = ["iptables -A INPUT", "UDP carries no data between here and"];
        assert!(last.iter().zip(words).all(|(line, words)| line.contains(words)), "{text}");
        case.net.iptables(side, "-D INPUT -p udp -j DROP");
    }
}
